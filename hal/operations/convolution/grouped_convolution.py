"""GROUPED_CONV_2D.

Each group of output channels sums over a window of its group of input channels.
"""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.convolution.weighted_sum import (
    MAX_CENTRED_MAGNITUDE,
    ROWS,
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
    Window,
    blocks,
    sliding_window,
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

#: Sums per block, so that they stay in the cache.
_BLOCK = 1 << 16


def _form(padding: tuple[Parameter, ...]) -> Form:
    return Form(
        inputs=(
            tensor("input", rank=4),
            tensor("filter", "F", rank=4),
            tensor("bias", "B", rank=1),
            *padding,
            *STRIDES,
            scalar("groups"),
            scalar("activation"),
            scalar("nchw", OperandType.BOOL),
        ),
        outputs=(tensor("output", rank=4),),
        level=FeatureLevel.LEVEL_3,
    )


def geometry(call: Call) -> tuple[Window, Shape]:
    """Returns the window and the NHWC output shape."""
    shape = call.shape("input")
    batch, height, width, depth = shape_to_nhwc(shape) if is_nchw(call) else shape
    channels, *kernel, filter_depth = call.shape("filter")
    groups = call.scalar_in("groups", 1)
    if filter_depth < 1 or filter_depth * groups != depth:
        raise BadData(
            f"{call.name('filter')} has depth {filter_depth} and {call.name('input')} has {depth}; {groups} "
            "groups of the same depth, at least 1, are expected"
        )
    if channels % groups:
        raise BadData(
            f"{call.name('filter')} has {channels} output channels; a multiple of the {groups} groups is "
            "expected"
        )
    expect_scales(call, channels)
    expect_bias(call, channels)
    window = sliding_window(call, (height, width), (kernel[0], kernel[1]))
    return window, (batch, *window.output, channels)


def _accumulate(values: Array, taps: Array, window: Window, rows: slice, columns: slice, sums: Array) -> None:
    """Adds the products of one group to the sums of a block of positions.

    Args:
        values: the group's channels in the block's images, NHWC.
        taps: the group's weights, (height, width, depth, channels).
        window: the window.
        rows, columns: the block's positions.
        sums: (images, rows, columns, channels).
    """
    height, width = values.shape[1:3]
    for y in range(window.kernel[0]):
        to_y, from_y = window.overlap(0, y, height, rows.start, rows.stop)
        for x in range(window.kernel[1]):
            to_x, from_x = window.overlap(1, x, width, columns.start, columns.stop)
            sums[:, to_y, to_x] += values[:, from_y, from_x] @ taps[y, x]


def _reference(call: Call) -> tuple[Array, ...]:
    window, shape = geometry(call)
    channels, groups = shape[3], call.scalar("groups")
    values = call.array("input")
    values = to_nhwc(values) if is_nchw(call) else values
    filter_ = weights(call, (1, 2, 3), MAX_CENTRED_MAGNITUDE)
    zero_point = filter_.dtype.type(call.operand("input").zero_point)
    # (groups, height, width, depth, channels of a group)
    taps = np.moveaxis(filter_.reshape(groups, -1, *filter_.shape[1:]), 1, 4)
    depth, width = taps.shape[3:]
    write = output_writer(call)
    output = np.empty(shape, call.operand("output").type.dtype)
    for images, rows, columns in blocks(shape[:3], max(1, _BLOCK // channels)):
        block = output[images, rows, columns]
        sums = np.zeros(block.shape, filter_.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for group in range(groups):
                seen = values[images, :, :, group * depth : (group + 1) * depth]
                inputs = np.subtract(seen, zero_point, dtype=filter_.dtype)
                part = sums[..., group * width : (group + 1) * width]
                _accumulate(inputs, taps[group], window, rows, columns, part)
        write(sums.reshape(-1, channels), block.reshape(-1, channels))
    return (from_nhwc(output) if is_nchw(call) else output,)


DEFINITIONS = (
    Definition(
        type=OperationType.GROUPED_CONV_2D,
        forms=(_form(EXPLICIT_PADDING), _form(IMPLICIT_PADDING)),
        rows=ROWS,
        checks=(bias_scale, channel_scales(0)),
        shape=shape_by(geometry),
        reference=_reference,
        arithmetic=frozenset({"input"}),
    ),
)
