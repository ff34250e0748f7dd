"""Builds the model of one step: some operations of a graph as a separate model for one device.

Inputs and outputs are in the order of `neurald.runtime.model.boundary` (AOSP
`ExecutionStep::finishStepModel`). Constants are referenced, never copied. The model excludes
operands that none of the operations uses, and includes the graphs that its IF and WHILE operations
run, without the operations in them that nobody needs.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_number, operation_number
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.runtime.model.boundary import Boundary
from neurald.runtime.model.branches import graph_of
from neurald.runtime.model.dead_operations import without_dead_branches

_WRITTEN = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)


class StepModel(Struct, frozen=True, kw_only=True):
    """The model of a step, and the operands that its inputs and outputs correspond to.

    Attributes:
        model: the model for the device.
        inputs, outputs: for each input and output of `model`, the index of the graph's operand.
    """

    model: Model
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def step_model(model: Model, number: int, operations: Sequence[int], boundary: Boundary) -> StepModel:
    """Builds a model from operations of one graph.

    A step without inputs is accepted, unlike in Android: its device computes with constants.

    Args:
        model: the whole model.
        number: number of the graph.
        operations: positions in the graph, in execution order.
        boundary: the boundary of these operations.
    """
    graph = graph_of(model, number)
    part = ModelPart(without_dead_branches(model))
    main = part.graph(graph, operations, boundary.inputs, boundary.outputs)
    referenced = part.referenced()
    return StepModel(
        model=Model(main=main, referenced=referenced, pools=part.pools(), relaxed=model.relaxed),
        inputs=boundary.inputs,
        outputs=boundary.outputs,
    )


class ModelPart:
    """Copies parts of a model to a new one, and numbers its pools and graphs by first use."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._pools: dict[int, int] = {}
        self._graphs: dict[int, int] = {}

    def graph(
        self, graph: Subgraph, positions: Iterable[int], inputs: Sequence[int], outputs: Sequence[int]
    ) -> Subgraph:
        """Copies operations of a graph and their operands; both keep the application's numbers."""
        operations = [
            replace(graph.operations[position], number=operation_number(graph, position))
            for position in positions
        ]
        used = sorted({i for o in operations for i in (*o.inputs, *o.outputs)} | set(inputs))
        position_of = {index: position for position, index in enumerate(used)}
        roles = dict.fromkeys(inputs, Lifetime.SUBGRAPH_INPUT) | dict.fromkeys(
            outputs, Lifetime.SUBGRAPH_OUTPUT
        )

        def moved(indexes: Sequence[int]) -> tuple[int, ...]:
            return tuple(position_of[index] for index in indexes)

        return Subgraph(
            operands=tuple(
                replace(
                    self._operand(graph.operands[index], roles.get(index)),
                    number=operand_number(graph.operands, index),
                )
                for index in used
            ),
            operations=tuple(
                replace(operation, inputs=moved(operation.inputs), outputs=moved(operation.outputs))
                for operation in operations
            ),
            inputs=moved(inputs),
            outputs=moved(outputs),
            number=graph.number,
        )

    def _operand(self, operand: Operand, role: Lifetime | None) -> Operand:
        if role is None and operand.lifetime in _WRITTEN:
            role = Lifetime.TEMPORARY_VARIABLE
        if role is not None:
            return operand if operand.lifetime is role else replace(operand, lifetime=role)
        if operand.location is not None:
            pool = self._pools.setdefault(operand.location.pool, len(self._pools))
            return replace(operand, location=replace(operand.location, pool=pool))
        if operand.subgraph is not None:
            return replace(operand, subgraph=self._graphs.setdefault(operand.subgraph, len(self._graphs)))
        return operand

    def referenced(self) -> tuple[Subgraph, ...]:
        """Copies the graphs used so far, and all that they refer to, by their new numbers."""
        made: list[Subgraph] = []
        while len(made) < len(self._graphs):
            original = self._model.referenced[list(self._graphs)[len(made)]]
            everything = range(len(original.operations))
            made.append(self.graph(original, everything, original.inputs, original.outputs))
        return tuple(made)

    def pools(self) -> tuple[Memory, ...]:
        """Returns the memories that hold the constants used so far, by their new numbers."""
        return tuple(self._model.pools[number] for number in self._pools)
