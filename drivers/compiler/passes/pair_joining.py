"""Joins the two parts of complex numbers that are moved alike.

The parts are lowered one after the other, and selected by the last index. If both come from the
same place, but for that index, the element at it is loaded. The movement is then one of contiguous
pairs.
"""

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Load, load
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.kernel_rewriting import rewrite_kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.hal.records import replace


def join_pairs(graph: FusedGraph) -> FusedGraph:
    """Returns the graph with joined pairs."""
    return replace(graph, kernels=tuple(map(_joined, graph.kernels)))


def _joined(kernel: Kernel) -> Kernel:
    if not kernel.axes or not _has_parts(kernel.axes[-1]):
        return kernel
    return rewrite_kernel(kernel, _joined_load, kernel.axes)


#: The last indices of the parts.
_PARTS = (0, 1)


def _joined_load(expression: Expression) -> Expression | None:
    """Returns the load that a selection of two loads is, or None if it is something else."""
    if not isinstance(expression, Apply) or expression.op is not Op.SELECT:
        return None
    condition, first, second = expression.arguments
    if not isinstance(condition, Apply) or condition.op is not Op.EQUAL:
        return None
    part, zero = condition.arguments
    if not isinstance(part, Axis) or not _has_parts(part) or _number(zero) != 0:
        return None
    if not isinstance(first, Load) or not isinstance(second, Load) or first.value is not second.value:
        return None
    if first.guard is not second.guard or first.otherwise is not second.otherwise:
        return None
    differing = [
        dimension
        for dimension, (one, other) in enumerate(zip(first.index, second.index, strict=True))
        if one is not other
    ]
    if len(differing) != 1:
        return None
    (at,) = differing
    if (_number(first.index[at]), _number(second.index[at])) != _PARTS:
        return None
    index = (*first.index[:at], part, *first.index[at + 1 :])
    return load(first.value, index, first.guard, first.otherwise)


def _has_parts(axis: Axis) -> bool:
    # Comparing a length that is not known would exclude it.
    return not isinstance(axis.extent, Extent) and axis.extent == len(_PARTS)


def _number(expression: Expression) -> object:
    return expression.value if isinstance(expression, Constant) else None
