"""Lowers BITWISE_XOR, RIGHT_SHIFT, and StableHLO's AND and SHIFT_LEFT."""

from neurald.drivers.compiler.ir.expression import Expression, clamp, select
from neurald.drivers.compiler.lowering.elementwise.pointwise import BINARY_INPUTS, lower_pointwise
from neurald.hal.model.operation_type import OperationType


def _within(bits: Expression) -> Expression:
    """Clamps to the valid shift amounts of the type."""
    return clamp(bits, 0, 8 * bits.type.size_bytes - 1)


def _shift_left(value: Expression, bits: Expression) -> Expression:
    """Shifts left; amounts that are negative or too large yield 0."""
    within = _within(bits)
    return select(bits.equals(within), value << within, 0)


LOWERINGS = {
    OperationType.TFLITE_BITWISE_XOR: lower_pointwise(lambda first, second: first ^ second, BINARY_INPUTS),
    OperationType.TFLITE_RIGHT_SHIFT: lower_pointwise(
        lambda value, bits: value >> _within(bits), BINARY_INPUTS
    ),
    OperationType.TFLITE_STABLEHLO_AND: lower_pointwise(lambda first, second: first & second, BINARY_INPUTS),
    OperationType.TFLITE_STABLEHLO_SHIFT_LEFT: lower_pointwise(_shift_left, BINARY_INPUTS),
}
