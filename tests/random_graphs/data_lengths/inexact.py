"""Adds results that are rounded differently on each device, and which nothing else uses."""

from collections.abc import Sequence
from typing import Any

from random_graphs.data_lengths.graph import DataGraph, Length, Tensor


def inexact(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Adds a result of the whole network."""
    if graph.depth or source.most > 4000:
        return []
    layer = graph.rng.choice((_softmax, _normalized, _function, _attention, _mean, _resized))
    value = _scaled(graph, source)
    graph.leaves += layer(graph, value)
    return []


def _scaled(graph: DataGraph, source: Tensor) -> Tensor:
    value = graph.cast(source, "FLOAT32")
    inputs = [value.index, graph.constant(0.05, "FLOAT32")]
    return graph.add("MUL", inputs, value.shape, "MulOptions", kind="FLOAT32")


def _softmax(graph: DataGraph, value: Tensor) -> list[Tensor]:
    if not value.rank:
        return []
    if graph.rng.random() < 0.3:
        return [graph.add("LOG_SOFTMAX", [value.index], value.shape, "LogSoftmaxOptions", kind="FLOAT32")]
    return [graph.add("SOFTMAX", [value.index], value.shape, "SoftmaxOptions", kind="FLOAT32", Beta=1.0)]


def _normalized(graph: DataGraph, value: Tensor) -> list[Tensor]:
    """Normalizes rows."""
    if not value.rank:
        return []
    if graph.rng.random() < 0.3:
        return [graph.add("L2_NORMALIZATION", [value.index], value.shape, "L2NormOptions", kind="FLOAT32")]
    axis, rows = graph.constant([value.rank - 1]), (*value.shape[:-1], 1)

    def mean(of: Tensor) -> Tensor:
        inputs = [of.index, axis]
        return graph.add("MEAN", inputs, rows, "ReducerOptions", kind="FLOAT32", KeepDims=True)

    def binary(code: str, one: Tensor, other: int) -> Tensor:
        options = f"{code.capitalize()}Options" if code in ("ADD", "MUL") else None
        options = "SquaredDifferenceOptions" if code == "SQUARED_DIFFERENCE" else options
        return graph.add(code, [one.index, other], value.shape, options, kind="FLOAT32")

    center = mean(value)
    spread = mean(binary("SQUARED_DIFFERENCE", value, center.index))
    inputs = [spread.index, graph.constant(0.001, "FLOAT32")]
    safe = graph.add("ADD", inputs, rows, "AddOptions", kind="FLOAT32")
    root = graph.add("RSQRT", [safe.index], rows, kind="FLOAT32")
    difference = graph.add("SUB", [value.index, center.index], value.shape, "SubOptions", kind="FLOAT32")
    return [binary("MUL", difference, root.index)]


def _function(graph: DataGraph, value: Tensor) -> list[Tensor]:
    code, options = graph.rng.choice(
        (
            ("TANH", None),
            ("LOGISTIC", None),
            ("EXP", "ExpOptions"),
            ("GELU", "GeluOptions"),
            ("SIN", None),
            ("SQRT", None),
            ("ELU", None),
            ("HARD_SWISH", "HardSwishOptions"),
            ("LEAKY_RELU", "LeakyReluOptions"),
        )
    )
    values: dict[str, Any] = {"Alpha": 0.3} if code == "LEAKY_RELU" else {}
    return [graph.add(code, [value.index], value.shape, options, kind="FLOAT32", **values)]


def _mean(graph: DataGraph, value: Tensor) -> list[Tensor]:
    if not value.rank:
        return []
    axes = sorted(graph.rng.sample(range(value.rank), graph.rng.randint(1, value.rank)))
    shape = [length for axis, length in enumerate(value.shape) if axis not in axes]
    inputs = [value.index, graph.constant(axes)]
    return [graph.add("MEAN", inputs, shape, "ReducerOptions", kind="FLOAT32", KeepDims=False)]


def _attention(graph: DataGraph, value: Tensor) -> list[Tensor]:
    """Lets rows attend to those of another value of as many columns, or to each other."""
    if value.rank < 2 or isinstance(value.shape[-1], Length):
        return []
    fitting = [
        each
        for each in graph.values
        if each.shape[:-2] == value.shape[:-2] and each.shape[-1:] == value.shape[-1:] and each.rank >= 2
    ]
    keys = _scaled(graph, graph.rng.choice(fitting)) if fitting else value
    scores = graph.add(
        "BATCH_MATMUL",
        [value.index, keys.index],
        (*value.shape[:-1], keys.shape[-2]),
        "BatchMatMulOptions",
        kind="FLOAT32",
        AdjX=False,
        AdjY=True,
    )
    weights = graph.add("SOFTMAX", [scores.index], scores.shape, "SoftmaxOptions", kind="FLOAT32", Beta=1.0)
    result = graph.add(
        "BATCH_MATMUL",
        [weights.index, keys.index],
        value.shape,
        "BatchMatMulOptions",
        kind="FLOAT32",
        AdjX=False,
        AdjY=False,
    )
    return [result]


def _resized(graph: DataGraph, value: Tensor) -> list[Tensor]:
    if value.rank != 4:
        return []
    size = graph.constant([graph.rng.randint(1, 6), graph.rng.randint(1, 6)])
    height, width = graph.graph.tensors[size].data.tolist()
    shape = (value.shape[0], height, width, value.shape[3])
    options: Any = {"AlignCorners": False, "HalfPixelCenters": graph.rng.random() < 0.5}
    inputs = [value.index, size]
    return [graph.add("RESIZE_BILINEAR", inputs, shape, "ResizeBilinearOptions", kind="FLOAT32", **options)]
