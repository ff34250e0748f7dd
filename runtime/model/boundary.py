"""Computes which operands cross the boundary of a step."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from neurald.hal.model.graph import Subgraph
from neurald.hal.model.types import Lifetime

_WRITTEN = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)

#: Order of a step's inputs by lifetime: model inputs, temporaries, then model outputs that the step
#: reads.
_INPUT_ORDER = (Lifetime.SUBGRAPH_INPUT, Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)


class Boundary(Struct, frozen=True, kw_only=True):
    """Indices of the operands that cross the boundary of a step, in Android's order.

    Attributes:
        inputs: inputs of the graph, then temporaries, then outputs of the graph that another step
            writes. Each of these parts is sorted.
        outputs: outputs of the graph, then temporaries that another step reads. Each of these parts
            is sorted. Since a model needs outputs, a step without them has all that it writes and
            does not read.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def writer_by_operand(graph: Subgraph) -> dict[int, int]:
    """Returns the position of the operation that writes each written operand."""
    return {index: position for position, o in enumerate(graph.operations) for index in o.outputs}


def readers_by_operand(graph: Subgraph) -> dict[int, list[int]]:
    """Returns the positions of the operations that read each operand, without repetitions."""
    found: dict[int, list[int]] = {}
    for position, operation in enumerate(graph.operations):
        for index in dict.fromkeys(operation.inputs):
            found.setdefault(index, []).append(position)
    return found


def boundaries(graph: Subgraph, steps: Iterable[Sequence[int]], dead: Collection[int] = ()) -> list[Boundary]:
    """Returns the boundary of each step in linear time.

    Args:
        graph: the graph that the operations belong to.
        steps: the operations of each step.
        dead: operations that no step runs.
    """
    read_by = readers_by_operand(graph)
    if dead:
        read_by = {index: [n for n in found if n not in dead] for index, found in read_by.items()}
    return [_boundary(graph, frozenset(operations), read_by) for operations in steps]


def _boundary(graph: Subgraph, operations: frozenset[int], read_by: Mapping[int, Sequence[int]]) -> Boundary:
    read = {index for position in operations for index in graph.operations[position].inputs}
    written = {index for position in operations for index in graph.operations[position].outputs}

    def lifetime(index: int) -> Lifetime:
        return graph.operands[index].lifetime

    needed = {
        index
        for index in written
        if lifetime(index) is Lifetime.SUBGRAPH_OUTPUT
        or any(reader not in operations for reader in read_by.get(index, ()))
    }
    return Boundary(
        inputs=tuple(
            sorted(
                (index for index in read - written if lifetime(index) in _INPUT_ORDER),
                key=lambda index: (_INPUT_ORDER.index(lifetime(index)), index),
            )
        ),
        outputs=tuple(
            sorted(
                needed or written - read,
                key=lambda index: (lifetime(index) is not Lifetime.SUBGRAPH_OUTPUT, index),
            )
        ),
    )


def written_inputs(graph: Subgraph, operation: int) -> set[int]:
    """Returns the operands that must be written before an operation can run."""
    inputs = graph.operations[operation].inputs
    return {index for index in inputs if graph.operands[index].lifetime in _WRITTEN}
