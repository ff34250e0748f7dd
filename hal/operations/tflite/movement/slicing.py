"""SLICE and SPLIT for every type, SPLIT_V, STRIDED_SLICE, DYNAMIC_UPDATE_SLICE."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.arguments import integers, slice_range
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import resolve_axis
from neurald.hal.operations.machinery.signature import ANY_RANK, MAX_RANK, Form, scalar, tensor
from neurald.hal.operations.movement import slicing
from neurald.hal.operations.tflite.machinery.elements import (
    ELEMENTS_AND_STRINGS,
    element_rows,
    extend_movement,
    indexes,
    number,
)

_ANDROID = {definition.type: definition for definition in slicing.DEFINITIONS}


def split_sizes(call: Call) -> tuple[int, list[int]]:
    """Returns the axis to split, and the length of each part; -1 means the remainder."""
    shape, outputs = call.shape("input"), len(call.indexes("outputs"))
    axis = resolve_axis(call.scalar("axis"), len(shape), call.name("axis"))
    sizes: list[int] = integers(call, "sizes", (outputs,)).tolist()
    length, name = shape[axis], call.name("sizes")
    if any(each < -1 for each in sizes) or sizes.count(-1) > 1:
        raise BadData(f"{name} is {sizes}; lengths from 0, and -1 at most once, are expected")
    if -1 in sizes:
        rest = length - sum(size for size in sizes if size != -1)
        sizes = [rest if size == -1 else size for size in sizes]
    if any(each < 0 for each in sizes) or sum(sizes) != length:
        raise BadData(f"{name} is {sizes}; axis {axis} of {list(shape)} has length {length}")
    return axis, sizes


def _split_shapes(call: Call) -> tuple[Shape, ...]:
    axis, sizes = split_sizes(call)
    shape = call.shape("input")
    return tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes)


def _split(call: Call) -> tuple[Array, ...]:
    axis, sizes = split_sizes(call)
    return tuple(np.split(call.array("input"), np.cumsum(sizes)[:-1], axis=axis))


def strided_parts(call: Call) -> tuple[list[slice | None], list[bool]]:
    """Returns the range along each result axis, None for a new one, and the removed axes.

    Bit i of a mask refers to entry i of begin, end and strides. An ellipsis covers all axes that
    the other entries leave; remaining axes at the end are taken completely.
    """
    shape = call.shape("input")
    (entries,) = call.shape("begin")
    if entries > MAX_RANK:
        raise BadData(f"{call.name('begin')} has {entries} numbers; at most {MAX_RANK} are allowed")
    begins, ends, strides = (
        integers(call, name, (entries,)).tolist() for name in ("begin", "end", "strides")
    )
    open_begin, open_end, ellipsis, new, shrink = (
        int(call.scalar(f"{name}_mask")) & (1 << entries) - 1
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    )
    if ellipsis & ellipsis - 1:
        raise BadData(f"{call.name('ellipsis_mask')} is {ellipsis}; one bit at most may be set")
    new &= ~ellipsis
    taken = entries - (ellipsis | new).bit_count()
    if taken > len(shape):
        raise BadData(f"{call.name('begin')} is for {taken} axes; input {list(shape)} has {len(shape)}")
    parts: list[slice | None] = []
    gone: list[bool] = []
    axis = 0
    for entry in range(entries):
        if ellipsis >> entry & 1:
            rest = len(shape) - taken
            parts += [slice(None)] * rest
            gone += [False] * rest
            axis += rest
            continue
        if new >> entry & 1:
            parts.append(None)
            gone.append(False)
            continue
        parts.append(
            _range(
                call,
                shape[axis],
                (begins[entry], ends[entry], strides[entry]),
                is_open=(bool(open_begin >> entry & 1), bool(open_end >> entry & 1)),
                is_single=bool(shrink >> entry & 1),
            )
        )
        gone.append(bool(shrink >> entry & 1))
        axis += 1
    return parts, gone


def _range(
    call: Call, length: int, given: tuple[int, int, int], *, is_open: tuple[bool, bool], is_single: bool
) -> slice:
    """Returns the range of one axis.

    Negative begins and ends count from the end, and both are clamped. For a removed axis it is
    exactly one element, regardless of the end, or nothing if the axis has length 0.
    """
    begin, end, stride = given
    if stride == 0:
        raise BadData(f"{call.name('strides')} has a 0; it must not be")
    low, high = (0, length) if stride > 0 else (-1, length - 1)
    begin = min(max(begin + length if begin < 0 else begin, low), high)
    if is_open[0]:
        begin = 0 if stride > 0 else length - 1
    if is_single:
        if not length:
            return slice(0, 0)
        if not 0 <= begin < length:
            raise BadData(
                f"{call.name('begin')} is {given[0]} for a removed axis of length {length}; "
                f"the index of an element is expected"
            )
        return slice(begin, begin + 1)
    if call.scalar("offset"):
        end += begin
    end = min(max(end + length if end < 0 else end, low), high)
    if is_open[1]:
        end = length if stride > 0 else -1
    if stride < 0 and end >= begin:
        return slice(0, 0)
    # A descending range to the first element has no valid end.
    return slice(begin, end if end >= 0 else None, stride)


def _strided_shape(call: Call) -> tuple[Shape, ...]:
    parts, gone = strided_parts(call)
    rest = iter(call.shape("input"))
    result = []
    for part, goes in zip(parts, gone, strict=True):
        taken = 1 if part is None else slice_range(part, next(rest))[1]
        if not goes:
            result.append(taken)
    return ((*result, *rest),)


def _strided(call: Call) -> tuple[Array, ...]:
    (parts, _), (shape,), values = strided_parts(call), _strided_shape(call), call.array("input")
    if not values.size:
        return (np.full(shape, b"" if values.dtype == object else 0, values.dtype),)
    return (values[tuple(parts)].reshape(shape),)


def _update_shape(call: Call) -> tuple[Shape, ...]:
    shape, update = call.shape("input"), call.shape("update")
    if len(shape) != len(update) or any(a > b for a, b in zip(update, shape, strict=True)):
        raise BadData(
            f"{call.name('update')} has shape {list(update)}; it does not fit into input {list(shape)}"
        )
    if call.shape("start") != (len(shape),):
        raise BadData(
            f"{call.name('start')} has shape {list(call.shape('start'))}; {[len(shape)]} is expected"
        )
    return (shape,)


def _update(call: Call) -> tuple[Array, ...]:
    """Writes the update; a start that would make it exceed the input is clamped."""
    update = call.array("update")
    result = call.array("input").copy()
    starts = (
        min(max(start, 0), length - size)
        for start, length, size in zip(
            call.array("start").tolist(), _update_shape(call)[0], update.shape, strict=True
        )
    )
    result[tuple(slice(start, start + size) for start, size in zip(starts, update.shape, strict=True))] = (
        update
    )
    return (result,)


DEFINITIONS = (
    extend_movement(_ANDROID[OperationType.SLICE], OperationType.TFLITE_SLICE, types=ELEMENTS_AND_STRINGS),
    extend_movement(_ANDROID[OperationType.SPLIT], OperationType.TFLITE_SPLIT),
    Definition(
        type=OperationType.TFLITE_SPLIT_V,
        forms=(
            Form(
                inputs=(tensor("input"), indexes("sizes"), number("axis")),
                outputs=(tensor("outputs", variadic=True),),
            ),
        ),
        rows=element_rows(),
        shape=_split_shapes,
        reference=_split,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.TFLITE_STRIDED_SLICE,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=ANY_RANK),
                    indexes("begin"),
                    indexes("end"),
                    indexes("strides"),
                    scalar("begin_mask"),
                    scalar("end_mask"),
                    scalar("ellipsis_mask"),
                    scalar("new_axis_mask"),
                    scalar("shrink_axis_mask"),
                    scalar("offset", OperandType.BOOL),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(ELEMENTS_AND_STRINGS),
        shape=_strided_shape,
        reference=_strided,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.TFLITE_DYNAMIC_UPDATE_SLICE,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=ANY_RANK),
                    tensor("update", rank=ANY_RANK),
                    indexes("start"),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(),
        shape=_update_shape,
        reference=_update,
        arithmetic=frozenset({"input", "update"}),
    ),
)
