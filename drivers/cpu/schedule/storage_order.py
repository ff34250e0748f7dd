"""Chooses the element order of values between kernels to match the order of the producer's loads.

A reduction along a dimension other than the last, such as a softmax of transposed data, would have
to gather its input to produce results in the usual order. If only kernels read the results, they
are stored in the order of the input instead.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Load, axis, load
from neurald.drivers.compiler.ir.extents.extent import is_one
from neurald.drivers.compiler.ir.graph import delinearize, linearize
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.kernel_rewriting import rewrite_kernel
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.traversal import free_axes, walk
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes
from neurald.drivers.cpu.emit.int64_narrowing import narrow_int64
from neurald.drivers.cpu.schedule.vectorization import schedule_loops
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Smallest relative saving of the producer's cost that justifies another order; estimates are
#: rough.
_MIN_RELATIVE_SAVING = 0.1
_DIVISIONS = (Op.FLOOR_DIVIDE, Op.MODULO)


def choose_storage_order(graph: FusedGraph, target: Target) -> FusedGraph:
    """Returns the graph with values between its kernels in the best order.

    Args:
        graph: is not changed.
        target: the target of the code.
    """
    kernels = list(graph.kernels)
    readers: dict[Value, list[int]] = {}
    for position, kernel in enumerate(kernels):
        for value in kernel.inputs:
            readers.setdefault(graph.aliases.get(value, value), []).append(position)
    fixed = {*graph.outputs, *graph.aliases, *graph.aliases.values()}
    for position, kernel in enumerate(kernels):
        using = readers.get(kernel.output, [])
        involved = (kernel, *(kernels[each] for each in using))
        if kernel.output in fixed or any(each.contraction is not None for each in involved):
            continue
        found = _reorder(kernel, involved[1:], target)
        if found is not None:
            for each, changed in zip((position, *using), found, strict=True):
                kernels[each] = changed
            readers[kernels[position].output] = using
    return replace(graph, kernels=tuple(kernels))


def _reorder(kernel: Kernel, readers: Sequence[Kernel], target: Target) -> list[Kernel] | None:
    """Returns the kernel with reordered output, and its readers; None if nothing is saved."""
    if not kernel.output.count or not _gathers(kernel):
        return None
    split = _split(kernel)
    order = _order(split.kernel)
    if order is None:
        return None
    shape = tuple(each.extent for each in order)
    value = Value(shape, kernel.output.type, name=kernel.output.name)
    # Its rows are no longer adjacent.
    storing = replace(split.kernel, output=value, axes=order, limit=None)
    positions = tuple(split.kernel.axes.index(each) for each in order)

    def found(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load) or expression.value is not kernel.output:
            return None
        position = split.position(kernel, expression.index)
        index = tuple(position[dimension] for dimension in positions)
        return load(value, index, expression.guard, expression.otherwise)

    reading = [rewrite_kernel(each, found, each.axes) for each in readers]
    own = _cost_ns(kernel, target)
    saved = own - _cost_ns(storing, target)
    saved += sum(
        _cost_ns(before, target) - _cost_ns(after, target)
        for before, after in zip(readers, reading, strict=True)
    )
    return [storing, *reading] if saved >= _MIN_RELATIVE_SAVING * own else None


def _gathers(kernel: Kernel) -> bool:
    """Returns True if neighbouring outputs read from addresses that are not adjacent."""
    last = next((each for each in reversed(kernel.axes) if not is_one(each.extent)), None)
    if last is None:
        return False
    loads = (each for each in walk(*kernel.roots) if isinstance(each, Load))
    return any(stride_along(offset_of(each), last) not in (0, 1) for each in loads)


def _cost_ns(kernel: Kernel, target: Target) -> float:
    return (
        schedule_loops(simplify_axes(narrow_int64(kernel)), target).cost_ns
        if math.prod(kernel.shape)
        else 0.0
    )


class _Split(Struct, frozen=True, kw_only=True):
    """A kernel with some axes split, in the same order.

    Attributes:
        kernel: the result.
        extents: for each original axis, the extents of its parts.
    """

    kernel: Kernel
    extents: tuple[Shape, ...]

    def position(self, before: Kernel, index: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Converts an index of the original output to an index over the new axes."""
        if before.output.shape != before.shape:
            index = delinearize(linearize(index, before.output.shape), before.shape)
        return tuple(
            part
            for position, extents in zip(index, self.extents, strict=True)
            for part in ((position,) if len(extents) == 1 else delinearize(position, extents))
        )


def _split(kernel: Kernel) -> _Split:
    """Splits axes that only occur in quotients and remainders by one number."""
    axes: list[tuple[Axis, ...]] = [(each,) for each in kernel.axes]
    while True:
        divisors = _divisors(kernel)
        if not divisors:
            break
        along, divisor = divisors.popitem()
        outer, inner = axis(along.extent // divisor, along.name), axis(divisor, along.name)
        mapping: Mapping[Expression, Expression] = {along: outer * divisor + inner}
        axes = [
            tuple(part for each in group for part in ((outer, inner) if each is along else (each,)))
            for group in axes
        ]
        kernel = rewrite_kernel(kernel, mapping.get, (each for group in axes for each in group))
    return _Split(kernel=kernel, extents=tuple(tuple(each.extent for each in group) for group in axes))


def _divisors(kernel: Kernel) -> dict[Axis, int]:
    """Maps axes to the numbers they are divided by; to the largest if there are several."""
    found: dict[Axis, int] = {}
    for each in walk(*kernel.roots):
        if not isinstance(each, Apply) or each.op not in _DIVISIONS:
            continue
        whole, divisor = each.arguments
        if isinstance(whole, Axis) and whole in kernel.axes and isinstance(divisor, Constant):
            number = divisor.low
            if 1 < number < whole.extent and whole.extent % number == 0:
                found[whole] = max(number, found.get(whole, 0))
    return found


def _order(kernel: Kernel) -> tuple[Axis, ...] | None:
    """Returns the axes in the memory order of the largest load; None if unchanged or unknown."""
    loads = [each for each in walk(*kernel.roots) if isinstance(each, Load) and each.guard is None]
    if not loads:
        return None
    largest = max(loads, key=lambda each: math.prod(axis.extent for axis in free_axes(offset_of(each))))
    offset = offset_of(largest)
    strides = {each: stride_along(offset, each) for each in kernel.axes}
    known = {each: stride for each, stride in strides.items() if stride is not None}
    if len(known) < len(strides):
        return None
    order = tuple(sorted(kernel.axes, key=lambda each: (known[each] != 0, -known[each])))
    moving = [each for each in order if not is_one(each.extent)]
    return None if moving == [each for each in kernel.axes if not is_one(each.extent)] else order
