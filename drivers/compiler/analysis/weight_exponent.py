"""Recognises the exponents of a softmax, which are at most 0."""

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Reduce
from neurald.drivers.compiler.ir.extents.extent import same_length
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.traversal import free_axes, substitute


def is_weight_exponent(expression: Expression) -> bool:
    """Returns True for the difference of an element and the largest one, times a positive constant.

    It is at most 0, or NaN.
    """
    if isinstance(expression, Apply) and expression.op is Op.MULTIPLY:
        difference, factor = expression.arguments
        return isinstance(factor, Constant) and float(factor.value) > 0 and _is_difference(difference)
    return _is_difference(expression)


def _is_difference(expression: Expression) -> bool:
    if not isinstance(expression, Apply) or expression.op is not Op.SUBTRACT:
        return False
    element, largest = expression.arguments
    if not isinstance(largest, Reduce) or largest.reduction is not ReductionOp.MAXIMUM:
        return False
    if len(largest.axes) != 1:
        return False
    (along,) = largest.axes
    return any(
        isinstance(axis, Axis)
        and same_length(axis.extent, along.extent)
        and substitute(largest.body, {along: axis}) is element
        for axis in free_axes(element)
    )
