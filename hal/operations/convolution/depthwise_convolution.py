"""DEPTHWISE_CONV_2D: each output channel is a weighted sum over a window of one input channel."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.convolution.weighted_sum import (
    ROWS,
    Writer,
    bias_scale,
    channel_scales,
    expect_bias,
    expect_scales,
    forms,
    level,
    output_writer,
    weights,
)
from neurald.hal.operations.convolution.windowing import Window, blocks, shows_padding, sliding_window
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
from neurald.hal.operations.machinery.signature import scalar
from neurald.hal.records import replace

#: Sums per block, so that they stay in the cache.
_BLOCK = 1 << 16


def geometry(call: Call) -> tuple[Window, Shape]:
    """Returns the window and the NHWC output shape."""
    shape = call.shape("input")
    batch, height, width, depth = shape_to_nhwc(shape) if is_nchw(call) else shape
    first, *kernel, channels = call.shape("filter")
    multiplier = call.scalar_in("depth_multiplier", 1)
    if first != 1:
        raise BadData(f"{call.name('filter')} has a first dimension of {first}; 1 is expected")
    if depth * multiplier != channels:
        raise BadData(
            f"{call.name('filter')} has {channels} output channels; {depth * multiplier}, the input's depth "
            f"{depth} times the depth multiplier {multiplier}, are expected"
        )
    expect_scales(call, channels)
    expect_bias(call, channels)
    window = sliding_window(call, (height, width), (kernel[0], kernel[1]))
    return window, (batch, *window.output, channels)


def largest(call: Call) -> int:
    """Returns the largest magnitude of a quantised input minus its zero point."""
    operand = call.operand("input")
    if not is_quantized(operand):
        return 0
    low, high = quantized_limits(operand)
    return max(high - operand.zero_point, operand.zero_point - low)


def _accumulate(
    values: Array, filter_: Array, window: Window, rows: slice, columns: slice, sums: Array, scratch: Array
) -> None:
    """Computes the sums of a block of positions.

    Args:
        values: all images of the block, NHWC, with the depth of the sums.
        filter_: (height, width, depth).
        window: the window.
        rows, columns: the block's positions.
        sums: (images, rows, columns, depth).
        scratch: overwritten, of the same shape.
    """
    height, width = values.shape[1:3]
    # Weights are repeated along a row, so that NumPy processes whole rows if the stride is 1.
    repeated = np.empty(sums.shape[2:], filter_.dtype)
    sums.fill(0)
    for y in range(window.kernel[0]):
        to_y, from_y = window.overlap(0, y, height, rows.start, rows.stop)
        for x in range(window.kernel[1]):
            to_x, from_x = window.overlap(1, x, width, columns.start, columns.stop)
            repeated[...] = filter_[y, x]
            products = scratch[:, to_y, to_x]
            np.multiply(values[:, from_y, from_x], repeated[to_x], out=products)
            sums[:, to_y, to_x] += products


def convolve(
    values: Array, zero_point: int, filter_: Array, window: Window, write: Writer, output: Array
) -> None:
    """Fills `output` with the weighted sums of windows over `values`, block by block.

    Args:
        values: NHWC.
        zero_point: the zero point of the values.
        filter_: (height, width, channels).
        window: the window.
        write: converts sums to outputs.
        output: NHWC, contiguous.
    """
    if shows_padding(filter_):
        values = np.pad(values, ((0, 0), *window.padding, (0, 0)))
        window = replace(window, padding=((0, 0), (0, 0)))
    shape, channels = output.shape, output.shape[3]
    zero = filter_.dtype.type(zero_point)
    for images, rows, columns in blocks(shape[:3], _BLOCK // channels):
        if rows.start == columns.start == 0:
            inputs = np.subtract(values[images], zero, dtype=filter_.dtype, order="C")
            if inputs.shape[3] < channels:
                inputs = np.repeat(inputs, channels // inputs.shape[3], axis=3)
        block = output[images, rows, columns]
        sums, scratch = np.empty((2, *block.shape), filter_.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            _accumulate(inputs, filter_, window, rows, columns, sums, scratch)
        write(sums.reshape(-1, channels), block.reshape(-1, channels))


def _reference(call: Call) -> tuple[Array, ...]:
    window, shape = geometry(call)
    values = call.array("input")
    values = to_nhwc(values) if is_nchw(call) else values
    filter_ = weights(call, (0, 1, 2), largest(call))[0]
    output = np.empty(shape, call.operand("output").type.dtype)
    convolve(values, call.operand("input").zero_point, filter_, window, output_writer(call), output)
    return (from_nhwc(output) if is_nchw(call) else output,)


DEFINITIONS = (
    Definition(
        type=OperationType.DEPTHWISE_CONV_2D,
        forms=forms(scalar("depth_multiplier")),
        rows=ROWS,
        checks=(known_activation, bias_scale, channel_scales(3)),
        shape=shape_by(geometry),
        reference=_reference,
        arithmetic=frozenset({"input"}),
        level=level,
    ),
)
