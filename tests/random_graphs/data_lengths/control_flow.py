"""Adds branches and loops."""

from collections.abc import Sequence
from typing import Any

from random_graphs.data_lengths.graph import DataGraph, Length, Tensor, most_of


def branched(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Computes with one of two graphs."""
    if graph.depth >= 2:
        return []
    captured = _captured(graph, source)
    number = graph.number(source, 0, 9)
    limit = graph.constant(graph.rng.randint(0, 8))
    condition = graph.add("GREATER", [number.index, limit], [], kind="BOOL")
    sides = [_inner(graph, captured) for _ in range(2)]
    for side in sides:
        side.grow(graph.rng.randint(1, 4))
    first, second = (side.values[-1] for side in sides)
    if first.rank != second.rank:
        first, second = (side.flat(each) for side, each in zip(sides, (first, second), strict=True))
    for side, value in zip(sides, (first, second), strict=True):
        side.graph.outputs = [value.index]
    shape = tuple(
        one
        if one == other and not isinstance(one, Length)
        else graph.length(max(most_of(one), most_of(other)))
        for one, other in zip(first.shape, second.shape, strict=True)
    )
    options: Any = {"ThenSubgraphIndex": _place(sides[0]), "ElseSubgraphIndex": _place(sides[1])}
    inputs = [condition.index, *(each.index for each in captured)]
    return [graph.add("IF", inputs, shape, "IfOptions", **options)]


def looped(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Repeats a graph on a value, which may become longer, a few times."""
    if graph.depth >= 2:
        return []
    captured = _captured(graph, source)
    turns = (
        graph.number(source, 0, 4)
        if graph.rng.random() < 0.7
        else Tensor(graph.constant(graph.rng.randint(0, 3)), ())
    )
    begin = Tensor(graph.constant(0), ())
    condition, body = (_inner(graph, [begin, turns, *captured]) for _ in range(2))
    less = condition.add("LESS", [each.index for each in condition.values[:2]], [], kind="BOOL")
    condition.graph.outputs = [less.index]
    counter, limit, *carried = body.values[: len(captured) + 2]
    body.values = body.values[2:]
    body.grow(graph.rng.randint(1, 4))
    following = body.add("ADD", [counter.index, body.constant(1)], [], "AddOptions")
    last = _following(body, carried[0])
    body.graph.outputs = [each.index for each in (following, limit, last, *carried[1:])]
    grown = tuple(
        graph.length(max(most_of(each), most_of(other))) if isinstance(each, Length) else each
        for each, other in zip(carried[0].shape, last.shape, strict=True)
    )
    results = [graph.tensor(shape) for shape in ((), (), grown, *(each.shape for each in captured[1:]))]
    inputs = [each.index for each in (begin, turns, *captured)]
    options: Any = {"CondSubgraphIndex": _place(condition), "BodySubgraphIndex": _place(body)}
    graph.add_many("WHILE", inputs, results, "WhileOptions", **options)
    return [results[2]]


def _following(body: DataGraph, first: Tensor) -> Tensor:
    """Returns the last value of a body if it fits in place of `first`, and `first` otherwise."""
    last = body.flat(body.values[-1]) if first.rank == 1 else body.values[-1]
    if last.rank == first.rank and all(
        one == other or isinstance(one, Length) for one, other in zip(first.shape, last.shape, strict=True)
    ):
        return last
    return first


def _captured(graph: DataGraph, source: Tensor) -> list[Tensor]:
    others = [each for each in graph.values if each is not source]
    return [source, *graph.rng.sample(others, min(len(others), graph.rng.randint(0, 2)))]


def _inner(graph: DataGraph, captured: Sequence[Tensor]) -> DataGraph:
    inner = graph.inner()
    inner.values = [inner.tensor(each.shape) for each in captured]
    inner.graph.inputs = [each.index for each in inner.values]
    if graph.rng.random() < 0.3:
        numbers = [graph.rng.randint(0, 9) for _ in range(graph.rng.choice((0, 1, 4, 7)))]
        inner.values.append(Tensor(inner.constant(numbers), (len(numbers),)))
    return inner


def _place(inner: DataGraph) -> int:
    return next(n for n, each in enumerate(inner.file.graphs) if each is inner.graph)
