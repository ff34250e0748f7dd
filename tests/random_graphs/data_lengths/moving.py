"""Adds operations that move elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from random_graphs.data_lengths.graph import MODULUS, DataGraph, Length, Tensor, most_of


def joined(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Concatenates values."""
    if not source.rank:
        return []
    along = graph.rng.randrange(source.rank)

    def others(shape: tuple[int | Length, ...]) -> tuple[int | Length, ...]:
        return (*shape[:along], *shape[along + 1 :])

    fitting = [
        each
        for each in graph.values
        if each.rank == source.rank and others(each.shape) == others(source.shape)
    ]
    parts = [source, *graph.rng.sample(fitting, min(len(fitting), graph.rng.randint(1, 3)))]
    graph.rng.shuffle(parts)
    total = graph.length(sum(most_of(each.shape[along]) for each in parts))
    shape = (*source.shape[:along], total, *source.shape[along + 1 :])
    indices = [each.index for each in parts]
    return [graph.add("CONCATENATION", indices, shape, "ConcatenationOptions", Axis=along)]


def transposed(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Transposes a value."""
    order = graph.rng.sample(range(source.rank), source.rank)
    shape = [source.shape[each] for each in order]
    return [graph.add("TRANSPOSE", [source.index, graph.constant(order)], shape, "TransposeOptions")]


def reshaped(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Adds or removes an axis, or joins two."""
    kind = graph.rng.randrange(4)
    if kind == 0 or not source.rank:
        axis = graph.rng.randint(0, source.rank)
        shape = (*source.shape[:axis], 1, *source.shape[axis:])
        return [graph.add("EXPAND_DIMS", [source.index, graph.constant(axis)], shape, "ExpandDimsOptions")]
    if kind == 1:
        return [graph.flat(source)]
    if kind == 2 and 1 in source.shape:
        axis = source.shape.index(1)
        shape = (*source.shape[:axis], *source.shape[axis + 1 :])
        return [graph.add("SQUEEZE", [source.index], shape, "SqueezeOptions", SqueezeDims=[axis])]
    rows = graph.length_of(source, 0)
    table = graph.packed([rows.index, graph.constant(-1)])
    shape = (source.shape[0], graph.length(source.most))
    return [graph.add("RESHAPE", [source.index, table.index], shape, "ReshapeOptions")]


def stacked(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Puts values of equal shapes beside each other along a new axis."""
    fitting = [each for each in graph.values if each.shape == source.shape]
    if not fitting:
        return []
    parts = graph.rng.choices(fitting, k=graph.rng.randint(1, 3))
    axis = graph.rng.randint(0, source.rank)
    shape = (*source.shape[:axis], len(parts), *source.shape[axis:])
    inputs = [each.index for each in parts]
    return [graph.add("PACK", inputs, shape, "PackOptions", ValuesCount=len(parts), Axis=axis)]


def parted(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Takes a value apart along an axis whose length is known."""
    axes = [axis for axis, length in enumerate(source.shape) if length in (1, 2, 3, 4)]
    if not axes:
        return []
    axis = graph.rng.choice(axes)
    count = most_of(source.shape[axis])
    rest = (*source.shape[:axis], *source.shape[axis + 1 :])
    if graph.rng.random() < 0.5:
        results = [graph.tensor(rest) for _ in range(count)]
        graph.add_many("UNPACK", [source.index], results, "UnpackOptions", Num=count, Axis=axis)
        return results
    results = [graph.tensor((*rest[:axis], 1, *rest[axis:])) for _ in range(count)]
    inputs = [graph.constant(axis), source.index]
    graph.add_many("SPLIT", inputs, results, "SplitOptions", NumSplits=count)
    return results


def mirrored(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Mirrors the ends of a value."""
    if not source.rank:
        return []
    pads = [[graph.rng.randint(0, 1), graph.rng.randint(0, 1)] for _ in source.shape]
    shape = [
        graph.length(length.most + 2) if isinstance(length, Length) else length + sum(pair)
        for length, pair in zip(source.shape, pads, strict=True)
    ]
    inputs = [source.index, graph.constant(pads)]
    return [graph.add("MIRROR_PAD", inputs, shape, "MirrorPadOptions", Mode=graph.rng.randint(0, 1))]


def updated(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Writes a small block into a value, at a place that is data."""
    if not source.rank:
        return []
    starts = graph.packed([graph.number(source, 0, 5).index for _ in source.shape])
    update = graph.constant(np.full([1] * source.rank, 11))
    return [graph.add("DYNAMIC_UPDATE_SLICE", [source.index, update, starts.index], source.shape)]


def looked_up(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Takes rows of a table."""
    if source.most > 600:
        return []
    width = graph.rng.choice((1, 3, 8, 16))
    rows = graph.bounded(source)
    shape = (*source.shape, width)
    table = graph.matrix(MODULUS, width) + 3
    if source.rank == 1 and graph.rng.random() < 0.5:
        inputs = [rows.index, graph.constant(table, "FLOAT32")]
        return [graph.cast(graph.add("EMBEDDING_LOOKUP", inputs, shape, kind="FLOAT32"), "INT32")]
    inputs = [graph.constant(table), rows.index]
    return [graph.add("GATHER", inputs, shape, "GatherOptions", Axis=0, BatchDims=0)]


def picked(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Takes an element of each row."""
    if source.rank != 2:
        return []
    inputs = [source.index, graph.constant(1)]
    places = graph.add("ARG_MAX", inputs, source.shape[:1], "ArgMaxOptions", OutputType=2)
    shape = (source.shape[0], 1)
    columns = graph.add("EXPAND_DIMS", [places.index, graph.constant(1)], shape, "ExpandDimsOptions")
    inputs = [source.index, columns.index]
    return [graph.add("GATHER", inputs, shape, "GatherOptions", Axis=1, BatchDims=1)]


def turned_parts(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Turns the first elements of each row round, as many as data say."""
    if source.rank < 2:
        return []
    axes = graph.constant(list(range(1, source.rank)))
    total = graph.add("SUM", [source.index, axes], source.shape[:1], "ReducerOptions", KeepDims=False)
    numbers = graph.add("FLOOR_MOD", [total.index, graph.constant(6)], source.shape[:1])
    within = graph.add("MINIMUM", [numbers.index, graph.length_of(source, 1).index], source.shape[:1])
    options: Any = {"SeqDim": 1, "BatchDim": 0}
    inputs = [source.index, within.index]
    return [graph.add("REVERSE_SEQUENCE", inputs, source.shape, "ReverseSequenceOptions", **options)]


def diagonal(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Puts each row on the diagonal of a matrix."""
    if not source.rank or source.most > 200:
        return []
    shape = (*source.shape, source.shape[-1])
    return [graph.add("MATRIX_DIAG", [source.index], shape, "MatrixDiagOptions")]
