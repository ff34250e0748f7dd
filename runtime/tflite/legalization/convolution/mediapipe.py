"""Custom operators of MediaPipe.

A transposed convolution with bias, max pooling that returns positions, and its inverse.
Their options are the structures of TFLite's C interface, which LiteRT reads as they are in memory.
Positions are unsigned integers in tensors that files declare as FLOAT32; they count the elements of
a window column by column.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType, PaddingScheme
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.machinery.steps import constant, known_shape, reshaped, step

_PADDINGS: Mapping[int, PaddingScheme] = {1: PaddingScheme.SAME, 2: PaddingScheme.VALID}
_INT32 = OperandType.TENSOR_INT32
#: The most elements of a result, which numbers of 32 bits count.
_MAX_ELEMENTS: Final = (1 << 31) - 1
#: The most windows each of whose positions is compared with that of their element.
_MAX_COMPARED: Final = 256
#: Images repeat the elements at their edge if windows reach beyond it. At most this many elements
#: may result, or this many times as many as the images have.
_MAX_FEW_REPEATED: Final = 1 << 20
_MAX_GROWTH: Final = 16


def _fields(operator: Operator, count: int) -> tuple[int, ...]:
    """Returns the first numbers of the options.

    Raises:
        UnsupportedFeature: there are fewer.
    """
    if len(operator.custom_options) < 4 * count:
        raise UnsupportedFeature(
            f"its options have {len(operator.custom_options)} bytes; at least {4 * count} are expected"
        )
    return struct.unpack_from(f"<{count}i", operator.custom_options)


def _padding(number: int) -> PaddingScheme:
    if number not in _PADDINGS:
        raise UnsupportedFeature(f"padding {number} is unknown")
    return _PADDINGS[number]


def transpose_conv_bias(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes Convolution2DTransposeBias: input, filter with the output channels first, bias."""
    padding, stride_width, stride_height = _fields(operator, 3)
    scheme = _padding(padding)
    batches, height, width = known_shape(graph, operator, 0, 4)[:3]
    channels, filter_height, filter_width = known_shape(graph, operator, 1, 4)[:3]
    if stride_width < 1 or stride_height < 1:
        raise UnsupportedFeature(f"strides {stride_height} and {stride_width}; at least 1 is expected")
    shape = (
        batches,
        _grown(height, stride_height, filter_height, scheme),
        _grown(width, stride_width, filter_width, scheme),
        channels,
    )
    inputs = (
        graph.input(operator, 0),
        graph.input(operator, 1),
        graph.input(operator, 2),
        graph.vector(shape),
        graph.int32(scheme),
        graph.int32(stride_width),
        graph.int32(stride_height),
        graph.int32(FusedActivation.NONE),
        graph.boolean(value=False),
    )
    graph.emit(OperationType.TRANSPOSE_CONV_2D, inputs, (graph.output(operator),))


def _grown(length: int, stride: int, window: int, scheme: PaddingScheme) -> int:
    """Returns the number of rows or columns of the result of a transposed convolution."""
    return length * stride if scheme is PaddingScheme.SAME else (length - 1) * stride + window


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of a pooling, which do not overlap.

    Attributes:
        height, width: the height and width of a window.
        rows, columns: number of windows.
        before: padding above and at the left.
        size: the size of the pooled images, with padding.
    """

    height: int
    width: int
    rows: int
    columns: int
    before: tuple[int, int]
    size: tuple[int, int]


def _windows(operator: Operator, height: int, width: int) -> _Windows:
    """Returns the windows of images of that size.

    Raises:
        UnsupportedFeature: windows overlap, or leave gaps.
    """
    padding, stride_width, stride_height, filter_width, filter_height = _fields(operator, 5)
    if min(filter_width, filter_height) < 1 or (stride_width, stride_height) != (filter_width, filter_height):
        raise UnsupportedFeature(
            f"windows of {filter_height} x {filter_width} with strides {stride_height} and {stride_width}; "
            "strides equal to the size of a window are expected"
        )
    is_same = _padding(padding) is PaddingScheme.SAME
    counts = [
        math.ceil(length / window) if is_same else length // window
        for length, window in ((height, filter_height), (width, filter_width))
    ]
    size = counts[0] * filter_height, counts[1] * filter_width
    before = (max(0, size[0] - height) // 2, max(0, size[1] - width) // 2)
    return _Windows(filter_height, filter_width, counts[0], counts[1], before, size)


def _require_no_activation(operator: Operator) -> None:
    activation = _fields(operator, 6)[5]
    if activation:
        raise UnsupportedFeature(f"the fused activation {activation} is not supported")


def max_pool_with_argmax(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes MaxPoolingWithArgmax2D: the largest element of each window, and its position."""
    _require_no_activation(operator)
    batches, height, width, channels = known_shape(graph, operator, 0, 4)
    windows = _windows(operator, height, width)
    source = graph.input(operator, 0)
    if windows.rows < 1 or windows.columns < 1:
        raise UnsupportedFeature(f"images of {height} x {width} are smaller than a window")
    if math.prod(windows.size) > max(_MAX_FEW_REPEATED, _MAX_GROWTH * height * width):
        raise UnsupportedFeature(
            f"windows of {windows.height} x {windows.width} reach far beyond images of {height} x {width}"
        )
    # Windows that reach beyond the image repeat the elements at its edge.
    for axis, length, size, before in zip((1, 2), (height, width), windows.size, windows.before, strict=True):
        if size != length:
            indexes = [min(max(place - before, 0), length - 1) for place in range(size)]
            source = step(graph, OperationType.GATHER, source, graph.int32(axis), graph.vector(indexes))
    rows, columns = batches * windows.rows, windows.columns
    split = reshaped(graph, source, (rows, windows.height, columns, windows.width, channels))
    # Rank 5 instead of 6, with the batches among the rows, since many kernels end there.
    last = step(graph, OperationType.TFLITE_TRANSPOSE, split, graph.vector((0, 2, 4, 3, 1)))
    area = windows.height * windows.width
    elements = reshaped(graph, last, (batches, windows.rows, columns, channels, area))
    axes = graph.vector((4,))
    step(
        graph,
        OperationType.TFLITE_REDUCE_MAX,
        elements,
        axes,
        graph.boolean(value=False),
        result=graph.output(operator, 0),
    )
    position = step(graph, OperationType.ARGMAX, elements, graph.int32(4), kind=_INT32)
    _as_declared(graph, position, graph.output(operator, 1))


def _as_declared(graph: SubgraphBuilder, positions: int, result: int) -> None:
    """Emits positions as the bits of the type that the file declares for them."""
    if graph.operand(result).type is _INT32:
        reshaped(graph, positions, tuple(graph.operand(positions).dimensions or ()), result)
    else:
        graph.emit(OperationType.TFLITE_BITCAST, (positions,), (result,))


def max_unpool(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes MaxUnpooling2D: each element goes to a position of its window, the others are 0."""
    _require_no_activation(operator)
    batches, rows, columns, channels = known_shape(graph, operator, 0, 4)
    padding, *_strides, width, height = _fields(operator, 5)
    if _padding(padding) is not PaddingScheme.VALID or min(width, height) < 1:
        raise UnsupportedFeature(
            f"padding {_padding(padding).name} and windows of {height} x {width}; VALID is expected, and "
            "windows of at least 1 x 1"
        )
    whole = (batches, rows * height, columns * width, channels)
    if math.prod(whole) > _MAX_ELEMENTS:
        raise UnsupportedFeature(f"a result of shape {list(whole)}; {_MAX_ELEMENTS} elements may be")
    values, positions = graph.input(operator, 0), graph.input(operator, 1)
    if graph.operand(positions).type is not _INT32:
        positions = step(graph, OperationType.TFLITE_BITCAST, positions, kind=_INT32)
    unpool = _compared if height * width <= _MAX_COMPARED else _scattered
    result = unpool(graph, values, positions, (batches * rows, columns, channels), (height, width))
    reshaped(graph, result, whole, graph.output(operator))


def _compared(
    graph: SubgraphBuilder, values: int, positions: int, shape: tuple[int, ...], window: tuple[int, int]
) -> int:
    """Returns the elements in their windows, each of whose positions is compared with theirs.

    One kernel does that, which writes each element of the result once.

    Args:
        graph: receives the operations.
        values, positions: the values and positions of the elements.
        shape: lines of windows of all images, windows of a line, and channels.
        window: its height and width.
    """
    (height, width), area = window, math.prod(window)
    chosen = step(
        graph,
        OperationType.TFLITE_EQUAL,
        reshaped(graph, positions, (*shape, 1)),
        reshaped(graph, graph.vector(range(area)), (1, 1, 1, area)),
        kind=OperandType.TENSOR_BOOL8,
    )
    spread = step(
        graph,
        OperationType.TFLITE_SELECT_V2,
        chosen,
        reshaped(graph, values, (*shape, 1)),
        constant(graph, np.zeros((1, 1, 1, 1))),
    )
    split = reshaped(graph, spread, (*shape, width, height))
    return step(graph, OperationType.TFLITE_TRANSPOSE, split, graph.vector((0, 4, 1, 3, 2)))


def _scattered(
    graph: SubgraphBuilder, values: int, positions: int, shape: tuple[int, ...], window: tuple[int, int]
) -> int:
    """Returns the elements at places that are computed, among zeros; see `_compared`.

    The work for large windows is that for their few elements, apart from the zeros.
    """
    (height, width), (lines, columns, channels) = window, shape
    values, positions = reshaped(graph, values, shape), reshaped(graph, positions, shape)
    # A position outside of its window is that of no element.
    place = step(graph, OperationType.TFLITE_MAXIMUM, positions, _integers(graph, 0), kind=_INT32)
    last = _integers(graph, height * width - 1)
    place = step(graph, OperationType.TFLITE_MINIMUM, place, last, kind=_INT32)
    is_inside = step(graph, OperationType.TFLITE_EQUAL, place, positions, kind=OperandType.TENSOR_BOOL8)
    kept = step(graph, OperationType.TFLITE_SELECT_V2, is_inside, values, constant(graph, np.zeros(())))
    # Where each element is in the result: that of its window's first one, and from there.
    line = columns * width * channels
    first = np.arange(columns)[:, None] * (width * channels) + np.arange(channels)
    index = _weighted(graph, OperationType.TFLITE_FLOOR_MOD, place, height, line)
    across = _weighted(graph, OperationType.TFLITE_FLOOR_DIV, place, height, channels)
    none = graph.int32(FusedActivation.NONE)
    starts = _integers(graph, np.arange(lines)[:, None, None] * (height * line)), _integers(graph, first)
    for each in (across, *starts):
        index = step(graph, OperationType.ADD, index, each, none, kind=_INT32)
    count = math.prod(shape)
    return step(
        graph,
        OperationType.TFLITE_SCATTER_ND,
        reshaped(graph, index, (count, 1)),
        reshaped(graph, kept, (count,)),
        graph.vector((lines * height * line,)),
    )


def _integers(graph: SubgraphBuilder, value: Any) -> int:
    """Returns a constant TENSOR_INT32."""
    array = np.asarray(value, np.int32)
    return graph.constant_like(Operand(type=_INT32, dimensions=array.shape), array)


def _weighted(graph: SubgraphBuilder, part: OperationType, place: int, height: int, weight: int) -> int:
    """Returns a row or column of positions in windows of that height, times a weight."""
    found = step(graph, part, place, _integers(graph, height), kind=_INT32)
    none = graph.int32(FusedActivation.NONE)
    return step(graph, OperationType.MUL, found, _integers(graph, weight), none, kind=_INT32)


#: Custom operators by name.
CUSTOM: dict[str, Legalization] = {
    "Convolution2DTransposeBias": Legalization(rule=transpose_conv_bias, inputs=(3, 3)),
    "MaxPoolingWithArgmax2D": Legalization(rule=max_pool_with_argmax, outputs=(2, 2)),
    "MaxUnpooling2D": Legalization(rule=max_unpool, inputs=(2, 2)),
}
