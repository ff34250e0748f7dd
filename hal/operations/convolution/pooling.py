"""AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D: pooling over image windows.

Padding is never counted.
"""

from collections.abc import Callable

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel
from neurald.hal.operations.arithmetic.quantized import activate, saturate
from neurald.hal.operations.convolution.windowing import (
    EXPLICIT_PADDING,
    IMPLICIT_PADDING,
    STRIDES,
    Window,
    sliding_window,
)
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.layout import (
    from_nhwc,
    is_nchw,
    shape_from_nhwc,
    shape_to_nhwc,
    to_nhwc,
)
from neurald.hal.operations.machinery.rules import data_rows, known_activation, same_scale
from neurald.hal.operations.machinery.signature import Form, layout, scalar, tensor

_TAIL = (*STRIDES, scalar("filter_width"), scalar("filter_height"), scalar("activation"), layout())
_OUTPUT = (tensor("output", rank=4),)
_FORMS = (
    Form(inputs=(tensor("input", rank=4), *EXPLICIT_PADDING, *_TAIL), outputs=_OUTPUT),
    Form(inputs=(tensor("input", rank=4), *IMPLICIT_PADDING, *_TAIL), outputs=_OUTPUT),
)


def geometry(call: Call) -> tuple[Window, Shape]:
    """Returns the window and the NHWC input shape."""
    shape = call.shape("input")
    shape = shape_to_nhwc(shape) if is_nchw(call) else shape
    kernel = call.scalar_in("filter_height", 1), call.scalar_in("filter_width", 1)
    return sliding_window(call, (shape[1], shape[2]), kernel), shape


def _shape(call: Call) -> tuple[Shape, ...]:
    window, (batches, _, _, channels) = geometry(call)
    shape = (batches, *window.output, channels)
    return (shape_from_nhwc(shape) if is_nchw(call) else shape,)


def _slide(values: Array, window: Window, function: np.ufunc, start: float) -> Array:
    """Reduces the elements in each position of the window, along height, then along width.

    Args:
        values: NHWC.
        window: the window.
        function: combines two elements; must be associative.
        start: identity element of the reduction.
    """
    for axis in (0, 1):
        along, positions = 1 + axis, window.output[axis]
        length = values.shape[along]
        shape = list(values.shape)
        shape[along] = positions
        reduced = np.full(shape, start, values.dtype)
        target, source = np.moveaxis(reduced, along, 0), np.moveaxis(values, along, 0)
        # Window elements that are outside of the image at every position are skipped.
        head, stride = window.padding[axis][0], window.stride[axis]
        first = max(0, head - (positions - 1) * stride)
        for tap in range(first, min(window.kernel[axis], length + head)):
            to, of = window.overlap(axis, tap, length, 0, positions)
            target[to] = function(target[to], source[of])
        values = reduced
    return values


def _count(window: Window, shape: Shape) -> Array:
    """Returns the number of image elements in each position, (height, width, 1), at least 1."""
    counts = []
    for axis in (0, 1):
        begin = np.arange(window.output[axis]) * window.stride[axis] - window.padding[axis][0]
        end = np.minimum(begin + window.kernel[axis], shape[1 + axis])
        counts.append(end - np.maximum(begin, 0))
    rows, columns = counts
    count: Array = rows[:, np.newaxis, np.newaxis] * columns[:, np.newaxis]
    return count


def _average(values: Array, window: Window) -> Array:
    """Averages windows; integers are rounded to nearest, ties away from zero."""
    count = _count(window, values.shape)
    if values.dtype.kind == "f":
        return _slide(values.astype(np.float32), window, np.add, 0) / count.astype(np.float32)
    total = _slide(values.astype(np.int64), window, np.add, 0)
    magnitude: Array = (np.abs(total) + count // 2) // count
    return np.where(total < 0, -magnitude, magnitude)


def _maximum(values: Array, window: Window) -> Array:
    lowest = -np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).min
    return _slide(values, window, np.maximum, lowest)


def _norm(values: Array, window: Window) -> Array:
    """Computes the root mean square of windows."""
    return np.sqrt(_average(np.square(values.astype(np.float32)), window))


def _reference(pool: Callable[[Array, Window], Array]) -> Callable[[Call], tuple[Array, ...]]:
    def reference(call: Call) -> tuple[Array, ...]:
        output, values = call.operand("output"), call.array("input")
        window, _ = geometry(call)
        pooled = pool(to_nhwc(values) if is_nchw(call) else values, window)
        if is_quantized(output):
            result = saturate(pooled, output, call.activation)
        else:
            result = activate(pooled, call.activation).astype(output.type.dtype)
        return (from_nhwc(result) if is_nchw(call) else result,)

    return reference


def _definition(
    operation_type: OperationType,
    pool: Callable[[Array, Window], Array],
    quant8: FeatureLevel | None = FeatureLevel.LEVEL_1,
) -> Definition:
    return Definition(
        type=operation_type,
        forms=_FORMS,
        rows=data_rows(quant8=quant8),
        checks=(same_scale("input"), known_activation),
        shape=_shape,
        reference=_reference(pool),
        arithmetic=frozenset({"input"}),
    )


DEFINITIONS = (
    _definition(OperationType.AVERAGE_POOL_2D, _average),
    _definition(OperationType.MAX_POOL_2D, _maximum),
    _definition(OperationType.L2_POOL_2D, _norm, quant8=None),
)
