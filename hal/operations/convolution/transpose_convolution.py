"""TRANSPOSE_CONV_2D.

Each input element adds a window of weights to the output, as CONV_2D's transpose.
"""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType, PaddingScheme
from neurald.hal.operations.convolution.weighted_sum import (
    MAX_CENTRED_MAGNITUDE,
    ROWS,
    Writer,
    bias_scale,
    channel_scales,
    expect_bias,
    expect_scales,
    output_writer,
    weights,
)
from neurald.hal.operations.convolution.windowing import (
    EXPLICIT_PADDING,
    IMPLICIT_PADDING,
    STRIDES,
    Pair,
    Window,
    shows_padding,
)
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.layout import (
    from_nhwc,
    is_nchw,
    shape_by,
    shape_to_nhwc,
    to_nhwc,
)
from neurald.hal.operations.machinery.signature import Form, Parameter, scalar, tensor
from neurald.hal.records import replace

_AXES = ("height", "width")
#: The padding after the image may be negative: this extends the output within a stride.
_SIDES = (("padding_top", "padding_bottom"), ("padding_left", "padding_right"))


def _form(*padding: Parameter) -> Form:
    return Form(
        inputs=(
            tensor("input", rank=4),
            tensor("filter", "F", rank=4),
            tensor("bias", "B", rank=1),
            *padding,
            *STRIDES,
            scalar("activation"),
            scalar("nchw", OperandType.BOOL),
        ),
        outputs=(tensor("output", rank=4),),
        level=FeatureLevel.LEVEL_3,
    )


def geometry(call: Call) -> tuple[Window, Shape]:
    """Returns the window of the corresponding CONV_2D, and the NHWC output shape."""
    shape = call.shape("input")
    batch, height, width, depth = shape_to_nhwc(shape) if is_nchw(call) else shape
    channels, *kernel, filter_depth = call.shape("filter")
    if depth != filter_depth or depth < 1:
        raise BadData(
            f"{call.name('filter')} has depth {filter_depth} and {call.name('input')} has {depth}; "
            "the same depth, at least 1, is expected"
        )
    expect_scales(call, channels)
    expect_bias(call, channels)
    target = _target(call, batch, channels)
    axes = [
        _axis(call, axis, size, extent, None if target is None else target[axis])
        for axis, (size, extent) in enumerate(zip((height, width), kernel, strict=True))
    ]
    stride, padding, lengths = zip(*axes, strict=True)
    window = Window(
        kernel=(kernel[0], kernel[1]), stride=stride, dilation=(1, 1), padding=padding, output=(height, width)
    )
    return window, (batch, *lengths, channels)


def _target(call: Call, batch: int, channels: int) -> Pair | None:
    """Returns height and width of the output if an operand gives them, with implicit padding."""
    if not call.has("output_shape"):
        return None
    name = call.name("output_shape")
    if call.shape("output_shape") != (4,):
        raise BadData(f"{name} has shape {list(call.shape('output_shape'))}; [4] is expected")
    given: Shape = tuple(call.array("output_shape").tolist())
    shape = shape_to_nhwc(given) if is_nchw(call) else given
    if (shape[0], shape[3]) != (batch, channels):
        raise BadData(f"{name} is {list(given)}; {batch} images of depth {channels} are expected")
    return shape[1], shape[2]


def _axis(call: Call, axis: int, size: int, extent: int, target: int | None) -> tuple[int, Pair, int]:
    """Returns stride, padding and output length along one axis.

    Args:
        call: the operation.
        axis: 0 for height, 1 for width.
        size: the size of the input.
        extent: the extent of the filter.
        target: length of the output, if an operand gives it.
    """
    name, along = call.binding.type.name, _AXES[axis]
    for what, length in (("image", size), ("window", extent)):
        if length < 1:
            raise BadData(f"{name}: the {along} of the {what} is {length}; it must be at least 1")
    stride = call.scalar_in(f"stride_{along}", 1)
    span = (size - 1) * stride + extent
    if target is None:
        before, after = _SIDES[axis]
        head, tail = call.scalar_in(before, 0), call.scalar(after)
        if span - head - tail < 1:
            raise BadData(
                f"{name}: padding {head} and {tail} removes the whole output, whose {along} without "
                f"padding is {span}"
            )
        return stride, (head, tail), span - head - tail
    is_same = call.padding_scheme is PaddingScheme.SAME
    # The output lengths for which CONV_2D would have that many positions.
    shortest, longest = (span - extent + 1, size * stride) if is_same else (span, span + stride - 1)
    if not shortest <= target <= longest:
        raise BadData(
            f"{call.name('output_shape')} has {along} {target}; {shortest} to {longest} is expected for an "
            f"input of {along} {size}"
        )
    head = max(0, span - target) // 2 if is_same else 0
    return stride, (head, span - target - head), target


def _scatter(image: Array, taps: Array, window: Window, sums: Array) -> None:
    """Adds the windows of all elements of an image to the sums.

    Args:
        image: (height, width, depth).
        taps: (window height, window width, depth, channels).
        window: the window.
        sums: the sums of the output, (height, width, channels).
    """
    height, width = image.shape[:2]
    for y in range(window.kernel[0]):
        of_y, to_y = window.overlap(0, y, sums.shape[0], 0, height)
        for x in range(window.kernel[1]):
            of_x, to_x = window.overlap(1, x, sums.shape[1], 0, width)
            sums[to_y, to_x] += image[of_y, of_x] @ taps[y, x]


def _with_borders(values: Array, window: Window) -> tuple[Array, Window]:
    """Returns images with all zeros that windows reach outside of them, and the window."""
    borders = [
        -(-(extent - 1) // stride) for extent, stride in zip(window.kernel, window.stride, strict=True)
    ]
    values = np.pad(values, ((0, 0), *((border, border) for border in borders), (0, 0)))
    padding = [
        (head + border * stride, tail + border * stride)
        for (head, tail), border, stride in zip(window.padding, borders, window.stride, strict=True)
    ]
    height, width = values.shape[1:3]
    return values, replace(window, padding=(padding[0], padding[1]), output=(height, width))


def convolve(
    values: Array, zero_point: int, filter_: Array, window: Window, write: Writer, output: Array
) -> None:
    """Fills `output` with the windows of all elements of `values`, one image at a time.

    Args:
        values: NHWC.
        zero_point: the zero point of the values.
        filter_: (channels, height, width, depth).
        window: the window.
        write: converts sums to outputs.
        output: NHWC, contiguous.
    """
    if shows_padding(filter_):
        values, window = _with_borders(values, window)
    channels, taps = len(filter_), np.moveaxis(filter_, 0, 3)
    zero = filter_.dtype.type(zero_point)
    for image, result in zip(values, output, strict=True):
        sums = np.zeros(result.shape, filter_.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            _scatter(np.subtract(image, zero, dtype=filter_.dtype), taps, window, sums)
        write(sums.reshape(-1, channels), result.reshape(-1, channels))


def _reference(call: Call) -> tuple[Array, ...]:
    window, shape = geometry(call)
    values = call.array("input")
    values = to_nhwc(values) if is_nchw(call) else values
    output = np.empty(shape, call.operand("output").type.dtype)
    zero_point, filter_ = call.operand("input").zero_point, weights(call, (1, 2, 3), MAX_CENTRED_MAGNITUDE)
    convolve(values, zero_point, filter_, window, output_writer(call), output)
    return (from_nhwc(output) if is_nchw(call) else output,)


DEFINITIONS = (
    Definition(
        type=OperationType.TRANSPOSE_CONV_2D,
        forms=(
            _form(*EXPLICIT_PADDING),
            _form(tensor("output_shape", OperandType.TENSOR_INT32, rank=1), *IMPLICIT_PADDING),
        ),
        rows=ROWS,
        checks=(bias_scale, channel_scales(0)),
        shape=shape_by(geometry),
        reference=_reference,
        arithmetic=frozenset({"input"}),
    ),
)
