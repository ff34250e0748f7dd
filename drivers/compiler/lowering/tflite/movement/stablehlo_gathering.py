"""Slices picked and written where indexes say: STABLEHLO_GATHER, STABLEHLO_SCATTER."""

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
)
from neurald.drivers.compiler.ir.graph import flat, inside, unflat
from neurald.drivers.compiler.ir.op import Fold, fold_start
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.movement.indexing import as_index, element, output_shapes
from neurald.drivers.compiler.lowering.movement.scatter import (
    Arrivals,
    all_arrivals,
    expect_little,
    folded,
    known_arrivals,
    last_arrival,
)
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.movement.stablehlo_gathering import (
    different_axes,
    index_shape,
    scatter_parts,
    scattered_places,
    slice_sizes,
)

#: Gives an element from what was there and what comes there.
Function = Callable[[Expression, Expression], Expression]
#: What comes to a place; and where among the slices an update is, from its number.
Updates = tuple[Arrivals, Callable[[Expression], tuple[Expression, ...]]]
UpdatesAt = Callable[[Sequence[Expression]], Updates]

#: What STABLEHLO_SCATTER does with elements and updates, by number; 0 replaces them.
_UPDATES: dict[int, tuple[Fold, Function]] = {
    1: (Fold.SUM, lambda old, new: old | new if new.type is Scalar.BOOL else old + new),
    2: (Fold.PRODUCT, lambda old, new: old & new if new.type is Scalar.BOOL else old * new),
    3: (Fold.MINIMUM, lambda old, new: old & new if new.type is Scalar.BOOL else minimum(old, new)),
    4: (Fold.MAXIMUM, lambda old, new: old | new if new.type is Scalar.BOOL else maximum(old, new)),
}


def _start(indices: Value, batch: Sequence[Expression], axis: int, component: int) -> Expression:
    """Where along an axis a slice starts, as the indexes say."""
    if axis == len(indices.shape):
        return element(indices, batch)
    return element(indices, (*batch[:axis], index(component), *batch[axis:]))


def _gather(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Slices that would leave the input are moved back into it."""
    values, indices = builder.value(call, "input"), builder.value(call, "indices")
    sizes, (shape,) = slice_sizes(call), output_shapes(call)
    collapsed, mapped = (different_axes(call, name, len(sizes)) for name in ("collapsed", "mapped"))
    offsets = sorted(different_axes(call, "offsets", len(shape)))
    _, axis = index_shape(call, len(mapped))

    def body(*at: Expression) -> Expression:
        batch = [place for dimension, place in enumerate(at) if dimension not in offsets]
        within = iter([at[dimension] for dimension in offsets])
        position = []
        for dimension, (length, size) in enumerate(zip(values.shape, sizes, strict=True)):
            place: Expression = index(0) if dimension in collapsed else next(within)
            if dimension in mapped:
                last = length - size
                number = _start(indices, batch, axis, mapped.index(dimension))
                place = place + clamp(as_index(number, 0, last), 0, last)
            position.append(place)
        return load(values, tuple(position))

    return (builder.compute(shape, body),)


def _slices(call: Call, builder: Builder) -> Value:
    """The updates slice by slice: (indexes, elements of a slice)."""
    updates, (window, _, _, _) = builder.value(call, "updates"), scatter_parts(call)
    order = [*(axis for axis in range(len(updates.shape)) if axis not in window), *window]
    lengths = tuple(updates.shape[axis] for axis in order)
    ordered = builder.compute(
        lengths,
        lambda *at: load(updates, tuple(at[order.index(axis)] for axis in range(len(order)))),
    )
    outer = len(order) - len(window)
    return builder.reshape(ordered, (math.prod(lengths[:outer]), math.prod(lengths[outer:])))


def _compared(call: Call, builder: Builder, count: int) -> UpdatesAt:
    """For each place, every index says whether its slice has the place."""
    source, indices = builder.value(call, "input"), builder.value(call, "indices")
    window, inserted, mapped, axis = scatter_parts(call)
    batches, _ = index_shape(call, len(mapped))
    lengths = iter(call.shape("updates")[dimension] for dimension in window)
    sizes: Shape = tuple(1 if d in inserted else next(lengths) for d in range(len(source.shape)))
    if count > 1:
        expect_little(count, source.count)

    def offsets(at: Sequence[Expression], row: Expression) -> list[Expression]:
        """Where inside of a slice a position lies, if it does."""
        batch, places = unflat(row, batches), list(at)
        for component, dimension in enumerate(mapped):
            number = _start(indices, batch, axis, component)
            start = as_index(number, -sizes[dimension], source.shape[dimension])
            places[dimension] = places[dimension] - start
        return places

    def updates_at(at: Sequence[Expression]) -> Updates:
        arrivals = all_arrivals(count, lambda row: inside(offsets(at, row), sizes))
        return arrivals, lambda row: (row, flat(offsets(at, row), sizes))

    return updates_at


def _scatter(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Elements of updates that would lie outside of the input are left out."""
    source, slices = builder.value(call, "input"), _slices(call, builder)
    if not slices.count:
        return (source,)
    count = slices.shape[0]
    if count == 1 or builder.value(call, "indices").constant is None:
        updates_at = _compared(call, builder, count)
    else:
        arrivals_at = known_arrivals(builder, scattered_places(call).reshape(-1), source.count)

        def updates_at(at: Sequence[Expression]) -> Updates:
            return arrivals_at(flat(at, source.shape)), lambda number: unflat(number, slices.shape)

    update = call.scalar("update")

    def replaced(*at: Expression) -> Expression:
        arrivals, place = updates_at(at)
        number, holds = arrivals.number, arrivals.holds
        if arrivals.axes:
            last = last_arrival(arrivals).to(Scalar.INDEX)
            number, holds = maximum(last, 0), last >= 0
        return load(slices, place(number), holds, load(source, at))

    def combined(*at: Expression) -> Expression:
        (arrivals, place), (fold, function) = updates_at(at), _UPDATES[update]
        neutral = constant(fold_start(fold, source.type), source.type)
        new = folded(fold, arrivals, load(slices, place(arrivals.number), arrivals.holds, neutral))
        return function(load(source, at), new)

    return (builder.compute(source.shape, combined if update else replaced),)


LOWERINGS = {
    OperationType.TFLITE_STABLEHLO_GATHER: _gather,
    OperationType.TFLITE_STABLEHLO_SCATTER: _scatter,
}
