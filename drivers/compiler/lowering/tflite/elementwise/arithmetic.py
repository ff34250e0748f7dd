"""Lowers broadcasting arithmetic on two operands, and ADD_N."""

from functools import reduce

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, broadcast
from neurald.drivers.compiler.ir.complex_numbers import is_complex
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, constant, index, minimum, select
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import rescale, saturate
from neurald.drivers.compiler.lowering.elementwise.arithmetic import (
    QuantizedBinary,
    floor_divide,
    lower_broadcast,
    quantized_product,
    quantized_sum,
    remainder,
    safe_divisor,
)
from neurald.drivers.compiler.lowering.elementwise.pointwise import (
    BINARY_INPUTS,
    compute_of,
    lower_pointwise,
    pointwise,
    widen,
)
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.drivers.compiler.lowering.tflite.elementwise.quotient import quantized_quotient
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.broadcasting import broadcast_shapes
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.elementwise.arithmetic import DIFFERENCE_SHIFT, sum_shifts

Conditions = tuple[tuple[Expression, str], ...]

#: Powers are clamped to 32 bits; larger exponents cannot change the clamped result.
_MAX_POWER = 1 << 31
_POWER_BITS = 6


def _sum(sign: int) -> QuantizedBinary:
    general = quantized_sum(sign)

    def compute(call: Call, first: Expression, second: Expression) -> Expression:
        shifts = sum_shifts(call)
        if shifts is None:
            return general(call, first, second)
        one, other = (
            _shift_right(value, shift) for value, shift in zip((first, second), shifts, strict=True)
        )
        return one + other if sign > 0 else one - other

    return compute


def _shift_right(value: Expression, bits: int) -> Expression:
    """Shifts right with rounding to nearest, ties away from zero."""
    if bits == 0:
        return value
    bits = min(bits, 31)
    return (value + ((1 << bits) >> 1) + (value >> 63)) >> bits


_PRODUCT = lower_broadcast(lambda first, second: first * second, quantized_product)


def _product(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers MUL; INT16 inputs with an 8-bit output are fractions of 2^15, for any scale."""
    output, int16 = call.operand("output"), OperandType.TENSOR_QUANT16_SYMM
    if is_complex(output.type):
        return _complex_product(call, builder)
    if call.operand("input1").type is not int16 or output.type is int16:
        return _PRODUCT(call, builder)

    def element(first: Expression, second: Expression) -> Expression:
        product = first.to(Scalar.INT32) * second.to(Scalar.INT32) + (1 << 14)
        fraction = minimum(product >> 15, int(np.iinfo(np.int16).max))
        rounded = (fraction + (1 << 7) + (fraction >> 31)) >> 8
        return saturate(rounded + output.zero_point, output, call.activation)

    return pointwise(call, builder, BINARY_INPUTS, element)


def _nonzero_divisor(_: Expression, divisor: Expression) -> Conditions:
    return ((widen(divisor).differs(0), "a divisor is 0; non-zero divisors are expected"),)


def _divide(first: Expression, second: Expression) -> Expression:
    """Divides; integers are truncated."""
    if first.type.is_float:
        return first / second
    quotient = apply(Op.TRUNCATE_DIVIDE, first, safe_divisor(second))
    return select(second.equals(-1), -first, quotient)


_QUOTIENT = lower_broadcast(_divide, requirements=_nonzero_divisor)


def _quotient(call: Call, builder: Builder) -> tuple[Value, ...]:
    return (quantized_quotient if is_quantized(call.operand("output")) else _QUOTIENT)(call, builder)


def _squared_difference(call: Call, builder: Builder) -> tuple[Value, ...]:
    one, other, output = (call.operand(name) for name in (*BINARY_INPUTS, "output"))

    def plain(first: Expression, second: Expression) -> Expression:
        difference = widen(first) - widen(second)
        return (difference * difference).to(first.type)

    def quantized(first: Expression, second: Expression) -> Expression:
        largest = 2.0 * max(one.scale, other.scale)
        parts = [
            rescale(
                (value.to(Scalar.INT64) - operand.zero_point) << DIFFERENCE_SHIFT, operand.scale / largest
            )
            for value, operand in ((first, one), (second, other))
        ]
        difference = parts[0] - parts[1]
        scale = largest * largest / ((1 << 2 * DIFFERENCE_SHIFT) * output.scale)
        return saturate(rescale(difference * difference, scale) + output.zero_point, output)

    return pointwise(call, builder, BINARY_INPUTS, quantized if is_quantized(output) else plain)


def _floor_quotient(first: Expression, second: Expression) -> Expression:
    return first // second if first.type.is_float else floor_divide(first, second)


def _remainder(call: Call, builder: Builder) -> tuple[Value, ...]:
    is_float = call.operand("output").type.dtype.kind == "f"
    return lower_pointwise(remainder, BINARY_INPUTS, None if is_float else _nonzero_divisor)(call, builder)


def _power(call: Call, builder: Builder) -> tuple[Value, ...]:
    if call.operand("output").type.dtype.kind == "f":
        return lower_pointwise(lambda value, exponent: apply(Op.POWER, value, exponent), BINARY_INPUTS)(
            call, builder
        )
    return pointwise(call, builder, BINARY_INPUTS, whole_power, _not_negative)


def _not_negative(_: Expression, exponent: Expression) -> Conditions:
    return ((exponent >= 0, "an integer exponent is negative; at least 0 is expected"),)


def whole_power(value: Expression, exponent: Expression) -> Expression:
    """Raises an integer to a power by squaring, clamped to 32 bits.

    Only 0, 1 and -1 have meaningful larger powers, which depend on the exponent's last bit alone.
    """
    low_bit = exponent & 1
    bits = minimum(exponent, low_bit + ((1 << _POWER_BITS) - 2))
    square: Expression = value.to(Scalar.INT64)
    power: Expression = constant(1, Scalar.INT64)
    for bit in range(_POWER_BITS):
        product = clamp(power * square, -_MAX_POWER, _MAX_POWER)
        power = select(((bits >> bit) & 1).differs(0), product, power)
        square = minimum(square * square, _MAX_POWER)
    return clamp(power, -_MAX_POWER, _MAX_POWER - 1).to(value.type)


def _sum_of_all(call: Call, builder: Builder) -> tuple[Value, ...]:
    def total(*addends: Expression) -> Expression:
        return reduce(lambda first, second: first + second, addends)

    return (compute_of(builder.values(call, "inputs"), builder, total),)


def _complex_product(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Multiplies complex numbers, which are pairs."""
    sources = [builder.pairs(call, name) for name in BINARY_INPUTS]
    shape = broadcast_shapes(*(source.shape[:-1] for source in sources))

    def body(*at: Expression) -> Expression:
        first, second = (
            [broadcast(source, (*at[:-1], index(part))) for part in range(2)] for source in sources
        )
        real = first[0] * second[0] - first[1] * second[1]
        return select(at[-1].equals(0), real, first[0] * second[1] + first[1] * second[0])

    return (builder.compute((*shape, 2), body),)


LOWERINGS: dict[OperationType, Lowering] = {
    OperationType.TFLITE_ADD: lower_broadcast(lambda first, second: first + second, _sum(1)),
    OperationType.TFLITE_SUB: lower_broadcast(lambda first, second: first - second, _sum(-1)),
    OperationType.TFLITE_MUL: _product,
    OperationType.TFLITE_DIV: _quotient,
    OperationType.TFLITE_SQUARED_DIFFERENCE: _squared_difference,
    OperationType.TFLITE_FLOOR_DIV: lower_pointwise(_floor_quotient, BINARY_INPUTS, _nonzero_divisor),
    OperationType.TFLITE_FLOOR_MOD: _remainder,
    OperationType.TFLITE_POW: _power,
    OperationType.TFLITE_ATAN2: lower_pointwise(lambda y, x: apply(Op.ATAN2, y, x), BINARY_INPUTS),
    OperationType.TFLITE_ADD_N: _sum_of_all,
}
