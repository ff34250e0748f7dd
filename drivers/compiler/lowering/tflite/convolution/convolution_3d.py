"""Lowers CONV_3D and CONV_3D_TRANSPOSE of floats."""

import itertools
import math

from msgspec import Struct

from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import Expression, axis, load, reduce
from neurald.drivers.compiler.ir.graph import delinearize, inside, linearize
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate
from neurald.drivers.compiler.lowering.convolution.transpose_convolution import (
    AxisConvolution,
    axis_convolution,
    both,
    parts_of,
)
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.convolution.windowing import shows_padding
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.convolution.convolution_3d import steps, window_positions

#: Pixels of fewer channels are copied with their rows, since copying each of them takes longer than
#: its products.
_MIN_COPIED_CHANNELS = 8


def _finish(call: Call, builder: Builder, total: Expression, channel: Expression) -> Expression:
    """Applies bias and fused activation."""
    if call.has("bias"):
        total = total + load(builder.value(call, "bias"), (channel,))
    return activate(total, call.activation)


def _filter(call: Call, builder: Builder) -> Value:
    """Returns the weights.

    Raises:
        Unsupported: padding gives other results than 0, which kernels may leave out.
    """
    filter_ = builder.value(call, "filter")
    if filter_.constant is not None and shows_padding(filter_.constant):
        raise Unsupported("weights that are infinite or NaN may be multiplied by padding")
    return filter_


def _weights_of_rows(builder: Builder, filter_: Value) -> Value:
    """Returns (output channels, window height × window depth, window width, input channels)."""
    depth, height, width, inputs, outputs = filter_.shape
    return builder.compute(
        (outputs, height * depth, width, inputs),
        lambda o, row, x, channel: load(filter_, (row % depth, row // depth, x, channel, o)),
    )


def _weights(builder: Builder, filter_: Value) -> Value:
    """Returns (output channels, window height, window width, window depth × input channels)."""
    depth, height, width, inputs, outputs = filter_.shape
    return builder.compute(
        (outputs, height, width, depth * inputs),
        lambda o, y, x, coordinate: load(filter_, (coordinate // inputs, y, x, coordinate % inputs, o)),
    )


class _Depth(Struct, frozen=True, kw_only=True):
    """Movement of a window along the depth of images.

    Attributes:
        positions: depth of the output.
        taps: depth of the window.
        stride, dilation: steps of windows, and of taps.
        before: padding before the first image.
    """

    positions: int
    taps: int
    stride: int
    dilation: int
    before: int

    def slice_at(self, position: Expression, tap: Expression) -> Expression:
        """Returns the depth in the image of a tap of the window at a position of the output."""
        return position * self.stride + tap * self.dilation - self.before


def _convolve(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers CONV_3D as a 2D convolution per output depth.

    The window's depth is in the channels, or in the rows if pixels have few channels: each row of
    an image is then followed by those of the window's further slices.
    """
    source, filter_ = builder.value(call, "input"), _filter(call, builder)
    batches, *image, channels = source.shape
    kernel = filter_.shape[:3]
    positions, heads = window_positions(call, tuple(image), kernel)
    strides, dilations = steps(call, "stride"), steps(call, "dilation")
    depth = _Depth(
        positions=positions[0],
        taps=kernel[0],
        stride=strides[0],
        dilation=dilations[0],
        before=heads[0],
    )
    tails = [
        max(0, (count - 1) * stride + (taps - 1) * gap + 1 - head - length)
        for count, stride, taps, gap, head, length in zip(
            positions, strides, kernel, dilations, heads, image, strict=True
        )
    ]
    are_rows = dilations[1] == 1 and channels < _MIN_COPIED_CHANNELS
    if are_rows:
        images, weights = _rows_of_slices(builder, source, depth), _weights_of_rows(builder, filter_)
    else:
        images, weights = _channels_of_slices(builder, source, depth), _weights(builder, filter_)
    of_row = kernel[0] if are_rows else 1
    sums = builder.convolution(
        images,
        weights,
        output=(images.shape[0], positions[1], positions[2], filter_.shape[4]),
        stride=(strides[1] * of_row, strides[2]),
        dilation=(dilations[1], dilations[2]),
        padding=((heads[1] * of_row, tails[1] * of_row), (heads[2], tails[2])),
    )

    def body(n: Expression, z: Expression, y: Expression, x: Expression, o: Expression) -> Expression:
        return _finish(call, builder, load(sums, (n * positions[0] + z, y, x, o)), o)

    return (builder.compute((batches, *positions, filter_.shape[4]), body),)


def _channels_of_slices(builder: Builder, source: Value, depth: _Depth) -> Value:
    """Returns an image for each depth of the output: (…, height, width, taps × channels)."""
    batches, _, height, width, channels = source.shape

    def slices(number: Expression, y: Expression, x: Expression, coordinate: Expression) -> Expression:
        z = depth.slice_at(number % depth.positions, coordinate // channels)
        position = (number // depth.positions, z, y, x, coordinate % channels)
        return load(source, position, inside(position, source.shape))

    return builder.compute((batches * depth.positions, height, width, depth.taps * channels), slices)


def _rows_of_slices(builder: Builder, source: Value, depth: _Depth) -> Value:
    """Returns an image for each depth of the output: (…, height × taps, width, channels)."""
    batches, _, height, width, channels = source.shape

    def slices(number: Expression, row: Expression, x: Expression, channel: Expression) -> Expression:
        z = depth.slice_at(number % depth.positions, row % depth.taps)
        position = (number // depth.positions, z, row // depth.taps, x, channel)
        return load(source, position, inside(position, source.shape))

    return builder.compute((batches * depth.positions, height * depth.taps, width, channels), slices)


def _transpose(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers CONV_3D_TRANSPOSE as 2D convolutions that compute a stride's outputs at once.

    See `neurald.drivers.compiler.lowering.convolution.transpose_convolution`. The window's depth is
    in the channels of the images, as in CONV_3D. Weights of a dilated window have gaps between
    them; see `_dilated`.
    """
    source, filter_ = builder.value(call, "input"), _filter(call, builder)
    (shape,) = output_shapes(call)
    _, heads = window_positions(call, shape[1:4], filter_.shape[:3])
    if set(steps(call, "dilation")) != {1}:
        return (_dilated(call, builder, source, filter_, shape, heads),)
    choices = []
    for number, stride in enumerate(steps(call, "stride")):
        place = source.shape[1 + number], filter_.shape[number], stride
        parts = parts_of(*place[1:], shape[4])
        choices.append([axis_convolution(*place, heads[number], shape[1 + number], part) for part in parts])
    parts_with_sums = [
        (sides, _part_sums(builder, source, filter_, sides)) for sides in itertools.product(*choices)
    ]

    def body(n: Expression, z: Expression, y: Expression, x: Expression, o: Expression) -> Expression:
        total: Expression | None = None
        for sides, sums in parts_with_sums:
            found = [side.position_and_phase(at) for side, at in zip(sides, (z, y, x), strict=True)]
            (down, row, column), phase = (at for at, _ in found), tuple(at for _, at in found)
            counts = tuple(len(side.phases) for side in sides)
            image = n * sides[0].positions + down
            is_part = both(side.computes(each) for side, each in zip(sides, phase, strict=True))
            channel = linearize(phase, counts) * shape[4] + o
            each_part = load(sums, (image, row, column, channel), is_part)
            total = each_part if total is None else total + each_part
        assert total is not None  # noqa: S101 - some phases have weights
        return _finish(call, builder, total, o)

    return (builder.compute(shape, body),)


def _dilated(
    call: Call, builder: Builder, source: Value, filter_: Value, shape: Shape, heads: Shape
) -> Value:
    """Lowers CONV_3D_TRANSPOSE with dilation: multiplies every pixel by all weights, and adds.

    A convolution with weights of 0 in the gaps would multiply infinite pixels by them.
    """
    batches, *image, channels = source.shape
    *kernel, outputs, _ = filter_.shape
    strides, dilations = steps(call, "stride"), steps(call, "dilation")
    products = builder.matrix_product(
        builder.reshape(source, (batches * math.prod(image), channels)),
        builder.reshape(filter_, (math.prod(kernel) * outputs, channels)),
    )

    def body(n: Expression, z: Expression, y: Expression, x: Expression, o: Expression) -> Expression:
        taps = tuple(axis(length, "t") for length in kernel)
        spread = [
            at + head - tap * gap
            for at, head, tap, gap in zip((z, y, x), heads, taps, dilations, strict=True)
        ]
        pixel = tuple(each // stride for each, stride in zip(spread, strides, strict=True))
        exists = inside(pixel, tuple(image))
        for each, stride in zip(spread, strides, strict=True):
            exists = exists & (each % stride).equals(0)
        row = linearize((n, *pixel), source.shape[:4])
        column = linearize((*taps, o), filter_.shape[:4])
        total = reduce(ReductionOp.SUM, taps, load(products, (row, column), exists))
        return _finish(call, builder, total, o)

    return builder.compute(shape, body)


def _part_sums(builder: Builder, source: Value, filter_: Value, sides: tuple[AxisConvolution, ...]) -> Value:
    """Returns the sums of some phases: (batches × depths, heights, widths, phases × channels)."""
    batches, *image, channels = source.shape
    outputs = filter_.shape[3]
    depth, height, width = sides
    phases = tuple(len(side.phases) for side in sides)

    def slices(number: Expression, y: Expression, x: Expression, coordinate: Expression) -> Expression:
        z = number % depth.positions + coordinate // channels - depth.padding[0]
        position = (number // depth.positions, z, y, x, coordinate % channels)
        return load(source, position, inside(position, source.shape))

    def weights(number: Expression, y: Expression, x: Expression, coordinate: Expression) -> Expression:
        phase = delinearize(number // outputs, phases)
        seen = (coordinate // channels, y, x)
        taps = tuple(side.tap(each, at) for side, each, at in zip(sides, seen, phase, strict=True))
        exists = inside(taps, filter_.shape[:3])
        return load(filter_, (*taps, number % outputs, coordinate % channels), exists)

    images = builder.compute((batches * depth.positions, *image[1:], len(depth.taps) * channels), slices)
    kernel = (math.prod(phases) * outputs, len(height.taps), len(width.taps), len(depth.taps) * channels)
    return builder.convolution(
        images,
        builder.compute(kernel, weights),
        output=(images.shape[0], height.positions, width.positions, kernel[0]),
        padding=(height.padding, width.padding),
    )


LOWERINGS = {
    OperationType.TFLITE_CONV_3D: _convolve,
    OperationType.TFLITE_CONV_3D_TRANSPOSE: _transpose,
}
