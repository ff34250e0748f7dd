"""Finds operations whose results are not needed, so that a plan need not run them.

An operation is needed if it writes an output of its graph, if a needed operation reads one of its
results, or if it may have effects. The operations of Android and of this package have none: what
lasts, such as the variables of a stateful model, is an output. What an operation of a vendor's
extension does is not known, so that it is always needed, as is control flow that runs one.

A device that runs an IF or WHILE gets its graphs without such operations: one that the device does
not support would make it refuse the control flow.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from weakref import WeakKeyDictionary

from neurald.hal.model.extension import extension_of
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_number, operation_number
from neurald.hal.records import replace
from neurald.runtime.model.branches import Nesting, graph_of, referenced_graphs

_without_dead_branches: WeakKeyDictionary[Model, Model] = WeakKeyDictionary()


def dead_operations(model: Model) -> Mapping[int, frozenset[int]]:
    """Returns the positions of the operations that are not needed, by graph number.

    Takes linear time. Graphs without such operations are left out.

    Args:
        model: a valid model.
    """
    unread = {
        number: found
        for number, graph in enumerate((model.main, *model.referenced))
        if (found := _unread(graph))
    }
    if not unread:  # as in most models
        return {}
    with_effects = _graphs_with_effects(model)
    dead = {number: _dead(graph_of(model, number), with_effects) for number in unread}
    return {number: found for number, found in dead.items() if found}


def without_dead_branches(model: Model) -> Model:
    """Returns a model whose referenced graphs have only operations that are needed.

    Its main graph and the numbers of its graphs are the same. It is the model itself if there is
    nothing to leave out, and otherwise always the same one.

    Args:
        model: a valid model.
    """
    if not model.referenced:
        return model
    known = _without_dead_branches.get(model)
    if known is None:
        dead = dead_operations(model)
        graphs = tuple(
            _without(graph, dead[number]) if number in dead else graph
            for number, graph in enumerate(model.referenced, start=1)
        )
        if all(found is graph for found, graph in zip(graphs, model.referenced, strict=True)):
            return model
        known = _without_dead_branches[model] = replace(model, referenced=graphs)
    return known


def _without(graph: Subgraph, dead: frozenset[int]) -> Subgraph:
    """Returns a graph without some operations, and without the operands that only these use."""
    operations = [
        replace(operation, number=operation_number(graph, position))
        for position, operation in enumerate(graph.operations)
        if position not in dead
    ]
    used = sorted(
        {*graph.inputs, *graph.outputs, *chain.from_iterable((*o.inputs, *o.outputs) for o in operations)}
    )
    position_of = {index: position for position, index in enumerate(used)}

    def moved(indexes: Sequence[int]) -> tuple[int, ...]:
        return tuple(position_of[index] for index in indexes)

    return replace(
        graph,
        operands=tuple(
            replace(graph.operands[index], number=operand_number(graph.operands, index)) for index in used
        ),
        operations=tuple(
            replace(each, inputs=moved(each.inputs), outputs=moved(each.outputs)) for each in operations
        ),
        inputs=moved(graph.inputs),
        outputs=moved(graph.outputs),
    )


def _unread(graph: Subgraph) -> list[int]:
    """Returns the operations of which no operation reads a result, and which write no output."""
    operations = graph.operations
    needed = set(chain.from_iterable([operation.inputs for operation in operations]))
    needed.update(graph.outputs)
    if needed.issuperset(chain.from_iterable([operation.outputs for operation in operations])):
        return []
    return [n for n, operation in enumerate(operations) if needed.isdisjoint(operation.outputs)]


def _graphs_with_effects(model: Model) -> frozenset[int]:
    """Returns the numbers of the graphs that contain, or refer to, operations with effects."""
    found: set[int] = set()
    for number in Nesting(model).order:
        graph = graph_of(model, number)
        if any(_has_effects(graph, operation, found) for operation in graph.operations):
            found.add(number)
    return frozenset(found)


def _has_effects(
    graph: Subgraph, operation: Operation, graphs_with_effects: "set[int] | frozenset[int]"
) -> bool:
    if extension_of(operation.type) is not None:
        return True
    return bool(graphs_with_effects) and not graphs_with_effects.isdisjoint(
        referenced_graphs(graph, operation)
    )


def _dead(graph: Subgraph, graphs_with_effects: frozenset[int]) -> frozenset[int]:
    needed = set(graph.outputs)
    dead = []
    for position in range(len(graph.operations) - 1, -1, -1):
        operation = graph.operations[position]
        if needed.isdisjoint(operation.outputs) and not _has_effects(graph, operation, graphs_with_effects):
            dead.append(position)
        else:
            needed.update(operation.inputs)
    return frozenset(dead)
