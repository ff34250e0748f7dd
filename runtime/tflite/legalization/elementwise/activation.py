"""Activations of one input."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, operation, unary


def elu(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes ELU; TFLite's alpha is 1."""
    source = graph.input(operator)
    graph.emit(OperationType.ELU, (source, graph.real(1.0, like=source)), (graph.output(operator),))


def gelu(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes GELU, with the error function or an approximation by the hyperbolic tangent."""
    inputs = graph.input(operator), graph.boolean(value=bool(options["approximate"]))
    graph.emit(OperationType.TFLITE_GELU, inputs, (graph.output(operator),))


def leaky_relu(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes LEAKY_RELU; the slope below 0 is an option."""
    source = graph.input(operator)
    inputs = source, graph.real(options["alpha"], like=source)
    graph.emit(OperationType.TFLITE_LEAKY_RELU, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.ELU: Legalization(rule=elu),
    BuiltinOperator.GELU: Legalization(rule=gelu, options="GeluOptions"),
    BuiltinOperator.HARD_SWISH: Legalization(rule=unary(OperationType.HARD_SWISH)),
    BuiltinOperator.LEAKY_RELU: Legalization(rule=leaky_relu, options="LeakyReluOptions"),
    BuiltinOperator.LOGISTIC: Legalization(rule=unary(OperationType.LOGISTIC)),
    BuiltinOperator.PRELU: Legalization(rule=operation(OperationType.PRELU), inputs=(2, 2)),
    BuiltinOperator.RELU: Legalization(rule=unary(OperationType.RELU)),
    BuiltinOperator.RELU6: Legalization(rule=unary(OperationType.RELU6)),
    BuiltinOperator.RELU_0_TO_1: Legalization(rule=unary(OperationType.TFLITE_RELU_0_TO_1)),
    BuiltinOperator.RELU_N1_TO_1: Legalization(rule=unary(OperationType.RELU1)),
    BuiltinOperator.TANH: Legalization(rule=unary(OperationType.TANH)),
}
