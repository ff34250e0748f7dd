"""Adds operations that find rows: as many as data say, down to none."""

from collections.abc import Sequence

from random_graphs.data_lengths.graph import DataGraph, Tensor, most_of


def places(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Finds elements, and takes them from the value."""
    condition = graph.condition(source)
    found = graph.add("WHERE", [condition.index], [graph.length(source.most), source.rank], kind="INT64")
    kind = graph.rng.randrange(4)
    if kind == 0:
        return [graph.cast(found, "INT32")]
    if kind == 1 or source.rank != 1:
        other = graph.add("GATHER_ND", [source.index, found.index], found.shape[:1])
        return [other] if kind == 1 else [other, graph.cast(found, "INT32")]
    rows = graph.reshaped(found, found.shape[:1])
    if kind == 2:
        rows = graph.cast(rows, "INT32")
    others = [each for each in graph.values if each.rank and each.shape[0] == source.shape[0]]
    return [
        graph.add(
            "GATHER",
            [each.index, rows.index],
            (*found.shape[:1], *each.shape[1:]),
            "GatherOptions",
            Axis=0,
            BatchDims=0,
        )
        for each in graph.rng.sample(others, min(len(others), graph.rng.randint(1, 2)))
    ]


def distinct(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Finds the distinct elements, and the number of each element."""
    source = graph.flat(source)
    found, numbers = graph.tensor([graph.length(source.most)]), graph.tensor(source.shape)
    graph.add_many("UNIQUE", [source.index], [found, numbers], "UniqueOptions", IdxOutType=2)
    return [found, numbers]


def segments(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Adds rows up in segments."""
    if not source.rank:
        return []
    rows = source.shape[0]
    keys = [each for each in graph.values if each.shape == (rows,)]
    first = graph.rng.choice(keys) if keys else _column(graph, source)
    steps = graph.cast(graph.condition(first), "INT32")
    order = graph.add(
        "CUMSUM",
        [steps.index, graph.constant(0)],
        steps.shape,
        "CumsumOptions",
        Exclusive=True,
        Reverse=False,
    )
    if graph.rng.random() < 0.5:
        shape = (graph.length(most_of(rows)), *source.shape[1:])
        return [graph.bounded(graph.add("SEGMENT_SUM", [source.index, order.index], shape))]
    number = graph.number(order, 1, 9)
    code = graph.rng.choice(("SUM", "MAX", "MIN", "PROD"))
    inside = graph.add("MINIMUM", [order.index, graph.constant(8)], order.shape)
    sums = graph.add(
        f"UNSORTED_SEGMENT_{code}",
        [source.index, inside.index, number.index],
        (graph.length(9), *source.shape[1:]),
    )
    return [graph.bounded(sums)]


def largest(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Finds the largest elements, as many as data say, or the place of the largest one."""
    if not source.rank:
        return []
    if graph.rng.random() < 0.5:
        axis = graph.rng.randrange(source.rank)
        shape = (*source.shape[:axis], *source.shape[axis + 1 :])
        inputs = [source.index, graph.constant(axis)]
        name = graph.rng.choice(("Max", "Min"))
        return [graph.add(f"ARG_{name.upper()}", inputs, shape, f"Arg{name}Options", OutputType=2)]
    number = graph.number(source, 0, 2)
    shape = (*source.shape[:-1], graph.length(2))
    values, columns = graph.tensor(shape), graph.tensor(shape)
    graph.add_many("TOPK_V2", [source.index, number.index], [values, columns], "TopKV2Options")
    return [values, columns]


def _column(graph: DataGraph, source: Tensor) -> Tensor:
    if source.rank == 1:
        return source
    axes = graph.constant(list(range(1, source.rank)))
    total = graph.add("SUM", [source.index, axes], source.shape[:1], "ReducerOptions", KeepDims=False)
    return graph.bounded(total)
