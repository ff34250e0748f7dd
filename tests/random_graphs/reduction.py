"""Shrinks a graph with a mismatch: fewer outputs, and only the necessary operations."""

from collections.abc import Callable, Iterable

from random_graphs.graph import RandomGraph
from random_graphs.growing import REFUSALS
from random_graphs.reference import Evaluation

from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import validate_model


def reduced(graph: RandomGraph, fails: Callable[[RandomGraph], bool]) -> RandomGraph:
    """Returns the smallest graph found that still fails."""
    for output in range(len(graph.expected)):
        smaller = _of(graph, graph.model.main, [graph.model.outputs[output]])
        if smaller is not None and fails(smaller):
            graph = smaller
            break
    position = len(graph.model.main.operations) - 1
    while position >= 0:
        smaller = _without(graph, position)
        if smaller is not None and fails(smaller):
            graph = smaller
            position = min(position, len(graph.model.main.operations))
        position -= 1
    return graph


def _without(graph: RandomGraph, position: int) -> RandomGraph | None:
    """Replaces what an operation writes by inputs; returns None if that is not a graph."""
    main = graph.model.main
    gone = main.operations[position]
    kept = tuple(each for each in main.operations if each is not gone)
    read = {index for operation in kept for index in operation.inputs}
    outputs = [index for index in main.outputs if index not in gone.outputs]
    fed = [index for index in gone.outputs if index in read]
    if not outputs:
        return None
    values = Evaluation(graph.model).values(main, graph.inputs)
    operands = list(main.operands)
    for index in gone.outputs:
        lifetime = Lifetime.SUBGRAPH_INPUT if index in fed else Lifetime.NO_VALUE
        operands[index] = replace(operands[index], lifetime=lifetime, dimensions=values[index].shape)
    smaller = replace(
        main, operands=tuple(operands), operations=kept, inputs=(*main.inputs, *fed), outputs=tuple(outputs)
    )
    inputs = (*graph.inputs, *(values[index] for index in fed))
    return _of(replace(graph, inputs=inputs), smaller, outputs)


def _of(graph: RandomGraph, main: Subgraph, outputs: Iterable[int]) -> RandomGraph | None:
    """Returns the graph with these outputs, and only what they need."""
    wanted = set(outputs)
    operations = []
    for operation in reversed(main.operations):
        if wanted & set(operation.outputs):
            operations.append(operation)
            wanted |= set(operation.inputs)
    inputs = [
        (index, array) for index, array in zip(main.inputs, graph.inputs, strict=True) if index in wanted
    ]
    used = {index for operation in operations for index in (*operation.inputs, *operation.outputs)}
    order = sorted(used)
    number = {index: place for place, index in enumerate(order)}
    ends = list(outputs)
    operands = []
    for index in order:
        operand = main.operands[index]
        if operand.lifetime is Lifetime.SUBGRAPH_OUTPUT and index not in ends:
            operand = replace(operand, lifetime=Lifetime.TEMPORARY_VARIABLE)
        elif index in ends:
            operand = replace(operand, lifetime=Lifetime.SUBGRAPH_OUTPUT)
        operands.append(operand)
    if any(index not in number for index in ends):
        return None
    smaller = Subgraph(
        operands=tuple(operands),
        operations=tuple(
            replace(
                operation,
                inputs=tuple(number[index] for index in operation.inputs),
                outputs=tuple(number[index] for index in operation.outputs),
            )
            for operation in reversed(operations)
        ),
        inputs=tuple(number[index] for index, _ in inputs),
        outputs=tuple(number[index] for index in ends),
    )
    model = _without_unused_graphs(replace(graph.model, main=smaller))
    arrays = [array for _, array in inputs]
    try:
        validate_model(model)
        expected = Evaluation(model).outputs(arrays)
    except (*REFUSALS, ValueError):
        return None
    return RandomGraph(seed=graph.seed, model=model, inputs=tuple(arrays), expected=tuple(expected))


def _without_unused_graphs(model: Model) -> Model:
    """Removes graphs that are not reachable from the main graph."""
    kept: dict[int, None] = {}
    pending = [model.main]
    while pending:
        for operand in pending.pop().operands:
            if operand.subgraph is not None and operand.subgraph not in kept:
                kept[operand.subgraph] = None
                pending.append(model.referenced[operand.subgraph])
    place = {number: position for position, number in enumerate(kept)}

    def renumbered(graph: Subgraph) -> Subgraph:
        operands = tuple(
            operand if operand.subgraph is None else replace(operand, subgraph=place[operand.subgraph])
            for operand in graph.operands
        )
        return replace(graph, operands=operands, number=0)

    referenced = tuple(renumbered(model.referenced[number]) for number in kept)
    return replace(model, main=renumbered(model.main), referenced=referenced)
