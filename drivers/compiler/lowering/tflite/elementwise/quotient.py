"""Lowers DIV of quantised operands: dividend × reciprocal of the divisor in 32-bit fixed point."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, constant, maximum, minimum, select
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import fixed_point, saturate
from neurald.drivers.compiler.lowering.elementwise.pointwise import BINARY_INPUTS, pointwise, table_of
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.tflite.elementwise.arithmetic import reciprocal

#: Mantissa bits of a FLOAT32, and the biased exponent of numbers from 0.5 to 1.
_FRACTION_BITS = 23
_EXPONENT_OF_HALF = 126
#: Bits of a reciprocal's shift.
_SHIFT_BITS = 5
#: The least exponent of FIXED_POINT; smaller ones leave no bits.
_MIN_EXPONENT = -31


def _reciprocals(call: Call) -> Array:
    """Returns each divisor's reciprocal with the shift in its low bits; see `reciprocal`.

    0 counts as 1.
    """
    magnitudes = np.abs(call.array("input2").astype(np.int64) - call.operand("input2").zero_point)
    inverses, shifts = reciprocal(np.maximum(magnitudes, 1))
    return inverses << _SHIFT_BITS | shifts


def _bits(value: Expression) -> Expression:
    """Returns the bit length of a non-negative INT32 below 2^24."""
    exponent = apply(Op.REINTERPRET, value.to(Scalar.FLOAT32), type=Scalar.INT32) >> _FRACTION_BITS
    return select(value.equals(0), 0, exponent - _EXPONENT_OF_HALF)


def quantized_quotient(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers DIV; see `neurald.hal.operations.tflite.elementwise.arithmetic`."""
    one, two, output = (call.operand(name) for name in (*BINARY_INPUTS, "output"))
    scale = np.float32(one.scale) / (np.float32(two.scale) * np.float32(output.scale))
    mantissa, exponent = quantize_multiplier(float(scale))
    reciprocals = table_of(call, builder, "input2", _reciprocals)

    def element(first: Expression, second: Expression) -> Expression:
        inverse = reciprocals(second)
        over_unit = (inverse & ((1 << _SHIFT_BITS) - 1)).to(Scalar.INT32)
        difference = first.to(Scalar.INT32) - one.zero_point
        dividend = select(second.to(Scalar.INT32) < two.zero_point, -difference, difference)
        headroom = 31 - _bits(dividend ^ (dividend >> 31))
        product = (dividend.to(Scalar.INT64) << headroom.to(Scalar.INT64)) * (inverse >> _SHIFT_BITS)
        unscaled = minimum((product + (1 << 30)) >> 31, (1 << 31) - 1)
        shift = exponent - (over_unit + headroom)
        kept = maximum(shift, _MIN_EXPONENT)
        scaled = fixed_point(unscaled, constant(mantissa, Scalar.INT32), kept)
        result = select(shift < _MIN_EXPONENT, 0, scaled)
        return saturate(result + output.zero_point, output, call.activation)

    def requirements(_: Expression, second: Expression) -> tuple[tuple[Expression, str], ...]:
        is_divisor = second.to(Scalar.INT32).differs(two.zero_point)
        return ((is_divisor, "a divisor is 0; non-zero divisors are expected"),)

    return pointwise(call, builder, BINARY_INPUTS, element, requirements)
