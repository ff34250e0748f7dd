"""CONV_2D: each output channel is a weighted sum over a window of all input channels."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.convolution.weighted_sum import (
    MAX_SIGNED_MAGNITUDE,
    ROWS,
    Writer,
    bias_scale,
    channel_scales,
    expect_bias,
    expect_scales,
    forms,
    level,
    output_writer,
    signed,
    weights,
)
from neurald.hal.operations.convolution.windowing import Window, blocks, sliding_window
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.layout import (
    from_nhwc,
    is_nchw,
    shape_by,
    shape_to_nhwc,
    to_nhwc,
)
from neurald.hal.operations.machinery.rules import known_activation

#: Elements of inputs and sums per block: enough for a fast matrix product, few enough for the
#: cache.
_BLOCK = 1 << 18


def geometry(call: Call, *, grouped: bool = False) -> tuple[Window, Shape]:
    """Returns the window and the NHWC output shape.

    If `grouped`, the filter may cover a part of the depth.
    """
    shape = call.shape("input")
    batch, height, width, depth = shape_to_nhwc(shape) if is_nchw(call) else shape
    channels, *kernel, filter_depth = call.shape("filter")
    if grouped and depth and filter_depth and depth % filter_depth == 0:
        groups = depth // filter_depth
        if channels % groups:
            raise BadData(
                f"{call.name('filter')} has {channels} output channels; a multiple of {groups}, the number "
                "of groups, "
                "is expected"
            )
    elif depth != filter_depth or depth < 1:
        raise BadData(
            f"{call.name('filter')} has depth {filter_depth} and {call.name('input')} has {depth}; "
            "the same depth, at least 1, is expected"
        )
    expect_scales(call, channels)
    expect_bias(call, channels)
    window = sliding_window(call, (height, width), (kernel[0], kernel[1]))
    return window, (batch, *window.output, channels)


def _patches(
    values: Array,
    window: Window,
    block: tuple[slice, slice, slice],
    outside: int,
    dtype: "np.dtype[np.generic]",
) -> Array:
    """Returns the window contents of each position of a block as rows.

    The shape is (positions, window height * width * depth).

    Args:
        values: NHWC.
        window: the window.
        block: ranges of images, and of positions along height and width.
        outside: value of elements outside of the image.
        dtype: the data type of the result.
    """
    images, rows, columns = block
    _, height, width, depth = values.shape
    seen = values[images]
    if window.is_pointwise and window.stride == (1, 1):
        return seen[:, rows, columns].astype(dtype, order="C").reshape(-1, depth)
    lengths = (len(seen), rows.stop - rows.start, columns.stop - columns.start)
    if window.padding == ((0, 0), (0, 0)):
        patches = np.empty((*lengths, *window.kernel, depth), dtype)
    else:
        patches = np.full((*lengths, *window.kernel, depth), outside, dtype)
    for y in range(window.kernel[0]):
        to_y, from_y = window.overlap(0, y, height, rows.start, rows.stop)
        for x in range(window.kernel[1]):
            to_x, from_x = window.overlap(1, x, width, columns.start, columns.stop)
            patches[:, to_y, to_x, y, x] = seen[:, from_y, from_x]
    return patches.reshape(-1, window.kernel[0] * window.kernel[1] * depth)


def convolve(
    values: Array, outside: int, matrix: Array, window: Window, write: Writer, output: Array
) -> None:
    """Fills `output` with the products of windows over `values` and `matrix`, block by block.

    Args:
        values: NHWC; in a grouped convolution the channels of a group are adjacent.
        outside: value of elements outside of the images.
        matrix: (channels, window height * width * depth of a group).
        window: the window.
        write: converts sums to outputs.
        output: NHWC, contiguous.
    """
    channels, depth = len(matrix), matrix.shape[1] // (window.kernel[0] * window.kernel[1])
    groups = values.shape[3] // depth
    parts = [
        (values[..., group * depth : (group + 1) * depth], rows.T)
        for group, rows in enumerate(np.split(matrix, groups))
    ]
    for block in blocks(output.shape[:3], _BLOCK // (matrix.shape[1] + channels)):
        with np.errstate(over="ignore", invalid="ignore"):
            sums = [_patches(part, window, block, outside, matrix.dtype) @ rows for part, rows in parts]
        write(sums[0] if groups == 1 else np.concatenate(sums, axis=1), output[block].reshape(-1, channels))


def _reference(call: Call) -> tuple[Array, ...]:
    window, shape = geometry(call)
    channels = shape[3]
    values, zero_point = signed(call)
    values = to_nhwc(values) if is_nchw(call) else values
    matrix = weights(call, (1, 2, 3), MAX_SIGNED_MAGNITUDE).reshape(channels, -1)
    # The zero point is subtracted from the sums instead of the inputs, which is less work.
    zero_offset = -zero_point * (matrix @ np.ones_like(matrix[0])).astype(np.int64) if zero_point else None
    write = output_writer(call, zero_offset)
    output = np.empty(shape, call.operand("output").type.dtype)
    convolve(values, zero_point, matrix, window, write, output)
    return (from_nhwc(output) if is_nchw(call) else output,)


DEFINITIONS = (
    Definition(
        type=OperationType.CONV_2D,
        forms=forms(),
        rows=ROWS,
        checks=(known_activation, bias_scale, channel_scales(0)),
        shape=shape_by(geometry),
        reference=_reference,
        arithmetic=frozenset({"input"}),
        level=level,
    ),
)
