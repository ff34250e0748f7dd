"""CONV_3D and CONV_3D_TRANSPOSE: float convolutions of (batch, depth, height, width, channels)."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType, PaddingScheme
from neurald.hal.operations.arithmetic.quantized import activate
from neurald.hal.operations.convolution.weighted_sum import expect_bias
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import known_activation
from neurald.hal.operations.machinery.signature import Form, Parameter, row, scalar, tensor

_AXES = ("depth", "height", "width")

#: A window element, the image elements that it covers, and the corresponding positions.
_Tap = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]


def _form(*shape: Parameter) -> Form:
    return Form(
        inputs=(
            *shape,
            tensor("input", rank=5),
            tensor("filter", rank=5),
            tensor("bias", rank=1, optional=True),
            scalar("padding_scheme"),
            *(scalar(f"stride_{axis}") for axis in _AXES),
            *(scalar(f"dilation_{axis}") for axis in _AXES),
            scalar("activation"),
        ),
        outputs=(tensor("output", rank=5),),
    )


def steps(call: Call, name: str) -> tuple[int, ...]:
    """Returns the strides or dilations, selected by `name`, along all axes."""
    return tuple(call.scalar_in(f"{name}_{axis}", 1) for axis in _AXES)


def _extents(call: Call, kernel: Shape) -> list[int]:
    """Returns the extent of the window along each axis."""
    return [(taps - 1) * gap + 1 for taps, gap in zip(kernel, steps(call, "dilation"), strict=True)]


def window_positions(call: Call, image: Shape, kernel: Shape) -> tuple[Shape, Shape]:
    """Returns the window's number of positions along each axis, and the padding before.

    Raises:
        BadData: the window is empty.
    """
    counts, heads = [], []
    is_same = call.padding_scheme is PaddingScheme.SAME
    strides, extents = steps(call, "stride"), _extents(call, kernel)
    for axis, size, taps, extent, stride in zip(_AXES, image, kernel, extents, strides, strict=True):
        if taps < 1:
            raise BadData(
                f"{call.binding.type.name}: the {axis} of the window is {taps}; it must be at least 1"
            )
        count = -(-size // stride) if is_same else (size - extent) // stride + 1
        if count < 1:
            count = 0
        counts.append(count)
        heads.append(max(0, (count - 1) * stride + extent - size) // 2)
    return tuple(counts), tuple(heads)


def _taps(call: Call, image: Shape, kernel: Shape, positions: Shape, heads: Shape) -> Iterator[_Tap]:
    """Yields all window elements that cover any part of the image."""
    strides, dilations = steps(call, "stride"), steps(call, "dilation")
    for tap_index in product(*map(range, kernel)):
        of: list[slice] = []
        to: list[slice] = []
        for axis, tap in enumerate(tap_index):
            stride, offset = strides[axis], tap * dilations[axis] - heads[axis]
            first = max(0, -(offset // stride))
            last = min(positions[axis], (image[axis] - 1 - offset) // stride + 1)
            if first < last:
                begin = first * stride + offset
                of.append(slice(begin, begin + (last - first - 1) * stride + 1, stride))
                to.append(slice(first, last))
        if len(to) == len(tap_index):
            yield tap_index, tuple(of), tuple(to)


def _shape(call: Call) -> tuple[Shape, ...]:
    batches, *image, depth = call.shape("input")
    *kernel, filter_depth, channels = call.shape("filter")
    _expect_depth(call, depth, filter_depth)
    expect_bias(call, channels)
    positions, _ = window_positions(call, tuple(image), tuple(kernel))
    return ((batches, *positions, channels),)


def _expect_depth(call: Call, depth: int, filter_depth: int) -> None:
    if depth != filter_depth or depth < 1:
        raise BadData(
            f"{call.name('filter')} has {filter_depth} input channels and {call.name('input')} has {depth}; "
            "the same number, at least 1, is expected"
        )


def _finish(call: Call, sums: Array) -> tuple[Array, ...]:
    with np.errstate(over="ignore", invalid="ignore"):
        if call.has("bias"):
            sums += call.array("bias")
        return (activate(sums, call.activation),)


def _reference(call: Call) -> tuple[Array, ...]:
    (shape,) = _shape(call)
    values, filter_ = call.array("input"), call.array("filter")
    image, kernel = values.shape[1:4], filter_.shape[:3]
    sums = np.zeros(shape, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for tap_index, of, to in _taps(call, image, kernel, *window_positions(call, image, kernel)):
            sums[:, *to] += values[:, *of] @ filter_[tap_index]
    return _finish(call, sums)


def _transpose_shape(call: Call) -> tuple[Shape, ...]:
    """Returns the given output shape after checking that CONV_3D would map it to the input's."""
    batches, *image, depth = call.shape("input")
    *kernel, channels, filter_depth = call.shape("filter")
    _expect_depth(call, depth, filter_depth)
    expect_bias(call, channels)
    if call.shape("output_shape") != (5,):
        raise BadData(
            f"{call.name('output_shape')} has shape {list(call.shape('output_shape'))}; [5] is expected"
        )
    shape: Shape = tuple(call.array("output_shape").tolist())
    if (shape[0], shape[4]) != (batches, channels):
        raise BadData(
            f"{call.name('output_shape')} is {list(shape)}; {batches} volumes of {channels} channels are "
            "expected"
        )
    positions, _ = window_positions(call, shape[1:4], tuple(kernel))
    if positions != tuple(image):
        raise BadData(
            f"{call.name('output_shape')} is {list(shape)}, for an input of {list(positions)} positions; "
            f"{call.name('input')} has {image}"
        )
    return (shape,)


def _transpose_reference(call: Call) -> tuple[Array, ...]:
    (shape,) = _transpose_shape(call)
    values, filter_ = call.array("input"), call.array("filter")
    kernel, volume = filter_.shape[:3], shape[1:4]
    sums = np.zeros(shape, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for tap_index, of, to in _taps(call, volume, kernel, *window_positions(call, volume, kernel)):
            sums[:, *of] += values[:, *to] @ filter_[tap_index].T
    return _finish(call, sums)


_ROWS = (row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_FLOAT32),)

DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_CONV_3D,
        forms=(_form(),),
        rows=_ROWS,
        checks=(known_activation,),
        shape=_shape,
        reference=_reference,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.TFLITE_CONV_3D_TRANSPOSE,
        forms=(_form(tensor("output_shape", OperandType.TENSOR_INT32, rank=1)),),
        rows=_ROWS,
        checks=(known_activation,),
        shape=_transpose_shape,
        reference=_transpose_reference,
        arithmetic=frozenset({"input"}),
    ),
)
