"""Lowers BITWISE_XOR, RIGHT_SHIFT, and StableHLO's AND and SHIFT_LEFT."""

from neurald.drivers.compiler.ir.expression import Expression, clamp, select
from neurald.drivers.compiler.lowering.elementwise.pointwise import TWO, lower
from neurald.hal.model.operation_type import OperationType


def _within(bits: Expression) -> Expression:
    """Clamps to the valid shift amounts of the type."""
    return clamp(bits, 0, 8 * bits.type.size_bytes - 1)


def _shift_left(value: Expression, bits: Expression) -> Expression:
    """Shifts left; amounts that are negative or too large yield 0."""
    within = _within(bits)
    return select(bits.equals(within), value << within, 0)


LOWERINGS = {
    OperationType.TFLITE_BITWISE_XOR: lower(lambda first, second: first ^ second, TWO),
    OperationType.TFLITE_RIGHT_SHIFT: lower(lambda value, bits: value >> _within(bits), TWO),
    OperationType.TFLITE_STABLEHLO_AND: lower(lambda first, second: first & second, TWO),
    OperationType.TFLITE_STABLEHLO_SHIFT_LEFT: lower(_shift_left, TWO),
}
