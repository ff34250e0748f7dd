"""Adds operations on images whose sizes, or numbers, are data."""

from collections.abc import Sequence
from typing import Any

from random_graphs.data_lengths.graph import DataGraph, Length, Tensor, most_of

_SAME, _VALID = 0, 1


def image(graph: DataGraph, source: Tensor) -> Tensor | None:
    """Gives a value the axes of images: number, rows, columns, and a known number of channels.

    None: it has too many axes, or no channels.
    """
    if source.rank > 4:
        return None
    if not source.rank or isinstance(source.shape[-1], Length):
        source = _expanded(graph, source, source.rank)
    while source.rank < 4:
        source = _expanded(graph, source, graph.rng.choice((0, source.rank - 1)))
    return source if source.rank == 4 and source.shape[3] else None


def _expanded(graph: DataGraph, source: Tensor, axis: int) -> Tensor:
    shape = (*source.shape[:axis], 1, *source.shape[axis:])
    inputs = [source.index, graph.constant(axis)]
    return graph.add("EXPAND_DIMS", inputs, shape, "ExpandDimsOptions", kind=source.type)


class Window:
    """Size, stride and dilation of windows, and their padding."""

    def __init__(self, graph: DataGraph, shape: Sequence[int | Length], *, dilates: bool = True) -> None:
        rng = graph.rng
        self._graph = graph
        self.size = rng.choice(((1, 1), (3, 3), (2, 2), (1, 3), (5, 1)))
        self.stride = rng.choice(((1, 1), (1, 1), (2, 2), (1, 2)))
        self.dilation = (1, 2) if dilates and self.stride == (1, 1) and rng.random() < 0.3 else (1, 1)
        spans = [(size - 1) * each + 1 for size, each in zip(self.size, self.dilation, strict=True)]
        fits = all(most_of(each) >= span for each, span in zip(shape[1:3], spans, strict=True))
        self.padding = rng.choice((_SAME, _VALID)) if fits else _SAME
        self._spans = spans

    @property
    def options(self) -> dict[str, Any]:
        """Fields of the options of all operations with windows."""
        return {"Padding": self.padding, "StrideH": self.stride[0], "StrideW": self.stride[1]}

    @property
    def dilations(self) -> dict[str, Any]:
        """Fields of the options of convolutions."""
        return {"DilationHFactor": self.dilation[0], "DilationWFactor": self.dilation[1]}

    def over(self, shape: Sequence[int | Length], channels: int | Length) -> tuple[int | Length, ...]:
        """Returns the shape of the result."""
        rows, columns = (self._result(shape[axis + 1], axis) for axis in range(2))
        return (shape[0], rows, columns, channels)

    def _result(self, length: int | Length, axis: int) -> int | Length:
        if self.padding == _SAME and self.stride[axis] == 1:
            return length
        cut = self._spans[axis] - 1 if self.padding == _VALID else 0
        result = -(-(most_of(length) - cut) // self.stride[axis])
        return self._graph.length(result) if isinstance(length, Length) else result


def convolved(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Convolves an image with constants."""
    given = image(graph, source)
    if given is None or given.most > 4000 or most_of(given.shape[3]) > 40:
        return []
    value, channels = graph.cast(given, "FLOAT32"), most_of(given.shape[3])
    window = Window(graph, value.shape)
    if graph.rng.random() < 0.6:
        count = graph.rng.choice((1, 3, 4, 8, 17))
        filters, code, options = graph.matrix(count, *window.size, channels), "CONV_2D", "Conv2DOptions"
        more: dict[str, Any] = {}
    else:
        more = {"DepthMultiplier": graph.rng.choice((1, 1, 2))}
        count = channels * more["DepthMultiplier"]
        filters, code = graph.matrix(1, *window.size, count), "DEPTHWISE_CONV_2D"
        options = "DepthwiseConv2DOptions"
    bias = graph.constant(graph.matrix(count), "FLOAT32") if graph.rng.random() < 0.7 else -1
    result = graph.add(
        code,
        [value.index, graph.constant(filters, "FLOAT32"), bias],
        window.over(value.shape, count),
        options,
        kind="FLOAT32",
        FusedActivationFunction=graph.rng.choice((0, 1)),
        **window.options,
        **window.dilations,
        **more,
    )
    return [graph.bounded(graph.cast(result, "INT32"))]


def pooled(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Takes the largest element of each window, or four times the mean of 2 × 2."""
    given = image(graph, source)
    if given is None:
        return []
    value = graph.cast(given, "FLOAT32")
    window = Window(graph, value.shape, dilates=False)
    code = graph.rng.choice(("MAX", "AVERAGE"))
    if code == "AVERAGE":
        window.size = (2, 2)
        window.padding = _SAME
    result = graph.add(
        f"{code}_POOL_2D",
        [value.index],
        window.over(value.shape, value.shape[3]),
        "Pool2DOptions",
        kind="FLOAT32",
        FilterHeight=window.size[0],
        FilterWidth=window.size[1],
        **window.options,
    )
    four = graph.constant(4 if code == "AVERAGE" else 1, "FLOAT32")
    result = graph.add("MUL", [result.index, four], result.shape, "MulOptions", kind="FLOAT32")
    return [graph.bounded(graph.cast(result, "INT32"))]


def transposed_windows(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Makes an image twice as large by a transposed convolution."""
    given = image(graph, source)
    if given is None or given.most > 2000 or most_of(given.shape[3]) > 20:
        return []
    value, channels = graph.cast(given, "FLOAT32"), most_of(given.shape[3])
    count = graph.rng.choice((1, 3, 8))
    size = graph.rng.choice((2, 3, 4))
    two = graph.constant(2)
    lengths = [
        graph.add("MUL", [graph.length_of(value, axis).index, two], [], "MulOptions").index for axis in (1, 2)
    ]
    shape = graph.packed([graph.length_of(value, 0).index, *lengths, graph.constant(count)])
    twice = [
        graph.length(2 * each.most) if isinstance(each, Length) else 2 * each for each in value.shape[1:3]
    ]
    filters = graph.constant(graph.matrix(count, size, size, channels), "FLOAT32")
    result = graph.add(
        "TRANSPOSE_CONV",
        [shape.index, filters, value.index],
        [value.shape[0], *twice, count],
        "TransposeConvOptions",
        kind="FLOAT32",
        Padding=_SAME,
        StrideW=2,
        StrideH=2,
    )
    return [graph.bounded(graph.cast(result, "INT32"))]


def resized(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Gives an image a size that is data."""
    given = image(graph, source)
    if given is None:
        return []
    value = graph.cast(given, "FLOAT32")
    size = graph.packed([graph.number(source, 1, 7).index, graph.number(source, 1, 7).index])
    shape = (value.shape[0], graph.length(7), graph.length(7), value.shape[3])
    result = graph.add(
        "RESIZE_NEAREST_NEIGHBOR",
        [value.index, size.index],
        shape,
        "ResizeNearestNeighborOptions",
        kind="FLOAT32",
        HalfPixelCenters=graph.rng.random() < 0.5,
    )
    return [graph.cast(result, "INT32")]


def blocks(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Moves blocks of an image into its channels, or its channels into blocks."""
    given = image(graph, source)
    if given is None:
        return []
    number, rows, columns, channels = given.shape
    if graph.rng.random() < 0.5 and most_of(channels) % 4 == 0:
        shape = [
            number,
            *(graph.length(2 * e.most) if isinstance(e, Length) else 2 * e for e in (rows, columns)),
        ]
        inner = most_of(channels) // 4
        options: Any = {"BlockSize": 2}
        inputs = [given.index]
        return [graph.add("DEPTH_TO_SPACE", inputs, [*shape, inner], "DepthToSpaceOptions", **options)]
    if any(not isinstance(each, Length) and each % 2 for each in (rows, columns)):
        return []
    halves = [graph.length(e.most // 2) if isinstance(e, Length) else e // 2 for e in (rows, columns)]
    if graph.rng.random() < 0.5:
        shape = [number, *halves, 4 * most_of(channels)]
        return [graph.add("SPACE_TO_DEPTH", [given.index], shape, "SpaceToDepthOptions", BlockSize=2)]
    many = graph.length(4 * number.most) if isinstance(number, Length) else 4 * number
    inputs = [given.index, graph.constant([2, 2]), graph.constant([[0, 0], [0, 0]])]
    return [graph.add("SPACE_TO_BATCH_ND", inputs, [many, *halves, channels], "SpaceToBatchNDOptions")]
