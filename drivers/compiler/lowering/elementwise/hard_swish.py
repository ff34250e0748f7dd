"""Lowers HARD_SWISH: x * min(max(x + 3, 0), 6) / 6."""

from neurald.drivers.compiler.ir.expression import Expression, clamp
from neurald.drivers.compiler.lowering.elementwise.unary import lower_unary
from neurald.hal.model.operation_type import OperationType


def _hard_swish(value: Expression) -> Expression:
    # A product is cheaper than a quotient; that of 6 is exactly 1.
    return value * (clamp(value + 3.0, 0.0, 6.0) * (1 / 6))


LOWERINGS = {OperationType.HARD_SWISH: lower_unary(_hard_swish)}
