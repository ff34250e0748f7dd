"""Recognises attention whose weights are the softmax of each row of scores.

Only a softmax can be computed online: while scores are known for a part of the row, sums of
weighted values are kept for the largest score so far, and scaled when a larger one appears. How the
exponents follow from the scores does not matter: scales and masks of every kind are kept as
expressions. Values between that relaxed models round to FLOAT16 are not rounded.
"""

from dataclasses import dataclass

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Constant,
    Expression,
    Load,
    Reduce,
    constant,
)
from neurald.drivers.compiler.ir.graph import Attention
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, rewrite, substitute, walk
from neurald.drivers.opencl.platform.precision import without_rounding


@dataclass(frozen=True, slots=True)
class SoftmaxForm:
    """Attention with the weights exp(scale · (exponent - largest)) / sum.

    Attributes:
        exponent: FLOAT32 at (b, m, n); an `AccumulatorRef` is the product of query and key.
        scale: a positive number.
    """

    exponent: Expression
    scale: float


def softmax_form(node: Attention) -> SoftmaxForm | None:
    """Returns an attention's exponents, or None if the weights are not a softmax."""
    _, _, column, _, _ = node.axes
    weights = _wide(node.weights)
    sums = [each for each in walk(weights) if isinstance(each, Reduce) and each.reduction is ReductionOp.SUM]
    if len(sums) != 1 or len(sums[0].axes) != 1:
        return None
    power = _along(sums[0], column)
    if weights not in (power / sums[0], power * (constant(1.0, Scalar.FLOAT32) / sums[0])):
        return None
    if not isinstance(power, Apply) or power.op is not Op.EXP:
        return None
    found = _unscaled(power.operands[0])
    if found is None:
        return None
    difference, scale = found
    if not isinstance(difference, Apply) or difference.op is not Op.SUBTRACT:
        return None
    element, largest = difference.operands
    is_largest = isinstance(largest, Reduce) and largest.reduction is ReductionOp.MAXIMUM
    if not is_largest or not isinstance(largest, Reduce) or len(largest.axes) != 1:
        return None
    if _along(largest, column) is not element or not 0 < scale < float("inf"):
        return None
    return _with_scores(node, element, scale)


def _with_scores(node: Attention, element: Expression, scale: float) -> SoftmaxForm | None:
    """Replaces the score that an exponent depends on by its expression."""
    batch, row, column, _, _ = node.axes
    score = _wide(node.score)

    def replacement(expression: Expression) -> Expression | None:
        is_score = isinstance(expression, Load) and expression.value is node.scores
        return score.to(expression.type) if is_score else None

    exponent = _wide(rewrite(element, replacement, {}))
    if free_axes(exponent) - {batch, row, column} or any(isinstance(each, Reduce) for each in walk(exponent)):
        return None
    return SoftmaxForm(exponent=exponent, scale=scale)


def _along(reduction: Reduce, column: Axis) -> Expression:
    """Returns the body of a reduction of a row at a column."""
    return substitute(reduction.body, {reduction.axes[0]: column})


def _unscaled(expression: Expression) -> tuple[Expression, float] | None:
    """Splits off a constant factor."""
    if not isinstance(expression, Apply) or expression.op is not Op.MULTIPLY:
        return expression, 1.0
    first, second = expression.operands
    for factor, other in ((first, second), (second, first)):
        if isinstance(factor, Constant):
            return other, float(factor.value)
    return None


def _wide(expression: Expression) -> Expression:
    """Removes roundings of FLOAT32 to FLOAT16; the result is FLOAT32."""
    return rewrite(expression.to(Scalar.FLOAT32), without_rounding, {})
