"""SOFTMAX and LOG_SOFTMAX."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization


def softmax(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes SOFTMAX along the last axis."""
    source = graph.input(operator)
    inputs = source, graph.real(options["beta"], like=source)
    graph.emit(OperationType.SOFTMAX, inputs, (graph.output(operator),))


def log_softmax(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes LOG_SOFTMAX along the last axis."""
    source = graph.input(operator)
    inputs = source, graph.real(1.0, like=source), graph.int32(-1)
    graph.emit(OperationType.LOG_SOFTMAX, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.LOG_SOFTMAX: Legalization(rule=log_softmax),
    BuiltinOperator.SOFTMAX: Legalization(rule=softmax, options="SoftmaxOptions"),
}
