"""Splits a graph into segments that are compiled together, and makes their models."""

from collections.abc import Sequence

from msgspec import Struct

from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operation_number
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace


class Segment(Struct, frozen=True, kw_only=True):
    """Operations of a graph, in an order in which they can run. Either all or none are compiled."""

    operations: tuple[int, ...]
    is_native: bool


def segments(graph: Subgraph, is_native: Sequence[bool]) -> list[Segment]:
    """Splits a graph into few segments, in an order in which they can run.

    Args:
        graph: valid.
        is_native: for each operation, True if it is compiled.
    """
    return min((_alternating(graph, is_native, first) for first in (True, False)), key=len)


def _alternating(graph: Subgraph, is_native: Sequence[bool], native: bool) -> list[Segment]:
    """Alternates between the two kinds; each segment takes every operation that can run."""
    missing = {index for operation in graph.operations for index in operation.outputs}
    pending = list(range(len(graph.operations)))
    found: list[Segment] = []
    while pending:
        taken, left = [], []
        for position in pending:
            operation = graph.operations[position]
            if is_native[position] is not native or not missing.isdisjoint(operation.inputs):
                left.append(position)
                continue
            taken.append(position)
            missing.difference_update(operation.outputs)
        if taken:
            found.append(Segment(operations=tuple(taken), is_native=native))
        pending, native = left, not native
    return found


def sub_model(model: Model, graph: Subgraph, operations: Sequence[int]) -> Model:
    """Makes a model of some operations of a graph; operands keep their indexes.

    Values from other operations become inputs, values that others need become outputs.

    Args:
        model: the model of the graph.
        graph: its main graph, or one that control flow refers to.
        operations: positions in the graph.
    """
    own = set(operations)
    produced = {index for position in own for index in graph.operations[position].outputs}
    read = dict.fromkeys(index for position in operations for index in graph.operations[position].inputs)
    needed = {
        index
        for position, operation in enumerate(graph.operations)
        if position not in own
        for index in operation.inputs
    } | set(graph.outputs)
    variables = (Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT, Lifetime.TEMPORARY_VARIABLE)
    inputs = tuple(
        index for index in read if index not in produced and graph.operands[index].lifetime in variables
    )
    outputs = tuple(
        index for position in operations for index in graph.operations[position].outputs if index in needed
    )

    def operand_of(index: int, operand: Operand) -> Operand:
        if operand.lifetime not in variables:
            return operand
        if index in inputs:
            return replace(operand, lifetime=Lifetime.SUBGRAPH_INPUT)
        is_output = index in outputs
        return replace(
            operand, lifetime=Lifetime.SUBGRAPH_OUTPUT if is_output else Lifetime.TEMPORARY_VARIABLE
        )

    return Model(
        main=Subgraph(
            operands=tuple(operand_of(index, operand) for index, operand in enumerate(graph.operands)),
            operations=tuple(
                replace(graph.operations[position], number=operation_number(graph, position))
                for position in operations
            ),
            inputs=inputs,
            outputs=outputs,
            number=graph.number,
        ),
        referenced=model.referenced,
        pools=model.pools,
        relaxed=model.relaxed,
    )
