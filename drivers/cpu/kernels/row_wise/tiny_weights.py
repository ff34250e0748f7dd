"""Softmax without weights that are denormal numbers, or lead to some.

Arithmetic with these takes many processors over a hundred cycles for each vector.
"""

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Reduce, apply, select
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.traversal import rewrite

#: e^x is 0.
_NO_EXPONENT = -200.0


def without_tiny_weights(weights: Expression, least_exponent: float) -> Expression:
    """Replaces those weights of a softmax by 0 whose exponent is less than `least_exponent`.

    The exponent of the largest weight is 0. Other expressions are returned as they are.
    """
    if not is_softmax(weights):
        return weights

    def replacement(expression: Expression) -> Expression | None:
        if not _is_one_of(expression, Op.EXP) or not _is_below_maximum(expression.operands[0]):
            return None
        (exponent,) = expression.operands
        return apply(Op.EXP, select(exponent < least_exponent, _NO_EXPONENT, exponent))

    return rewrite(weights, replacement, {})


def is_softmax(weights: Expression) -> bool:
    """Returns True for powers of e with exponents of at most 0, also if they are scaled."""
    power = weights.operands[0] if _is_one_of(weights, Op.MULTIPLY, Op.DIVIDE) else weights
    return _is_one_of(power, Op.EXP) and _is_below_maximum(power.operands[0])


def _is_below_maximum(exponent: Expression) -> bool:
    """Returns True for the difference of an element and the largest one, times a constant."""
    if _is_one_of(exponent, Op.MULTIPLY) and isinstance(exponent.operands[1], Constant):
        exponent = exponent.operands[0]
    if not _is_one_of(exponent, Op.SUBTRACT):
        return False
    largest = exponent.operands[1]
    return isinstance(largest, Reduce) and largest.reduction is ReductionOp.MAXIMUM


def _is_one_of(expression: Expression, *operations: Op) -> bool:
    return isinstance(expression, Apply) and expression.op in operations
