"""Fixed-point functions as expressions; see `neurald.hal.operations.arithmetic.gemmlowp`.

Numbers are INT64 expressions unless stated otherwise.
"""

import math
from collections.abc import Callable

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, clamp, constant, load, maximum, minimum, select
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.lowering.arithmetic.quantized import fixed_point
from neurald.hal.operations.arithmetic import gemmlowp as functions
from neurald.hal.operations.machinery.call import Array

_INT16, _INT32 = np.iinfo(np.int16), np.iinfo(np.int32)
_EVERY_INT16 = np.arange(_INT16.min, _INT16.max + 1)
_NEWTON_STEPS = 5

#: A function of one number.
Curve = Callable[[Expression], Expression]


def int64_constant(value: int) -> Expression:
    """Returns an INT64 constant."""
    return constant(value, Scalar.INT64)


def saturate16(value: Expression) -> Expression:
    """Clamps to 16 bits."""
    return clamp(value, _INT16.min, _INT16.max)


def saturate32(value: Expression) -> Expression:
    """Clamps to 32 bits."""
    return clamp(value, _INT32.min, _INT32.max)


def shift_right(value: Expression, bits: int) -> Expression:
    """Divides by 2^bits, rounded to nearest with ties away from zero."""
    if bits == 0:
        return value
    half = 1 << (bits - 1)
    return (value + select(value < 0, int64_constant(half - 1), half)) >> bits


def product16(first: Expression, second: Expression) -> Expression:
    """Multiplies 16-bit fixed-point numbers; the integer bits of the factors add up."""
    return minimum((first * second + (1 << 14)) >> 15, _INT16.max)


def scaled(value: Expression, multiplier: tuple[int, int]) -> Expression:
    """Clamps to 32 bits and multiplies by a quantised multiplier."""
    mantissa, exponent = (constant(part, Scalar.INT32) for part in multiplier)
    return fixed_point(saturate32(value), mantissa, exponent)


def sigmoid16(builder: Builder) -> Curve:
    """Returns a table of the logistic function for 16-bit numbers with 3 integer bits."""
    return _tabulated(builder, functions.sigmoid16(_EVERY_INT16))


def tanh16(builder: Builder, integer_bits: int) -> Curve:
    """Returns a table of tanh for 16-bit numbers with `integer_bits` integer bits."""
    return _tabulated(builder, functions.tanh16(_EVERY_INT16, integer_bits))


def _tabulated(builder: Builder, results: Array) -> Curve:
    table = builder.constant(results)

    def curve(value: Expression) -> Expression:
        index = value.to(Scalar.INT16).to(Scalar.INDEX) - int(_INT16.min)
        return load(table, (index,)).to(Scalar.INT64)

    return curve


def _product32(first: Expression, second: Expression) -> Expression:
    return minimum((first * second + (1 << 30)) >> 31, _INT32.max)


def bit_length(value: Expression) -> Expression:
    """Returns the bit length of an INT64 in [0, 2^32), as INT64."""
    bits: Expression = int64_constant(0)
    for step in (16, 8, 4, 2, 1):
        is_longer = value >= 1 << step
        bits = bits + select(is_longer, int64_constant(step), 0)
        value = select(is_longer, value >> step, value)
    return bits + value


def inverse_square_root(value: Expression) -> tuple[Expression, Expression]:
    """Returns 1 / √value as mantissa and exponent of a quantised multiplier.

    The value is an integer from 0 to 2^31 - 1; 0 counts as 1.
    """
    is_large = value >= (1 << 29)
    reduced = select(is_large, value >> 2, maximum(value, 2))
    pairs = ((31 - bit_length(reduced)) >> 1) - 1
    shift = select(is_large, int64_constant(12), 11) - pairs
    number = (reduced << (pairs * 2)) >> 1
    half = shift_right(number, 1)
    root = int64_constant(1 << 28)
    for _ in range(_NEWTON_STEPS):
        cube = saturate32(_product32(_product32(root, root), root) << 6)
        root = saturate32((_product32(int64_constant(3 << 27), root) - _product32(half, cube)) << 3)
    root = _product32(root, int64_constant(round(math.sqrt(0.5) * (1 << 31))))
    is_one = value <= 1
    mantissa = select(is_one, int64_constant(_INT32.max), root << maximum(-shift, 0))
    return mantissa, select(is_one, int64_constant(0), -maximum(shift, 0))
