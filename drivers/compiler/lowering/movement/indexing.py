"""Slices, concatenation, padding and data-dependent indices, for lowerings that move elements."""

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
from neurald.drivers.compiler.ir.extents.extent import is_zero, same_shape
from neurald.drivers.compiler.ir.graph import delinearize, inside, linearize
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.arguments import slice_range
from neurald.hal.operations.machinery.call import Call

#: Maximum number of values that a kernel concatenates; larger concatenations are split into groups.
_MAX_CONCATENATED = 32
_MAX_INT32 = 2**31 - 1


def output_shapes(call: Call) -> tuple[Shape, ...]:
    """Returns the output shapes by the operation's shape rule."""
    return DEFINITIONS[call.binding.type].shape(call)


def constant_results(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers an operation whose results follow from shapes or known arguments."""
    for name in call.binding.inputs:
        builder.values(call, name)  # Rejects unsupported types.
    return tuple(builder.constant(result) for result in DEFINITIONS[call.binding.type].reference(call))


def reshaped(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers an operation that only reshapes."""
    kind, (shape,) = call.operand("input").type, output_shapes(call)
    source = builder.pairs(call, "input") if is_complex(kind) else builder.value(call, "input")
    return (builder.reshape(source, value_shape(kind, shape)),)


def element(value: Value, position: Sequence[Expression] = ()) -> Expression:
    """Loads an element of a value; a constant with one element becomes a constant."""
    if value.constant is not None and value.count == 1:
        return constant(value.constant.item(), value.type)
    return load(value, tuple(position))


def only_element(value: Value) -> Expression:
    """Loads the element of a value with one element, of any rank."""
    return element(value, (index(0),) * len(value.shape))


def as_index(number: Expression, low: int, high: int) -> Expression:
    """Converts an integer to INDEX. Numbers outside [low, high] stay outside, but may change."""
    if isinstance(number, Constant):
        return index(min(max(int(number.value), low), high))
    if number.type is Scalar.INT64 and -_MAX_INT32 <= low <= high <= _MAX_INT32:
        # INDEX may have fewer than 64 bits.
        number = clamp(number, low, high).to(Scalar.INT32)
    return number.to(Scalar.INDEX)


def bounded_index(number: Expression, length: int) -> tuple[Expression, Expression]:
    """Returns an integer clamped to an axis of a length of at least 1, and if it was in range."""
    coordinate = as_index(number, -1, length)
    return clamp(coordinate, 0, length - 1), (coordinate >= 0) & (coordinate < length)


def sliced(builder: Builder, source: Value, parts: Sequence[slice | None], shape: Shape) -> Value:
    """Slices a value.

    Args:
        builder: the builder of the operation.
        source: the value.
        parts: a slice for each axis; None inserts an axis. Axes without a slice are taken whole.
        shape: the shape of the result, which may omit axes of length 1.
    """
    rest: Iterator[int] = iter(source.shape)
    steps, lengths = [], []
    for part in parts:
        if part is None:
            steps.append((0, 0))
            lengths.append(1)
            continue
        begin, length, step = slice_range(part, next(rest))
        steps.append((begin, step))
        lengths.append(length)
    for length in rest:
        steps.append((0, 1))
        lengths.append(length)
    if all(is_zero(begin) and step == 1 for begin, step in steps if step) and same_shape(shape, source.shape):
        return source

    def body(*at: Expression) -> Expression:
        indexes = delinearize(linearize(at, shape), tuple(lengths))
        position = [
            coordinate * step + begin
            for coordinate, (begin, step) in zip(indexes, steps, strict=True)
            if step
        ]
        return load(source, tuple(position))

    return builder.compute(shape, body)


def split(builder: Builder, source: Value, axis: int, lengths: Sequence[int]) -> tuple[Value, ...]:
    """Splits a value into consecutive parts along an axis."""
    results, begin = [], 0
    for length in lengths:
        parts = (*(slice(None),) * axis, slice(begin, begin + length))
        shape = (*source.shape[:axis], length, *source.shape[axis + 1 :])
        results.append(sliced(builder, source, parts, shape))
        begin += length
    return tuple(results)


def concatenated(builder: Builder, parts: Sequence[Value], axis: int = 0) -> Value:
    """Concatenates values along an axis; constants are concatenated at compile time."""
    # Empty values are never read.
    some = [part for part in parts if part.shape[axis]] or parts[:1]
    if len(some) == 1:
        return some[0]
    arrays = [part.constant for part in some if part.constant is not None]
    if len(arrays) == len(some):
        return builder.constant(np.concatenate(arrays, axis=axis))
    if len(some) > _MAX_CONCATENATED:
        groups = [some[start : start + _MAX_CONCATENATED] for start in range(0, len(some), _MAX_CONCATENATED)]
        return concatenated(builder, [concatenated(builder, group, axis) for group in groups], axis)
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
    """Surrounds a value with another one, and inserts it between its elements.

    Args:
        builder: the builder of the operation.
        source: the value.
        before: offset of its first element along each axis; negative offsets crop.
        shape: the shape of the result.
        value: the padding, of the source's type.
        steps: distance between elements along each axis; 1 by default.
    """

    def body(*at: Expression) -> Expression:
        if not source.count:
            return value
        shifted = tuple(coordinate - first for coordinate, first in zip(at, before, strict=True))
        if steps is None:
            return load(source, shifted, inside(shifted, source.shape), value)
        indexes = tuple(coordinate // step for coordinate, step in zip(shifted, steps, strict=True))
        holds = inside(indexes, source.shape)
        for coordinate, step in zip(shifted, steps, strict=True):
            holds = holds & (coordinate % step).equals(0)
        return load(source, indexes, holds, value)

    return builder.compute(shape, body)
