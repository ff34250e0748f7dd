"""Adds quantised operations, whose results have the same bits on all devices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from random_graphs.data_lengths.graph import DataGraph, Length, Tensor, most_of
from random_graphs.data_lengths.windows import Window, image

#: Powers of two, so that dequantised numbers are exact.
_SCALES = (1.0, 2.0, 4.0, 16.0)


def quantised(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Computes with a value as int8."""
    if source.most > 4000:
        return []
    layer = graph.rng.choice((_product, _convolution, _elementwise, _reduction, _join, _matrices))
    result = layer(graph, source)
    if result is None:
        return []
    return [graph.bounded(graph.cast(_dequantised(graph, result), "INT32"))]


def _quantization(graph: DataGraph) -> dict[str, Any]:
    return {"scale": graph.rng.choice(_SCALES), "zero_point": graph.rng.choice((0, 0, -5, 17, -128))}


def _quantize(graph: DataGraph, source: Tensor) -> Tensor:
    value = graph.cast(source, "FLOAT32")
    quantization = {"scale": 1.0, "zero_point": graph.rng.choice((0, -20))}
    return graph.add(
        "QUANTIZE", [value.index], value.shape, "QuantizeOptions", kind="INT8", quantization=quantization
    )


def _dequantised(graph: DataGraph, source: Tensor) -> Tensor:
    return graph.add("DEQUANTIZE", [source.index], source.shape, "DequantizeOptions", kind="FLOAT32")


def _weights(graph: DataGraph, shape: Sequence[int], channels: int, axis: int) -> int:
    """Adds weights with a scale for each channel, or for all."""
    numbers = graph.matrix(*shape) * 9
    if graph.rng.random() < 0.6:
        scale: Any = [float(graph.rng.choice((0.5, 1, 2))) for _ in range(channels)]
        return graph.constant(numbers, "INT8", scale=scale, quantized_dimension=axis)
    return graph.constant(numbers, "INT8", scale=1.0)


def _bias(graph: DataGraph, weights: int, count: int) -> int:
    if graph.rng.random() < 0.3:
        return -1
    scale = graph.graph.tensors[weights].scale
    return graph.constant(graph.matrix(count) * 20, scale=scale if len(scale) > 1 else scale[0])


def _product(graph: DataGraph, source: Tensor) -> Tensor | None:
    if not source.rank or isinstance(source.shape[-1], Length):
        return None
    value, columns = _quantize(graph, source), graph.rng.choice((1, 3, 4, 16, 33))
    weights = _weights(graph, (columns, most_of(source.shape[-1])), columns, 0)
    return graph.add(
        "FULLY_CONNECTED",
        [value.index, weights, _bias(graph, weights, columns)],
        (*source.shape[:-1], columns) if source.rank > 1 else (1, columns),
        "FullyConnectedOptions",
        kind="INT8",
        quantization=_quantization(graph),
        KeepNumDims=source.rank > 1,
        FusedActivationFunction=graph.rng.choice((0, 1)),
    )


def _convolution(graph: DataGraph, source: Tensor) -> Tensor | None:
    given = image(graph, source)
    if given is None or most_of(given.shape[3]) > 40:
        return None
    value, channels = _quantize(graph, given), most_of(given.shape[3])
    window = Window(graph, value.shape)
    is_depthwise = graph.rng.random() < 0.4
    count = channels if is_depthwise else graph.rng.choice((1, 4, 16, 19))
    shape = (1, *window.size, count) if is_depthwise else (count, *window.size, channels)
    weights = _weights(graph, shape, count, 3 if is_depthwise else 0)
    more: dict[str, Any] = {"DepthMultiplier": 1} if is_depthwise else {}
    return graph.add(
        "DEPTHWISE_CONV_2D" if is_depthwise else "CONV_2D",
        [value.index, weights, _bias(graph, weights, count)],
        window.over(value.shape, count),
        "DepthwiseConv2DOptions" if is_depthwise else "Conv2DOptions",
        kind="INT8",
        quantization=_quantization(graph),
        FusedActivationFunction=graph.rng.choice((0, 1)),
        **window.options,
        **window.dilations,
        **more,
    )


def _elementwise(graph: DataGraph, source: Tensor) -> Tensor | None:
    value = _quantize(graph, source)
    kind = graph.rng.randrange(4)
    if kind == 0:
        # The scale of its result is fixed.
        quantization = {"scale": 1 / 256, "zero_point": -128}
        logistic = graph.add("LOGISTIC", [value.index], source.shape, kind="INT8", quantization=quantization)
        return graph.add(
            "QUANTIZE",
            [logistic.index],
            source.shape,
            "QuantizeOptions",
            kind="INT8",
            quantization={"scale": 1 / 64, "zero_point": 0},
        )
    fitting = [each for each in graph.values if each.shape == source.shape] or [source]
    other = _quantize(graph, graph.rng.choice(fitting))
    code = ("ADD", "SUB", "MUL")[kind - 1]
    inputs = [value.index, other.index]
    return graph.add(
        code,
        inputs,
        source.shape,
        f"{code.capitalize()}Options",
        kind="INT8",
        quantization=_quantization(graph),
    )


def _reduction(graph: DataGraph, source: Tensor) -> Tensor | None:
    if not source.rank:
        return None
    value = _quantize(graph, source)
    axes = sorted(graph.rng.sample(range(source.rank), graph.rng.randint(1, source.rank)))
    shape = [length for axis, length in enumerate(source.shape) if axis not in axes]
    inputs = [value.index, graph.constant(axes)]
    code = graph.rng.choice(("MEAN", "SUM", "REDUCE_MAX"))
    own = graph.graph.tensors[value.index]
    quantization = (
        {"scale": own.scale, "zero_point": own.zero_point} if code == "REDUCE_MAX" else _quantization(graph)
    )
    return graph.add(
        code, inputs, shape, "ReducerOptions", kind="INT8", quantization=quantization, KeepDims=False
    )


def _join(graph: DataGraph, source: Tensor) -> Tensor | None:
    if not source.rank:
        return None
    parts = [_quantize(graph, source) for _ in range(graph.rng.randint(1, 3))]
    length = source.shape[0]
    joined = graph.length(3 * length.most) if isinstance(length, Length) else length * len(parts)
    inputs = [each.index for each in parts]
    quantization = _quantization(graph)
    value = graph.add(
        "CONCATENATION",
        inputs,
        (joined, *source.shape[1:]),
        "ConcatenationOptions",
        kind="INT8",
        quantization=quantization,
        Axis=0,
    )
    pads = np.zeros((source.rank, 2), np.int32)
    pads[0, 1] = 1
    longer = graph.length(joined.most + 1) if isinstance(joined, Length) else joined + 1
    return graph.add(
        "PAD",
        [value.index, graph.constant(pads)],
        (longer, *source.shape[1:]),
        "PadOptions",
        kind="INT8",
        quantization=quantization,
    )


def _matrices(graph: DataGraph, source: Tensor) -> Tensor | None:
    if source.rank < 2:
        return None
    value, other = _quantize(graph, source), _quantize(graph, source)
    across = graph.rng.random() < 0.5
    rows, columns = source.shape[-2:]
    shape = (*source.shape[:-2], columns, columns) if across else (*source.shape[:-2], rows, rows)
    options: Any = {"AdjX": across, "AdjY": not across}
    inputs = [value.index, other.index]
    return graph.add(
        "BATCH_MATMUL",
        inputs,
        shape,
        "BatchMatMulOptions",
        kind="INT8",
        quantization={"scale": graph.rng.choice((16.0, 64.0)), "zero_point": -5},
        **options,
    )
