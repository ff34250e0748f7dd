"""The model of one step: some operations of a graph, as a model of their own for one device.

Its inputs and outputs come in Android's order, which `neurald.runtime.model.boundary` knows (AOSP
`ExecutionStep::finishStepModel`). Constants are referred to, never copied. Operands that none of the operations uses do not
reach the device; graphs that its IF and WHILE operations run do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.model.numbering import operand_number, operation_name, operation_number
from neurald.hal.model.types import Lifetime, Model, Operand, Subgraph
from neurald.runtime.model.boundary import Boundary
from neurald.runtime.model.branches import graph_of

_WRITTEN = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepModel:
    """A step's model and where its ends come from.

    Attributes:
        model: what the device gets.
        inputs, outputs: for each input and output of `model` the operand of the graph that it is.
    """

    model: Model
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def step_model(model: Model, number: int, operations: Sequence[int], boundary: Boundary) -> StepModel:
    """Makes a model of operations of one graph.

    A step that needs no inputs is as good as any other (Android refuses it): its device computes with constants.

    Args:
        model: the whole model.
        number: of the graph.
        operations: positions in the graph, in the order in which they run.
        boundary: of these operations.

    Raises:
        OpFailed: nobody reads what the operations write, so they make no model.
    """
    graph = graph_of(model, number)
    if not boundary.outputs:
        names = ", ".join(operation_name(graph, n) for n in operations)
        raise OpFailed(f"a step has no outputs: nobody reads what {names} writes")
    part = ModelPart(model)
    main = part.graph(graph, operations, boundary.inputs, boundary.outputs)
    referenced = part.referenced()
    return StepModel(
        model=Model(main=main, referenced=referenced, pools=part.pools(), relaxed=model.relaxed),
        inputs=boundary.inputs,
        outputs=boundary.outputs,
    )


class ModelPart:
    """What of a model goes into another one; pools and graphs get new numbers when they are first met."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._pools: dict[int, int] = {}
        self._graphs: dict[int, int] = {}

    def graph(
        self, graph: Subgraph, positions: Iterable[int], inputs: Sequence[int], outputs: Sequence[int]
    ) -> Subgraph:
        """Operations of a graph, with the operands that they use. All keep the numbers that they have in the model."""
        operations = [
            replace(graph.operations[position], number=operation_number(graph, position))
            for position in positions
        ]
        used = sorted({i for o in operations for i in (*o.inputs, *o.outputs)} | set(inputs))
        place = {index: position for position, index in enumerate(used)}
        roles = dict.fromkeys(inputs, Lifetime.SUBGRAPH_INPUT) | dict.fromkeys(
            outputs, Lifetime.SUBGRAPH_OUTPUT
        )

        def moved(indexes: Sequence[int]) -> tuple[int, ...]:
            return tuple(place[index] for index in indexes)

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
        """The graphs that were met, and those that they refer to in turn, by their new numbers."""
        made: list[Subgraph] = []
        while len(made) < len(self._graphs):
            original = self._model.referenced[list(self._graphs)[len(made)]]
            everything = range(len(original.operations))
            made.append(self.graph(original, everything, original.inputs, original.outputs))
        return tuple(made)

    def pools(self) -> tuple[Memory, ...]:
        """The memories that the constants met so far lie in, by their new numbers."""
        return tuple(self._model.pools[number] for number in self._pools)
