"""Generates IF and WHILE in random graphs, with nested random graphs."""

from collections.abc import Callable, Sequence

import numpy as np
from random_graphs.conversion import CONVERTIBLE, converted
from random_graphs.growing import Growing

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.records import replace

#: Adds approximately this many operations to a graph.
Grow = Callable[[Growing, int], None]

_BOOL = Operand(type=OperandType.TENSOR_BOOL8)
_COUNTER = Operand(type=OperandType.TENSOR_INT32)


def branch(graph: Growing, grow: Grow) -> None:
    """Adds an IF on any value, with two graphs whose results have the same kinds.

    Raises:
        BadData: the results cannot be converted to the same kind.
    """
    rng = graph.rng
    condition = converted(graph, _chosen(graph), _BOOL, (1,))
    arguments = [graph.read(_chosen(graph)) for _ in range(rng.randint(1, 3))]
    first, second = (_inner(graph, arguments) for _ in range(2))
    grow(first, rng.randint(1, 4))
    grow(second, rng.randint(1, 4))
    results = [_result(first) for _ in range(rng.randint(1, 2))]
    kinds = [_plain(first.operands[index]) for index in results]
    others = [
        _own(second, converted(second, _chosen(second), kind, first.values[index].shape))
        for kind, index in zip(kinds, results, strict=True)
    ]
    graphs = [_referenced(graph, each) for each in (first.finish(results), second.finish(others))]
    graph.add(OperationType.IF, [condition, *graphs, *arguments], *kinds)


def loop(graph: Growing, grow: Grow) -> None:
    """Adds a WHILE that counts to a small number, with one or two loop variables.

    Raises:
        BadData: a result cannot be converted to the kind of its loop variable.
    """
    rng = graph.rng
    carried = [graph.read(_chosen(graph)) for _ in range(rng.randint(1, 2))]
    fixed = [graph.read(_chosen(graph)) for _ in range(rng.randint(0, 1))]
    counter = graph.constant(_COUNTER, np.zeros(1))
    arguments = [counter, *carried, *fixed]
    condition, body = (_inner(graph, arguments) for _ in range(2))
    limit = condition.integers([rng.randint(0, 4)])
    goes_on = condition.add(OperationType.LESS, [condition.inputs[0], limit], _BOOL)
    grow(body, rng.randint(1, 4))
    steps = [body.inputs[0], body.integers([1]), body.number(0)]
    results = body.add(OperationType.ADD, steps, _COUNTER)
    for index in carried:
        kind = _plain(graph.operands[index])
        results.append(_own(body, converted(body, _chosen(body), kind, graph.values[index].shape)))
    graphs = [_referenced(graph, each) for each in (condition.finish(goes_on), body.finish(results))]
    shown = rng.randint(1, len(results))
    outputs = [_plain(graph.operands[index]) for index in arguments[:shown]]
    graph.add(OperationType.WHILE, [*graphs, *arguments], *outputs)


def _chosen(graph: Growing) -> int:
    """Returns a random value that can be converted.

    Raises:
        BadData: there is none.
    """
    usable = [
        index
        for index in graph.usable()
        if graph.operands[index].type in CONVERTIBLE and graph.values[index].size
    ]
    if not usable:
        raise BadData("there is no value to convert")
    return graph.rng.choice(usable)


def _plain(operand: Operand) -> Operand:
    """Returns another operand of the same kind."""
    return replace(
        operand, lifetime=Lifetime.TEMPORARY_VARIABLE, value=b"", location=None, dimensions=operand.dimensions
    )


def _inner(graph: Growing, arguments: Sequence[int]) -> Growing:
    """Creates a graph whose inputs are these values."""
    inner = Growing(graph.making, most_inputs=len(arguments))
    for index in arguments:
        inner.input(_plain(graph.operands[index]), graph.values[index])
    return inner


def _result(graph: Growing) -> int:
    """Returns a value of a graph that can be its output."""
    return _own(graph, graph.read(_chosen(graph)))


def _own(graph: Growing, index: int) -> int:
    """Returns a value that the graph computes and that is not an output yet.

    Copies it if needed.
    """
    value, operand = graph.values[index], _plain(graph.operands[index])
    if operand.type is OperandType.TENSOR_BOOL8:
        return graph.read(graph.add(OperationType.LOGICAL_OR, [index, index], operand)[0])
    shape = graph.integers(value.shape)
    return graph.read(graph.add(OperationType.RESHAPE, [index, shape], operand)[0])


def _referenced(graph: Growing, inner: Subgraph) -> int:
    """Adds an operand that refers to a graph."""
    graph.making.referenced.append(inner)
    number = len(graph.making.referenced) - 1
    return graph.operand(Operand(type=OperandType.MODEL, lifetime=Lifetime.SUBGRAPH, subgraph=number))
