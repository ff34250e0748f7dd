"""Adds operations whose results have sizes that are data."""

from collections.abc import Sequence

from random_graphs.data_lengths.graph import DataGraph, Tensor, most_of


def counted(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Counts to a number of data, to a length, or from a number of data."""
    step = graph.constant(graph.rng.choice((1, 1, 1, 2, 3)))
    kind = graph.rng.random()
    if kind < 0.3:
        # As many as fill whole vectors if the number is 0.
        most = graph.rng.choice((8, 16, 32, 64))
        inputs = [graph.number(source, 0, 3).index, graph.constant(most), step]
        return [graph.add("RANGE", inputs, [graph.length(most)], "RangeOptions")]
    if kind < 0.6 or not source.rank:
        most = graph.rng.choice((12, 16, 33))
        limit = graph.number(source, 0, most)
    else:
        axis = graph.rng.randrange(source.rank)
        limit, most = graph.length_of(source, axis), most_of(source.shape[axis])
    start = graph.constant(0) if graph.rng.random() < 0.7 else graph.number(source, 0, 3).index
    return [graph.add("RANGE", [start, limit.index, step], [graph.length(most)], "RangeOptions")]


def filled(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Fills a tensor whose lengths are data."""
    if graph.rng.random() < 0.4 and source.rank:
        number = graph.constant(graph.rng.randint(0, 9))
        return [graph.add("FILL", [graph.shape_of(source).index, number], source.shape, "FillOptions")]
    rank = graph.rng.randint(1, 3)
    most = graph.rng.choice((5, 16, 32)) if rank == 1 else 5
    numbers = [graph.number(source, 0, most) for _ in range(rank)]
    value = graph.rng.choice((graph.number(source, 0, 50).index, graph.constant(7)))
    shape = [graph.length(most) for _ in range(rank)]
    return [
        graph.add("FILL", [graph.packed([each.index for each in numbers]).index, value], shape, "FillOptions")
    ]


def tiled(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Repeats a value as often as data say."""
    if not source.rank or source.most > 600:
        return []
    multiples = [
        graph.number(source, 0, 3).index
        if graph.rng.random() < 0.5
        else graph.constant(graph.rng.randint(1, 2))
        for _ in source.shape
    ]
    shape = [graph.length(3 * most_of(each)) for each in source.shape]
    return [graph.add("TILE", [source.index, graph.packed(multiples).index], shape, "TileOptions")]


def padded(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Pads a value by numbers of which some are data."""
    if not source.rank:
        return []
    numbers = [
        graph.number(source, 0, 3).index
        if graph.rng.random() < 0.4
        else graph.constant(graph.rng.randint(0, 2))
        for _ in range(2 * source.rank)
    ]
    table = graph.reshaped(graph.packed(numbers), [source.rank, 2])
    shape = [graph.length(most_of(each) + 4) for each in source.shape]
    return [graph.add("PAD", [source.index, table.index], shape, "PadOptions")]


def sliced(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Cuts a value at places that are data."""
    if not source.rank:
        return []
    shape = [graph.length(most_of(each)) for each in source.shape]
    begins = [
        graph.number(source, 0, 2).index if graph.rng.random() < 0.3 else graph.constant(0)
        for _ in source.shape
    ]
    if graph.rng.random() < 0.4:
        sizes = [
            graph.number(source, 0, 3).index if graph.rng.random() < 0.5 else graph.constant(-1)
            for _ in source.shape
        ]
        inputs = [source.index, graph.packed(begins).index, graph.packed(sizes).index]
        return [graph.add("SLICE", inputs, shape, "SliceOptions")]
    ends = [
        graph.number(source, 0, 9).index
        if graph.rng.random() < 0.5
        else graph.constant(graph.rng.choice((-1, 50, 3, 8, 16, 32)))
        for _ in source.shape
    ]
    steps = [graph.rng.choice((1, 1, 1, 2, 3)) for _ in source.shape]
    inputs = [source.index, graph.packed(begins).index, graph.packed(ends).index, graph.constant(steps)]
    return [graph.add("STRIDED_SLICE", inputs, shape, "StridedSliceOptions")]


def broadcast(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Repeats a row for each row of another value."""
    others = [
        each for each in graph.values if each.rank == source.rank + 1 and each.shape[1:] == source.shape
    ]
    if not others:
        return []
    other = graph.rng.choice(others)
    inputs = [source.index, graph.shape_of(other).index]
    return [graph.add("BROADCAST_TO", inputs, other.shape)]


def one_hot(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Encodes numbers with as many columns as data say."""
    if source.most > 600:
        return []
    depth = graph.number(source, 0, 9) if graph.rng.random() < 0.5 else graph.number(source, 5, 5)
    numbers = [graph.constant(3), graph.constant(1)]
    shape = (*source.shape, graph.length(9))
    return [graph.add("ONE_HOT", [source.index, depth.index, *numbers], shape, "OneHotOptions", Axis=-1)]


def scattered(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Scatters rows to places in a tensor of computed size."""
    if source.rank != 1:
        return []
    number = graph.number(source, 97, 100)
    places = graph.reshaped(source, [*source.shape, 1])
    ones = graph.add("MINIMUM", [source.index, graph.constant(40)], source.shape)
    target = graph.packed([number.index])
    result = graph.add(
        "SCATTER_ND", [places.index, ones.index, target.index], [graph.length(100)], "ScatterNdOptions"
    )
    return [graph.bounded(result)]
