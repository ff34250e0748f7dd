"""Lowers SLICE, STRIDED_SLICE and SPLIT."""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, clamp, index, load, maximum, minimum, select
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.movement import indexing
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes, sliced
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call, UnknownValue
from neurald.hal.operations.movement.slicing import slice_parts, split_parts, strided_parts


def lower_slice(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers SLICE."""
    source, (shape,) = builder.value(call, "input"), output_shapes(call)
    try:
        parts = slice_parts(call)
    except UnknownValue:
        return (_slice_from(call, builder, source, shape),)
    return (sliced(builder, source, parts, shape),)


def _slice_from(call: Call, builder: Builder, source: Value, shape: Shape) -> Value:
    """Slices a value from unknown indices on, which are checked in advance."""
    begin = builder.value(call, "begin")
    last = [length - size for length, size in zip(source.shape, shape, strict=True)]
    if not last:
        return source
    message = f"{call.name('begin')}: indexes from 0 to {last} are expected"
    limits = None if has_extents(last) else builder.constant(np.array(last, begin.type.dtype))

    def first(at: Expression) -> Expression:
        found = load(begin, (at,))
        return found if limits is not None else found.to(Scalar.INDEX)

    def limit(at: Expression) -> Expression:
        if limits is not None:
            return load(limits, (at,))
        others: list[Expression] = [index(length) for length in last]
        found = others.pop()
        for axis, length in enumerate(others):
            found = select(at.equals(axis), length, found)
        return found

    def requirements(at: Expression) -> Sequence[tuple[Expression, str]]:
        return (((first(at) >= 0) & (first(at) <= limit(at)), message),)

    inside = builder.compute(
        begin.shape, lambda at: minimum(maximum(first(at), 0), limit(at)).to(Scalar.INT32), requirements
    )

    def body(*at: Expression) -> Expression:
        begins = (load(inside, (index(axis),)).to(Scalar.INDEX) for axis in range(len(at)))
        position = tuple(
            coordinate + clamp(begin, 0, most)
            for coordinate, begin, most in zip(at, begins, last, strict=True)
        )
        return load(source, position)

    return builder.compute(shape, body)


def _strided_slice(call: Call, builder: Builder) -> tuple[Value, ...]:
    parts, shape = strided_parts(call)
    return (sliced(builder, builder.value(call, "input"), parts, shape),)


def lower_split(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers SPLIT into equal parts."""
    axis, parts = split_parts(call)
    source = builder.value(call, "input")
    return indexing.split(builder, source, axis, [source.shape[axis] // parts] * parts)


LOWERINGS = {
    OperationType.SLICE: lower_slice,
    OperationType.STRIDED_SLICE: _strided_slice,
    OperationType.SPLIT: lower_split,
}
