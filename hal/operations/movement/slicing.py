"""SLICE, STRIDED_SLICE, SPLIT: parts of a tensor."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.arguments import integers, one_scale, slice_range
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, resolve_axis, same_scale
from neurald.hal.operations.machinery.signature import Form, scalar, tensor

_ROWS = data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_3, int32=FeatureLevel.LEVEL_3)


def slice_parts(call: Call) -> tuple[slice, ...]:
    """Returns the range of SLICE along each axis; size -1 means all from `begin` on."""
    shape = call.shape("input")
    begins, sizes = (integers(call, name, (len(shape),)).tolist() for name in ("begin", "size"))
    parts = []
    for axis, (length, begin, size) in enumerate(zip(shape, begins, sizes, strict=True)):
        # A size that a compiler does not know is not taken as -1.
        end = length if isinstance(size, int) and size == -1 else begin + size
        if not 0 <= begin <= end <= length:
            raise BadData(
                f"{call.name('begin')} is {begin} and size {size} along axis {axis}; "
                f"they do not lie inside its length, {length}"
            )
        parts.append(slice(begin, end))
    return tuple(parts)


def _slice_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the shape, also of a slice that begins at unknown indices and has known sizes."""
    try:
        return (tuple(part.stop - part.start for part in slice_parts(call)),)
    except UnknownValue:
        shape = call.shape("input")
        sizes = integers(call, "size", (len(shape),)).tolist()
        if any(size < 0 for size in sizes):
            raise
        if any(size > length for size, length in zip(sizes, shape, strict=True)):
            raise BadData(f"{call.name('size')} is {sizes}; it exceeds {list(shape)}") from None
        return (tuple(sizes),)


def _slice_reference(call: Call) -> tuple[Array, ...]:
    return (np.asarray(call.array("input")[slice_parts(call)]),)


def strided_parts(call: Call) -> tuple[tuple[slice, ...], Shape]:
    """Returns the range of STRIDED_SLICE along each axis, and the shape of its output.

    Negative begins and ends count from the end, and both are clamped to the tensor. Axis i is bit i
    of a mask: the first two masks ignore begin or end in favour of the whole axis, the last one
    removes an axis, of which exactly one element is taken. The result has at least rank 1.
    """
    shape = call.shape("input")
    begins, ends, strides = (
        integers(call, name, (len(shape),)).tolist() for name in ("begin", "end", "strides")
    )
    open_begin, open_end, shrink = (
        call.scalar(name) for name in ("begin_mask", "end_mask", "shrink_axis_mask")
    )
    parts, lengths = [], []
    for axis, length in enumerate(shape):
        stride = strides[axis]
        if stride == 0:
            raise BadData(f"{call.name('strides')} is 0 along axis {axis}; it must not be")
        part = slice(
            None if open_begin >> axis & 1 else begins[axis],
            None if open_end >> axis & 1 else ends[axis],
            stride,
        )
        _, taken, _ = slice_range(part, length)
        parts.append(part)
        if not shrink >> axis & 1:
            lengths.append(taken)
        elif stride < 0 or taken != 1:
            raise BadData(
                f"{call.name('shrink_axis_mask')} has axis {axis}, where {taken} elements are taken with "
                "stride "
                f"{stride}; exactly one, with a positive stride, is expected"
            )
    return tuple(parts), tuple(lengths) or (1,)


def _strided_slice_shape(call: Call) -> tuple[Shape, ...]:
    return (strided_parts(call)[1],)


def _strided_slice_reference(call: Call) -> tuple[Array, ...]:
    parts, shape = strided_parts(call)
    return (call.array("input")[parts].reshape(shape),)


def split_parts(call: Call) -> tuple[int, int]:
    """Returns the axis to split, and the number of parts."""
    parts, outputs = call.scalar_in("splits", 1), len(call.indexes("outputs"))
    if parts != outputs:
        raise BadData(f"{call.name('splits')} is {parts}; SPLIT has {outputs} outputs")
    shape = call.shape("input")
    axis = resolve_axis(call.scalar("axis"), len(shape), call.name("axis"))
    if shape[axis] % parts:
        raise BadData(
            f"{call.name('splits')} is {parts}; it does not divide the length {shape[axis]} of axis {axis}"
        )
    return axis, parts


def _split_shape(call: Call) -> tuple[Shape, ...]:
    axis, parts = split_parts(call)
    shape = call.shape("input")
    return ((*shape[:axis], shape[axis] // parts, *shape[axis + 1 :]),) * parts


def _split_reference(call: Call) -> tuple[Array, ...]:
    axis, parts = split_parts(call)
    return tuple(np.split(call.array("input"), parts, axis=axis))


DEFINITIONS = (
    Definition(
        type=OperationType.SLICE,
        forms=(
            Form(
                inputs=(
                    tensor("input"),
                    tensor("begin", OperandType.TENSOR_INT32, rank=1),
                    tensor("size", OperandType.TENSOR_INT32, rank=1),
                ),
                outputs=(tensor("output"),),
            ),
        ),
        rows=_ROWS,
        checks=(same_scale("input"),),
        shape=_slice_shape,
        reference=_slice_reference,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.STRIDED_SLICE,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=(1, 4)),
                    tensor("begin", OperandType.TENSOR_INT32, rank=1),
                    tensor("end", OperandType.TENSOR_INT32, rank=1),
                    tensor("strides", OperandType.TENSOR_INT32, rank=1),
                    scalar("begin_mask"),
                    scalar("end_mask"),
                    scalar("shrink_axis_mask"),
                ),
                outputs=(tensor("output", rank=(1, 4)),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_2, quant8=FeatureLevel.LEVEL_2),
        checks=(same_scale("input"),),
        shape=_strided_slice_shape,
        reference=_strided_slice_reference,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.SPLIT,
        forms=(
            Form(
                inputs=(tensor("input"), scalar("axis"), scalar("splits")),
                outputs=(tensor("outputs", variadic=True),),
            ),
        ),
        rows=_ROWS,
        checks=(one_scale("outputs", "input"),),
        shape=_split_shape,
        reference=_split_reference,
        arithmetic=frozenset({"input"}),
    ),
)
