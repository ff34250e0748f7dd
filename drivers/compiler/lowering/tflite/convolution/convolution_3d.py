"""Lowers CONV_3D and CONV_3D_TRANSPOSE of floats."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, axis, index, load, reduce
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.convolution.convolution_3d import steps, window_positions


def _finish(call: Call, builder: Builder, total: Expression, channel: Expression) -> Expression:
    """Applies bias and fused activation."""
    if call.has("bias"):
        total = total + load(builder.value(call, "bias"), (channel,))
    return activate(total, call.activation)


def _weights(builder: Builder, filter_: Value) -> Value:
    """Returns (output channels, window height, window width, window depth × input channels)."""
    depth, height, width, inputs, outputs = filter_.shape
    return builder.compute(
        (outputs, height, width, depth * inputs),
        lambda o, y, x, coordinate: load(filter_, (coordinate // inputs, y, x, coordinate % inputs, o)),
    )


def _convolve(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers CONV_3D as a 2D convolution per output depth, with the window's depth in channels."""
    source, filter_ = builder.value(call, "input"), builder.value(call, "filter")
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
    """Lowers CONV_3D_TRANSPOSE: each output sums all inputs whose windows reach it."""
    source, filter_ = builder.value(call, "input"), builder.value(call, "filter")
    (shape,) = output_shapes(call)
    kernel, channels = filter_.shape[:3], source.shape[4]
    _, heads = window_positions(call, shape[1:4], kernel)
    strides, dilations = steps(call, "stride"), steps(call, "dilation")

    def body(*at: Expression) -> Expression:
        taps = tuple(axis(length, "r") for length in kernel)
        channel = axis(channels, "c")
        holds: Expression = index(0).equals(0)
        indexes = []
        for along, tap in enumerate(taps):
            spread = at[1 + along] + heads[along] - tap * dilations[along]
            holds = holds & (spread % strides[along]).equals(0)
            indexes.append(spread // strides[along])
        position = (at[0], *indexes, channel)
        value = load(source, position, inside(position, source.shape) & holds)
        product = value * load(filter_, (*taps, at[4], channel))
        return _finish(call, builder, reduce(ReductionOp.SUM, (*taps, channel), product), at[4])

    return (builder.compute(shape, body),)


LOWERINGS = {
    OperationType.TFLITE_CONV_3D: _convolve,
    OperationType.TFLITE_CONV_3D_TRANSPOSE: _transpose,
}
