"""Checks that steps, in their order, compute what a model does.

It follows that each step is convex: no path of the graph leaves it and returns. Otherwise it would
need the result of another step that in turn needs one of its own results.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from neurald.hal.errors import OpFailed
from neurald.hal.lazy_numpy import np
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name, operation_number
from neurald.runtime.costs.graph_arrays import flat
from neurald.runtime.model.branches import MAIN, graph_of, referenced_graphs
from neurald.runtime.model.dead_operations import dead_operations
from neurald.runtime.partitioning.groups import Group, StepGroup, branch_groups

#: The order of this many operations is checked by arrays, in a fifth of the time.
_MANY: Final = 100


def check_groups(model: Model, groups: Sequence[Group]) -> None:
    """Checks that groups run each operation once, after all its operands are written.

    Operations that are not needed may be left out.

    Raises:
        OpFailed: they do not; the message names the operation.
    """
    if len(groups) == 1 and isinstance(first := groups[0], StepGroup) and first.graph == MAIN:
        is_own_order = first.operations == tuple(range(len(model.main.operations)))
        if is_own_order:
            return
    pending: list[tuple[int, Sequence[Group]]] = [(MAIN, groups)]
    checked: set[tuple[int, int]] = set()
    while pending:
        number, sequence = pending.pop()
        # Operations that refer to the same graph share its groups.
        if (number, id(sequence)) in checked:
            continue
        checked.add((number, id(sequence)))
        graph = graph_of(model, number)
        _check_sequence(model, number, sequence)
        for group in sequence:
            if not isinstance(group, StepGroup):
                branches = referenced_graphs(graph, graph.operations[group.operation])
                pending += zip(branches, branch_groups(group), strict=True)


def _described(graph: Subgraph, number: int, position: int) -> str:
    type_name = graph.operations[position].type.name
    return f"graph {number}: operation {operation_number(graph, position)} {type_name}"


def _is_in_order(graph: Subgraph, number: int, groups: Sequence[Group]) -> bool:
    """Returns True if groups run each operation once, after its operands are written."""
    operations = graph.operations
    order: list[int] = []
    for group in groups:
        if group.graph != number:
            return False
        order += group.operations if isinstance(group, StepGroup) else (group.operation,)
    if len(order) != len(operations) or len(set(order)) != len(order):
        return False
    if min(order) < 0 or max(order) >= len(operations):
        return False
    ordered = [operations[position] for position in order]
    readers, read = flat([operation.inputs for operation in ordered])
    writers, written = flat([operation.outputs for operation in ordered])
    written_at = np.full(len(graph.operands), -1)
    written_at[written] = writers
    return bool((written_at[read] < readers).all())


def _check_sequence(model: Model, number: int, groups: Sequence[Group]) -> None:
    graph = graph_of(model, number)
    operations = graph.operations
    if len(operations) >= _MANY and _is_in_order(graph, number, groups):
        return
    left_out = set(range(len(operations)))
    unwritten = set(chain.from_iterable([operation.outputs for operation in operations]))
    for group in groups:
        for position in group.operations if isinstance(group, StepGroup) else (group.operation,):
            if not 0 <= position < len(operations):
                raise OpFailed(f"graph {number}: there is no operation {position}")
            if position not in left_out or group.graph != number:
                raise OpFailed(f"{_described(graph, number, position)} is in more than one step")
            operation = operations[position]
            if not unwritten.isdisjoint(operation.inputs):
                missing = operand_name(graph.operands, min(unwritten.intersection(operation.inputs)))
                raise OpFailed(f"{_described(graph, number, position)} runs before {missing} is written")
            left_out.remove(position)
            unwritten.difference_update(operation.outputs)
    if left_out:
        left_out -= dead_operations(model).get(number, frozenset())
    if left_out:
        first = operation_number(graph, min(left_out))
        raise OpFailed(f"graph {number}: operation {first} is in no step")
