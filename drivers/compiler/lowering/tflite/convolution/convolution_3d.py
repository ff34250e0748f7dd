"""Lowers CONV_3D and CONV_3D_TRANSPOSE of floats."""

import itertools
import math

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


def _weights(builder: Builder, filter_: Value) -> Value:
    """Returns (output channels, window height, window width, window depth × input channels)."""
    depth, height, width, inputs, outputs = filter_.shape
    return builder.compute(
        (outputs, height, width, depth * inputs),
        lambda o, y, x, coordinate: load(filter_, (coordinate // inputs, y, x, coordinate % inputs, o)),
    )


def _convolve(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers CONV_3D as a 2D convolution per output depth, with the window's depth in channels."""
    source, filter_ = builder.value(call, "input"), _filter(call, builder)
    batches, *image, channels = source.shape
    kernel = filter_.shape[:3]
    positions, heads = window_positions(call, tuple(image), kernel)
    strides, dilations = steps(call, "stride"), steps(call, "dilation")

    def slices(number: Expression, y: Expression, x: Expression, coordinate: Expression) -> Expression:
        tap, channel = coordinate // channels, coordinate % channels
        z = number % positions[0] * strides[0] + tap * dilations[0] - heads[0]
        position = (number // positions[0], z, y, x, channel)
        return load(source, position, inside(position, source.shape))

    images = builder.compute((batches * positions[0], *image[1:], kernel[0] * channels), slices)
    tails = [
        max(0, (count - 1) * stride + (taps - 1) * gap + 1 - head - length)
        for count, stride, taps, gap, head, length in zip(
            positions, strides, kernel, dilations, heads, image, strict=True
        )
    ]
    sums = builder.convolution(
        images,
        _weights(builder, filter_),
        output=(images.shape[0], positions[1], positions[2], filter_.shape[4]),
        stride=(strides[1], strides[2]),
        dilation=(dilations[1], dilations[2]),
        padding=((heads[1], tails[1]), (heads[2], tails[2])),
    )

    def body(n: Expression, z: Expression, y: Expression, x: Expression, o: Expression) -> Expression:
        return _finish(call, builder, load(sums, (n * positions[0] + z, y, x, o)), o)

    return (builder.compute((batches, *positions, filter_.shape[4]), body),)


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
