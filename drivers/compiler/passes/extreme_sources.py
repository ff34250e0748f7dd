"""Takes extremes over values that only move or pad others from these others.

Extremes do not depend on the order of the elements, but the reduction is fastest in the order in
which they are stored. Hybrid operations look for the range of values that are often transposed and
padded, since PyTorch has the channels of images and sequences first.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Constant,
    Expression,
    Load,
    Reduce,
    apply,
    axis,
    constant,
    load,
    reduce,
)
from neurald.drivers.compiler.ir.extents.extent import same_length, same_shape
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.op import COMPARISONS, EXTREMES, Op, ReductionOp
from neurald.drivers.compiler.ir.traversal import free_axes, loads, rewrite, substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace

#: Index of each dimension of a value; None for those over which a reduction goes.
_Position: TypeAlias = Sequence[Expression | None]

_COMBINERS = {
    ReductionOp.MINIMUM: Op.MINIMUM,
    ReductionOp.MAXIMUM: Op.MAXIMUM,
    ReductionOp.MAXIMUM_NUMBER: Op.MAXIMUM,
}
#: Operations that make no NaN of numbers.
_NUMERIC = COMPARISONS | {Op.SELECT, Op.NEGATE, Op.ABSOLUTE}


def take_extremes_of_sources(graph: Graph) -> bool:
    """Reduces the sources of values that are rearranged and padded. Returns True if there were any.

    Other readers of these values are not affected.
    """
    producers = graph.producers()
    is_changed = False
    for position, node in enumerate(graph.nodes):
        if not isinstance(node, Compute) or not any(_is_extreme(each) for each in walk(node.body)):
            continue
        operations = set(node.operations)

        def moved(each: Expression, operations: set[int] = operations) -> Expression | None:
            return _of_sources(each, producers, operations) if _is_extreme(each) else None

        body = rewrite(node.body, moved, {})
        if body is not node.body:
            graph.nodes[position] = replace(node, body=body, operations=tuple(sorted(operations)))
            is_changed = True
    return is_changed


def _is_extreme(expression: Expression) -> bool:
    return isinstance(expression, Reduce) and expression.reduction in EXTREMES


def _of_sources(
    reduction: Expression, producers: Mapping[Value, Node], operations: set[int]
) -> Expression | None:
    """Returns the extreme of the sources, if there are any, and adds the producers' operations."""
    extreme, paddings = reduction, []
    while isinstance(extreme, Reduce):
        loaded = _whole_load(extreme)
        producer = None if loaded is None else producers.get(loaded.value)
        if loaded is None or not isinstance(producer, Compute) or _is_conditional(producer):
            break
        position = [None if each in extreme.axes else each for each in loaded.index]
        padding = _padding(extreme, producer, position)
        found = padding or _viewed(producer, position) or _transposed(producer, position)
        if found is None:
            break
        if padding is not None:
            paddings.append(substitute(extreme.body, {loaded: padding[2]}))
        extreme = _over(extreme, loaded, *found[:2])
        operations.update(producer.operations)
    if extreme is reduction:
        return None
    assert isinstance(reduction, Reduce)  # noqa: S101 - or there would be no loop
    for each in paddings:
        extreme = apply(_COMBINERS[reduction.reduction], extreme, each)
    return extreme


def _is_conditional(node: Compute) -> bool:
    return bool(node.requirements) or node.limit is not None


def _whole_load(reduction: Reduce) -> Load | None:
    """Returns the only load that depends on the reduction's axes, if it reads whole dimensions."""
    axes = frozenset(reduction.axes)
    moving = [each for each in loads(reduction.body) if axes & free_axes(each)]
    if len(moving) != 1 or moving[0].guard is not None:
        return None
    loaded = moving[0]
    along = [each for each in loaded.index if each in axes]
    others = [each for each in loaded.index if each not in axes]
    rest = substitute(reduction.body, {loaded: constant(0, loaded.type)})
    # A load has 0 instead of axes of length 1.
    if len(along) != sum(each.extent != 1 for each in axes) or axes & free_axes(rest):
        return None
    lengths = zip(loaded.index, loaded.value.shape, strict=True)
    is_whole = all(same_length(at.high + 1, length) for at, length in lengths if at in axes)
    return None if not is_whole or any(axes & free_axes(each) for each in others) else loaded


def _over(reduction: Reduce, loaded: Load, source: Value, position: _Position) -> Expression:
    """Returns the reduction over a source's elements instead of the loaded ones."""
    axes = [axis(length, f"r{dimension}") for dimension, length in enumerate(source.shape)]
    index = tuple(along if at is None else at for at, along in zip(position, axes, strict=True))
    body = substitute(reduction.body, {loaded: load(source, index)})
    over = tuple(each for at, each in zip(position, axes, strict=True) if at is None)
    return reduce(reduction.reduction, over, body)


def _viewed(producer: Compute, position: _Position) -> tuple[Value, _Position] | None:
    """Returns the value that the producer reshapes, and the position in it, if there is one."""
    source, shape = producer.aliased_input, producer.output.shape
    if source is None:
        return None
    kept = [dimension for dimension, at in enumerate(position) if at is not None and shape[dimension] != 1]
    leading = kept[-1] + 1 if kept else 0
    # Only leading dimensions of the same lengths are sure to have the same elements behind them.
    if None in position[:leading] or not same_shape(shape[:leading], source.shape[:leading]):
        return None
    return source, (*position[:leading], *(None,) * (len(source.shape) - leading))


def _transposed(producer: Compute, position: _Position) -> tuple[Value, _Position] | None:
    """Returns the value whose dimensions the producer reorders, and the position in it."""
    body = producer.body
    if not isinstance(body, Load) or body.guard is not None:
        return None
    source, places = body.value, dict(zip(producer.axes, position, strict=True))
    moved = [each for each in body.index if each in places]
    is_whole = all(
        same_length(at.high + 1, length) if at in places else length == 1
        for at, length in zip(body.index, source.shape, strict=True)
    )
    if not is_whole or len(moved) != len(set(moved)) or not same_length(source.count, producer.output.count):
        return None
    return source, tuple(places.get(at, at) for at in body.index)  # type: ignore[call-overload]


def _padding(
    reduction: Reduce, producer: Compute, position: _Position
) -> tuple[Value, _Position, Constant] | None:
    """Returns the value that the producer pads, the position in it and the padding, if known.

    Positions of dimensions that are not reduced must be the same.
    """
    if producer.padding is None:
        return None
    source, pads, value = producer.padding
    is_kept = all(pair == (0, 0) for at, pair in zip(position, pads, strict=True) if at is not None)
    is_some = any(isinstance(each, int) and each > 0 for pair in pads for each in pair)
    if not is_kept or not is_some or value.value != value.value:
        return None
    operations = [each.op for each in walk(reduction.body) if isinstance(each, Apply)]
    if reduction.reduction is ReductionOp.MAXIMUM_NUMBER and not _NUMERIC.issuperset(operations):
        return None
    return source, position, value
