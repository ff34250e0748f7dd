"""SCATTER_ND, SPARSE_TO_DENSE and ONE_HOT."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    constant_scalar,
    operation,
)


def one_hot(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes ONE_HOT: inputs are indices, depth, on value and off value."""
    indices, depth, on, off = (graph.input(operator, position) for position in range(4))
    inputs = indices, constant_scalar(graph, depth), on, off, graph.int32(options["axis"])
    graph.emit(OperationType.TFLITE_ONE_HOT, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.ONE_HOT: Legalization(rule=one_hot, options="OneHotOptions", inputs=(4, 4)),
    BuiltinOperator.SCATTER_ND: Legalization(rule=operation(OperationType.TFLITE_SCATTER_ND), inputs=(3, 3)),
    BuiltinOperator.SPARSE_TO_DENSE: Legalization(
        rule=operation(OperationType.TFLITE_SPARSE_TO_DENSE), inputs=(4, 4)
    ),
}
