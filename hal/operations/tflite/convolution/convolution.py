"""CONV_2D (including grouped), DEPTHWISE_CONV_2D and TRANSPOSE_CONV with TFLite's types.

In addition to Android's types they accept 16-bit activations, and float activations with 8-bit
weights.
"""

from collections.abc import Callable

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.fixed_point import Rounding
from neurald.hal.operations.convolution import convolution, depthwise_convolution, transpose_convolution
from neurald.hal.operations.convolution.convolution import convolve
from neurald.hal.operations.convolution.weighted_sum import (
    MAX_CENTRED_MAGNITUDE,
    MAX_SIGNED_MAGNITUDE,
    ROWS,
    Writer,
    bias_scale,
    channel_scales,
    output_writer,
    signed,
    weights,
)
from neurald.hal.operations.convolution.windowing import Window
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.layout import from_nhwc, is_nchw, shape_by, to_nhwc
from neurald.hal.operations.machinery.rules import known_activation
from neurald.hal.operations.tflite.convolution import hybrid
from neurald.hal.operations.tflite.convolution.int16 import INT16_ROWS, MAX_INT16_MAGNITUDE, is_int16
from neurald.hal.records import replace

_ROWS = (*ROWS, *hybrid.ROWS, *INT16_ROWS)

#: Returns the window and the NHWC output shape.
_Geometry = Callable[[Call], tuple[Window, Shape]]


def rounding(call: Call) -> Rounding:
    """Returns the rounding of quantised sums in a convolution."""
    return Rounding.SHORT if is_int16(call) else Rounding.TWICE


def has_zero_points(call: Call) -> bool:
    """Returns True if images get a zero point, which depends on the weights' scales."""
    return len(set(hybrid.weight_scales(call.operand("filter")).tolist())) > 1


def _nhwc(call: Call) -> Array:
    return to_nhwc(call.array("input")) if is_nchw(call) else call.array("input")


def _images(values: Array, *, asymmetric: bool) -> tuple[Array, Array, Array]:
    """Returns the quantised images, and the scale and zero point of each."""
    from neurald.hal.operations.arithmetic.row_quantization import quantize_rows  # Only to compute.

    rows = np.ascontiguousarray(values).reshape(len(values), np.prod(values.shape[1:], dtype=np.int64))
    quantized_values, scales, zero_points = quantize_rows(rows, asymmetric=asymmetric)
    return quantized_values.reshape(values.shape), scales, zero_points


def _grouped_geometry(call: Call) -> tuple[Window, Shape]:
    return convolution.geometry(call, grouped=True)


def _sum(call: Call, window: Window, output: Array) -> None:
    channels = output.shape[3]
    if hybrid.is_hybrid(call):
        quantized_values, scales, zero_points = _images(_nhwc(call), asymmetric=has_zero_points(call))
        matrix = hybrid.raw_weights(call, (1, 2, 3)).reshape(channels, -1)
        total = matrix.sum(axis=1, dtype=np.float64)
        for image, scale, zero_point, result in zip(
            quantized_values, scales, zero_points, output, strict=True
        ):
            write = hybrid.float_writer(call, scale, -zero_point * total)
            convolve(image[np.newaxis], int(zero_point), matrix, window, write, result[np.newaxis])
        return
    values, zero_point = signed(call)
    values = to_nhwc(values) if is_nchw(call) else values
    largest = MAX_INT16_MAGNITUDE if is_int16(call) else MAX_SIGNED_MAGNITUDE
    matrix = weights(call, (1, 2, 3), largest).reshape(channels, -1)
    zero_offset = -zero_point * matrix.sum(axis=1, dtype=np.float64).astype(np.int64) if zero_point else None
    convolve(values, zero_point, matrix, window, output_writer(call, zero_offset, rounding(call)), output)


def _depthwise_sum(call: Call, window: Window, output: Array) -> None:
    if hybrid.is_hybrid(call):
        filter_ = hybrid.raw_weights(call, (0, 1, 2))[0]
        _each_image(call, depthwise_convolution.convolve, filter_, window, output)
        return
    largest = MAX_INT16_MAGNITUDE if is_int16(call) else depthwise_convolution.largest(call)
    filter_ = weights(call, (0, 1, 2), largest)[0]
    write = output_writer(call, rounding=rounding(call))
    zero_point = call.operand("input").zero_point
    depthwise_convolution.convolve(_nhwc(call), zero_point, filter_, window, write, output)


def _transposed_sum(call: Call, window: Window, output: Array) -> None:
    if hybrid.is_hybrid(call):
        filter_ = hybrid.raw_weights(call, (1, 2, 3))
        _each_image(call, transpose_convolution.convolve, filter_, window, output)
        return
    filter_ = weights(call, (1, 2, 3), MAX_INT16_MAGNITUDE if is_int16(call) else MAX_CENTRED_MAGNITUDE)
    write = output_writer(call, rounding=rounding(call))
    zero_point = call.operand("input").zero_point
    transpose_convolution.convolve(_nhwc(call), zero_point, filter_, window, write, output)


def _each_image(
    call: Call,
    sum_image: Callable[[Array, int, Array, Window, Writer, Array], None],
    filter_: Array,
    window: Window,
    output: Array,
) -> None:
    """Fills `output` from separately quantised images; `sum_image` subtracts their zero points."""
    images = zip(*_images(_nhwc(call), asymmetric=True), output, strict=True)
    for image, scale, zero_point, result in images:
        write = hybrid.float_writer(call, scale)
        sum_image(image[np.newaxis], int(zero_point), filter_, window, write, result[np.newaxis])


def _definition(
    operation_type: OperationType,
    android: Definition,
    geometry: _Geometry,
    fill: Callable[[Call, Window, Array], None],
    checks: tuple[Check, ...],
) -> Definition:
    """Extends `android` to another type and more operand types; `fill` computes the output."""

    def reference(call: Call) -> tuple[Array, ...]:
        window, shape = geometry(call)
        output = np.empty(shape, call.operand("output").type.dtype)
        fill(call, window, output)
        return (from_nhwc(output) if is_nchw(call) else output,)

    return replace(
        android,
        type=operation_type,
        rows=_ROWS,
        checks=checks,
        shape=shape_by(geometry),
        reference=reference,
        level=None,
        widens=android.type,
    )


DEFINITIONS = (
    _definition(
        OperationType.TFLITE_CONV_2D,
        convolution.DEFINITIONS[0],
        _grouped_geometry,
        _sum,
        (known_activation, bias_scale, channel_scales(0)),
    ),
    _definition(
        OperationType.TFLITE_DEPTHWISE_CONV_2D,
        depthwise_convolution.DEFINITIONS[0],
        depthwise_convolution.geometry,
        _depthwise_sum,
        (known_activation, bias_scale, channel_scales(3)),
    ),
    _definition(
        OperationType.TFLITE_TRANSPOSE_CONV,
        transpose_convolution.DEFINITIONS[0],
        transpose_convolution.geometry,
        _transposed_sum,
        (known_activation, bias_scale, channel_scales(0)),
    ),
)
