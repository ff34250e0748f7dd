"""Finds operations whose results nobody needs, so that a plan need not run them.

An operation is needed if it writes an output of its graph, if a needed operation reads one of its
results, or if it may have effects. The operations of Android and of this package have none: what
lasts, such as the variables of a stateful model, is an output. What an operation of a vendor's
extension does is not known, so that it is always needed, as is control flow that runs one.
"""

from collections.abc import Mapping
from itertools import chain

from neurald.hal.model.extension import extension_of
from neurald.hal.model.types import Model, Operation, Subgraph
from neurald.runtime.model.branches import Nesting, graph_of, referenced_graphs


def dead_operations(model: Model) -> Mapping[int, frozenset[int]]:
    """Returns the positions of the operations that nobody needs, by graph number.

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
