"""TILE, BROADCAST_TO and BROADCAST_ARGS."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    narrow_to_int32,
    operation,
)


def tile(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes TILE: the repetitions along each axis are an input."""
    inputs = graph.input(operator, 0), narrow_to_int32(graph, graph.input(operator, 1))
    graph.emit(OperationType.TILE, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.BROADCAST_ARGS: Legalization(
        rule=operation(OperationType.TFLITE_BROADCAST_ARGS), inputs=(2, 2)
    ),
    BuiltinOperator.BROADCAST_TO: Legalization(
        rule=operation(OperationType.TFLITE_BROADCAST_TO), inputs=(2, 2)
    ),
    BuiltinOperator.TILE: Legalization(rule=tile, inputs=(2, 2)),
}
