"""Lowers STABLEHLO_GATHER and STABLEHLO_SCATTER."""

import math
from collections.abc import Callable, Sequence

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    clamp,
    constant,
    index,
    load,
    maximum,
    minimum,
    select,
)
from neurald.drivers.compiler.ir.graph import delinearize, inside, linearize
from neurald.drivers.compiler.ir.op import ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.machinery.scatter_sources import (
    ScatterSources,
    combine_sources,
    known_sources,
    last_source,
)
from neurald.drivers.compiler.lowering.movement.indexing import as_index, element, output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.movement.stablehlo_gather_scatter import (
    distinct_axes,
    index_shape,
    scatter_parts,
    scattered_positions,
    slice_sizes,
)

#: Combines the old element with an update.
_Combine = Callable[[Expression, Expression], Expression]
#: The updates that reach a destination, and the index of an update within the slices by its number.
Updates = tuple[ScatterSources, Callable[[Expression], tuple[Expression, ...]]]
UpdatesAt = Callable[[Sequence[Expression]], Updates]

#: STABLEHLO_SCATTER's combinations, by number; 0 replaces elements.
_UPDATES: dict[int, tuple[ReductionOp, _Combine]] = {
    1: (ReductionOp.SUM, lambda old, new: old | new if new.type is Scalar.BOOL else old + new),
    2: (ReductionOp.PRODUCT, lambda old, new: old & new if new.type is Scalar.BOOL else old * new),
    3: (ReductionOp.MINIMUM, lambda old, new: old & new if new.type is Scalar.BOOL else minimum(old, new)),
    4: (ReductionOp.MAXIMUM, lambda old, new: old | new if new.type is Scalar.BOOL else maximum(old, new)),
}


def _start(indices: Value, batch: Sequence[Expression], axis: int, component: int) -> Expression:
    """Returns the start of a slice along an axis."""
    if axis == len(indices.shape):
        return element(indices, batch)
    return element(indices, (*batch[:axis], index(component), *batch[axis:]))


def _gather(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers STABLEHLO_GATHER. Slices are clamped to the input."""
    values, indices = builder.value(call, "input"), builder.value(call, "indices")
    sizes, (shape,) = slice_sizes(call), output_shapes(call)
    collapsed, mapped = (distinct_axes(call, name, len(sizes)) for name in ("collapsed", "mapped"))
    offsets = sorted(distinct_axes(call, "offsets", len(shape)))
    _, axis = index_shape(call, len(mapped))

    def body(*at: Expression) -> Expression:
        batch = [coordinate for dimension, coordinate in enumerate(at) if dimension not in offsets]
        within = iter([at[dimension] for dimension in offsets])
        position = []
        for dimension, (length, size) in enumerate(zip(values.shape, sizes, strict=True)):
            coordinate: Expression = index(0) if dimension in collapsed else next(within)
            if dimension in mapped:
                last = length - size
                number = _start(indices, batch, axis, mapped.index(dimension))
                coordinate = coordinate + clamp(as_index(number, 0, last), 0, last)
            position.append(coordinate)
        return load(values, tuple(position))

    return (builder.compute(shape, body),)


def _slices(call: Call, builder: Builder) -> Value:
    """Returns the updates as (indices, elements of a slice)."""
    updates, (window, _, _, _) = builder.value(call, "updates"), scatter_parts(call)
    order = [*(axis for axis in range(len(updates.shape)) if axis not in window), *window]
    lengths = tuple(updates.shape[axis] for axis in order)
    ordered = builder.compute(
        lengths,
        lambda *at: load(updates, tuple(at[order.index(axis)] for axis in range(len(order)))),
    )
    outer = len(order) - len(window)
    return builder.reshape(ordered, (math.prod(lengths[:outer]), math.prod(lengths[outer:])))


def _slice_lengths(call: Call) -> Shape:
    """Returns the lengths of an update along the input's axes."""
    window, inserted, _, _ = scatter_parts(call)
    lengths = iter(call.shape("updates")[dimension] for dimension in window)
    return tuple(1 if d in inserted else next(lengths) for d in range(len(call.shape("input"))))


def _offsets_in(
    call: Call, builder: Builder, at: Sequence[Expression], row: Expression, *, sign: int
) -> list[Expression]:
    """Moves an index by the start of an update, or back if `sign` is -1.

    Starts so far outside that an update has no element inside may be others outside.
    """
    shape, indices = call.shape("input"), builder.value(call, "indices")
    _, _, mapped, axis = scatter_parts(call)
    sizes, (batches, _) = _slice_lengths(call), index_shape(call, len(mapped))
    batch, indexes = delinearize(row, batches), list(at)
    for component, dimension in enumerate(mapped):
        if dimension < len(indexes):
            number = _start(indices, batch, axis, component)
            start = as_index(number, -sizes[dimension], shape[dimension])
            indexes[dimension] = indexes[dimension] + start * sign
    return indexes


def _in_one_slice(call: Call, builder: Builder) -> UpdatesAt:
    """Finds the elements of the only update, whose position is not known."""
    sizes = _slice_lengths(call)

    def updates_at(at: Sequence[Expression]) -> Updates:
        offsets = _offsets_in(call, builder, at, index(0), sign=-1)
        sources = ScatterSources(axes=(), number=index(0), holds=inside(offsets, sizes))
        return sources, lambda row: (row, linearize(offsets, sizes))

    return updates_at


def _scattered(call: Call, builder: Builder, source: Value, slices: Value, update: int) -> Value:
    """Scatters parts of updates that are contiguous in the input."""
    shape, sizes, (_, _, mapped, _) = source.shape, _slice_lengths(call), scatter_parts(call)
    outer = len(shape)
    while outer and outer - 1 not in mapped and sizes[outer - 1] == shape[outer - 1]:
        outer -= 1
    count, parts, width = slices.shape[0], math.prod(sizes[:outer]), math.prod(sizes[outer:])
    kind = Scalar.INT32 if source.count < 1 << 31 else Scalar.INT64

    def destination(number: Expression) -> Expression:
        at = delinearize(number % parts, sizes[:outer])
        indexes = _offsets_in(call, builder, at, number // parts, sign=1)
        holds = inside(indexes, shape[:outer])
        return select(holds, linearize(indexes, shape[:outer]).to(kind), constant(-1, kind))

    return builder.scatter(
        builder.compute((count * parts,), destination),
        builder.reshape(slices, (count * parts, width)),
        output=shape,
        reduction=_UPDATES[update][0] if update else None,
        base=source,
    )


def _scatter(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers STABLEHLO_SCATTER. Updates outside the input are dropped."""
    source, slices = builder.value(call, "input"), _slices(call, builder)
    if not slices.count:
        return (source,)
    update = call.scalar("update")
    updates_at: UpdatesAt | None = None
    if slices.shape[0] == 1:
        updates_at = _in_one_slice(call, builder)
    elif builder.value(call, "indices").constant is not None:
        updates_at = _known_updates(call, builder, source, slices)
    if updates_at is None:
        return (_scattered(call, builder, source, slices, update),)

    def replaced(*at: Expression) -> Expression:
        sources, coordinate = updates_at(at)
        number, holds = sources.number, sources.holds
        if sources.axes:
            last = last_source(sources).to(Scalar.INDEX)
            number, holds = maximum(last, 0), last >= 0
        return load(slices, coordinate(number), holds, load(source, at))

    def combined(*at: Expression) -> Expression:
        (sources, coordinate), (reduction, function) = updates_at(at), _UPDATES[update]
        neutral = constant(reduction_identity(reduction, source.type), source.type)
        new = combine_sources(
            reduction, sources, load(slices, coordinate(sources.number), sources.holds, neutral)
        )
        return function(load(source, at), new)

    return (builder.compute(source.shape, combined if update else replaced),)


def _known_updates(call: Call, builder: Builder, source: Value, slices: Value) -> UpdatesAt | None:
    """Returns the updates at known indices; None if a table of them would be too large."""
    sources_at = known_sources(builder, scattered_positions(call).reshape(-1), source.count)
    if sources_at is None:
        return None
    return lambda at: (
        sources_at(linearize(at, source.shape)),
        lambda number: delinearize(number, slices.shape),
    )


LOWERINGS = {
    OperationType.TFLITE_STABLEHLO_GATHER: _gather,
    OperationType.TFLITE_STABLEHLO_SCATTER: _scatter,
}
