"""STABLEHLO_CASE: runs one of several subgraphs, expressed as nested IFs."""

import struct
from functools import reduce

from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Dimensions, Lifetime, OperandType
from neurald.hal.records import replace
from neurald.hal.wording import listed
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import STABLEHLO_CASE, Operator
from neurald.runtime.tflite.graph.callees import called_subgraphs
from neurald.runtime.tflite.graph.operands import UnsupportedFeature, common_dimensions
from neurald.runtime.tflite.graph.state import merge_effects
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.control_flow import Caller, as_argument, handles_of, results_of
from neurald.runtime.tflite.legalization.machinery.rule import Legalization

_INDEX = Operand(type=OperandType.TENSOR_INT32, dimensions=(1,), lifetime=Lifetime.SUBGRAPH_INPUT)
_CONDITION = Operand(type=OperandType.TENSOR_BOOL8, dimensions=(1,), lifetime=Lifetime.TEMPORARY_VARIABLE)


class _Choice:
    """Graphs that select a branch by an index, which is their first input.

    Args:
        graph: the graph that contains the operator.
        branches: referenced graphs, all of the same inputs and outputs.
        inputs: the inputs of the branches, as arguments.
        outputs: the common dimensions of all branches' outputs.
    """

    def __init__(
        self, graph: SubgraphBuilder, branches: list[int], inputs: list[Operand], outputs: list[Dimensions]
    ) -> None:
        self._referenced = graph.importer.referenced
        self._branches = branches
        self._inputs = inputs
        self._outputs = outputs
        self._leaves: dict[int, int] = {}

    def branch(self, number: int) -> int:
        """Returns the referenced graph of a branch, extended by the unused index input."""
        source = self._branches[number]
        if source not in self._leaves:
            graph = self._referenced[source]
            index = len(graph.operands)
            self._leaves[source] = self._add(
                replace(graph, operands=(*graph.operands, _INDEX), inputs=(index, *graph.inputs))
            )
        return self._leaves[source]

    def nearest_branch(self, first: int, last: int) -> int:
        """Returns the graph that runs the branch from `first` to `last` nearest to the index."""
        if first == last:
            return self.branch(first)
        middle = (first + last + 1) // 2
        then, otherwise = self.nearest_branch(first, middle - 1), self.nearest_branch(middle, last)
        source = self._referenced[then]
        limit = Operand(
            type=_INDEX.type,
            dimensions=(1,),
            lifetime=Lifetime.CONSTANT_COPY,
            value=struct.pack("<i", middle),
        )
        graphs = [
            Operand(type=OperandType.MODEL, dimensions=(), lifetime=Lifetime.SUBGRAPH, subgraph=index)
            for index in (then, otherwise)
        ]
        results = [
            replace(as_argument(source.operands[index], shape), lifetime=Lifetime.SUBGRAPH_OUTPUT)
            for index, shape in zip(source.outputs, self._outputs, strict=True)
        ]
        operands = (_INDEX, limit, _CONDITION, *graphs, *self._inputs, *results)
        given = tuple(range(5, 5 + len(self._inputs)))
        written = tuple(range(len(operands) - len(results), len(operands)))
        operations = (
            Operation(type=OperationType.LESS, inputs=(0, 1), outputs=(2,)),
            Operation(type=OperationType.IF, inputs=(2, 3, 4, 0, *given), outputs=written),
        )
        return self._add(
            Subgraph(operands=operands, operations=operations, inputs=(0, *given), outputs=written)
        )

    def _add(self, graph: Subgraph) -> int:
        self._referenced.append(graph)
        return len(self._referenced) - 1


def case(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes STABLEHLO_CASE: runs the subgraph at an index, by default the last one."""
    importer, handles = graph.importer, handles_of(graph, operator, 1)
    subgraphs, skipped = called_subgraphs(operator)
    if not subgraphs:
        raise UnsupportedFeature("it names no subgraphs; at least one is expected")
    index = graph.input(operator)
    if graph.operand(index).type is not OperandType.TENSOR_INT32:
        raise UnsupportedFeature(
            f"input 0 has type {graph.operand(index).type.name}; TENSOR_INT32 is expected"
        )
    effects = [importer.effects(subgraph, handles) for subgraph in subgraphs]
    if len({len(effect.outputs) for effect in effects}) > 1:
        found = listed([str(len(effect.outputs)) for effect in effects])
        raise UnsupportedFeature(f"its subgraphs have {found} outputs; the same number is expected")
    if any(effect.outputs != effects[0].outputs for effect in effects):
        raise UnsupportedFeature("its subgraphs return handles of different resources")
    caller = Caller(graph, operator, merge_effects(effects), skipped)
    branches = [caller.call(subgraph, caller.assigned) for subgraph in subgraphs]
    dimensions = [results_of(graph, branch) for branch in branches]
    common = [reduce(common_dimensions, shapes) for shapes in zip(*dimensions, strict=True)]
    inputs = caller.inputs()
    outputs = caller.outputs(effects[0].outputs, common)
    if not outputs:
        return
    arguments = [as_argument(graph.operand(given), graph.operand(given).dimensions) for given in inputs]
    choice = _Choice(graph, branches, arguments, common)
    number, negative = graph.value_like(_INDEX), graph.value_like(_CONDITION)
    graph.reshape(index, (1,), number)
    graph.emit(OperationType.LESS, (number, graph.vector((0,))), (negative,))
    last = len(branches) - 1
    graphs = graph.model(choice.branch(last)), graph.model(choice.nearest_branch(0, last))
    graph.emit(OperationType.IF, (negative, *graphs, number, *inputs), outputs)


LEGALIZATIONS: dict[int, Legalization] = {
    STABLEHLO_CASE: Legalization(rule=case, inputs=None, outputs=(0, 1 << 16)),
}
