"""What lowerings share that move elements: parts taken and put together, and positions that come from data."""

from collections.abc import Iterator, Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.complex_numbers import is_complex, value_shape
from neurald.drivers.compiler.ir.expression import (
    Constant,
    Expression,
    clamp,
    constant,
    index,
    load,
)
from neurald.drivers.compiler.ir.graph import flat, inside, unflat
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call

#: More are joined group by group: a kernel cannot read any number of values.
_JOINED_AT_ONCE = 32
_INT32_MAXIMUM = 2**31 - 1


def output_shapes(call: Call) -> tuple[Shape, ...]:
    """What the operation's shape rule says."""
    return DEFINITIONS[call.binding.type].shape(call)


def known_results(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers what follows from shapes, or from arguments that must be known."""
    for name in call.binding.inputs:
        builder.values(call, name)  # Refuses types that no value has.
    return tuple(builder.constant(result) for result in DEFINITIONS[call.binding.type].reference(call))


def reshaped(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers what gives the same elements in another shape."""
    kind, (shape,) = call.operand("input").type, output_shapes(call)
    source = builder.pairs(call, "input") if is_complex(kind) else builder.value(call, "input")
    return (builder.reshape(source, value_shape(kind, shape)),)


def element(value: Value, position: Sequence[Expression] = ()) -> Expression:
    """An element of a value; the only element of one that is constant is a constant."""
    if value.constant is not None and value.count == 1:
        return constant(value.constant.item(), value.type)
    return load(value, tuple(position))


def only_element(value: Value) -> Expression:
    """The element of a value that has just one, whatever its rank."""
    return element(value, (index(0),) * len(value.shape))


def as_index(number: Expression, low: int, high: int) -> Expression:
    """A whole number as INDEX; one below `low` may become another that is, and so may one above `high`."""
    if isinstance(number, Constant):
        return index(min(max(int(number.value), low), high))
    if number.type is Scalar.INT64 and -_INT32_MAXIMUM <= low <= high <= _INT32_MAXIMUM:
        # INDEX may have fewer bits.
        number = clamp(number, low, high).to(Scalar.INT32)
    return number.to(Scalar.INDEX)


def picked(number: Expression, length: int) -> tuple[Expression, Expression]:
    """A whole number as a position on an axis of that length, of at least 1; and BOOL: whether it is one as it stands."""
    place = as_index(number, -1, length)
    return clamp(place, 0, length - 1), (place >= 0) & (place < length)


def taken(builder: Builder, source: Value, parts: Sequence[slice | None], shape: Shape) -> Value:
    """What slices take along the axes of a value, all of those that no slice is for.

    Args:
        builder: of the operation.
        source: the value.
        parts: for each axis; None makes a new one.
        shape: of the result, which may lack axes of length 1.
    """
    rest: Iterator[int] = iter(source.shape)
    steps, lengths = [], []
    for part in parts:
        if part is None:
            steps.append((0, 0))
            lengths.append(1)
            continue
        begin, end, step = part.indices(next(rest))
        steps.append((begin, step))
        lengths.append(len(range(begin, end, step)))
    for length in rest:
        steps.append((0, 1))
        lengths.append(length)
    if all(begin == 0 and step == 1 for begin, step in steps if step) and shape == source.shape:
        return source

    def body(*at: Expression) -> Expression:
        places = unflat(flat(at, shape), tuple(lengths))
        position = [place * step + begin for place, (begin, step) in zip(places, steps, strict=True) if step]
        return load(source, tuple(position))

    return builder.compute(shape, body)


def split(builder: Builder, source: Value, axis: int, lengths: Sequence[int]) -> tuple[Value, ...]:
    """Parts of these lengths along an axis, one after the other."""
    results, begin = [], 0
    for length in lengths:
        parts = (*(slice(None),) * axis, slice(begin, begin + length))
        shape = (*source.shape[:axis], length, *source.shape[axis + 1 :])
        results.append(taken(builder, source, parts, shape))
        begin += length
    return tuple(results)


def joined(builder: Builder, parts: Sequence[Value], axis: int = 0) -> Value:
    """Values after one another along an axis; they have the same lengths along the others. Constants right away."""
    # What has no elements is never read.
    some = [part for part in parts if part.shape[axis]] or parts[:1]
    if len(some) == 1:
        return some[0]
    arrays = [part.constant for part in some if part.constant is not None]
    if len(arrays) == len(some):
        return builder.constant(np.concatenate(arrays, axis=axis))
    if len(some) > _JOINED_AT_ONCE:
        groups = [some[start : start + _JOINED_AT_ONCE] for start in range(0, len(some), _JOINED_AT_ONCE)]
        return joined(builder, [joined(builder, group, axis) for group in groups], axis)
    first, total = some[0], sum(part.shape[axis] for part in some)

    def body(*at: Expression) -> Expression:
        result: Expression = constant(0, first.type)
        end = total
        for part in reversed(some):
            begin = end - part.shape[axis]
            holds = (at[axis] >= begin) & (at[axis] < end)
            result = load(part, (*at[:axis], at[axis] - begin, *at[axis + 1 :]), holds, result)
            end = begin
        return result

    return builder.compute((*first.shape[:axis], total, *first.shape[axis + 1 :]), body)


def padded(
    builder: Builder,
    source: Value,
    before: Sequence[int],
    shape: Shape,
    value: Expression,
    steps: Sequence[int] | None = None,
) -> Value:
    """A value with another around it, and between its elements.

    Args:
        builder: of the operation.
        source: the value.
        before: how far along each axis its first element lies from the start; negative ones cut off.
        shape: of the result.
        value: what is put around, of the type of the source.
        steps: how far along each axis elements lie apart; 1 where it is left out.
    """

    def body(*at: Expression) -> Expression:
        if not source.count:
            return value
        shifted = tuple(place - first for place, first in zip(at, before, strict=True))
        if steps is None:
            return load(source, shifted, inside(shifted, source.shape), value)
        places = tuple(place // step for place, step in zip(shifted, steps, strict=True))
        holds = inside(places, source.shape)
        for place, step in zip(shifted, steps, strict=True):
            holds = holds & (place % step).equals(0)
        return load(source, places, holds, value)

    return builder.compute(shape, body)
