"""Activations and normalisations of one input."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering, operation, unary
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def softmax(graph: Graph, operator: Operator, options: Options) -> None:
    """SOFTMAX along the last axis."""
    source = graph.input(operator)
    inputs = source, graph.real(options["beta"], like=source)
    graph.emit(OperationType.SOFTMAX, inputs, (graph.output(operator),))


def log_softmax(graph: Graph, operator: Operator, _: Options) -> None:
    """LOG_SOFTMAX along the last axis."""
    source = graph.input(operator)
    inputs = source, graph.real(1.0, like=source), graph.int32(-1)
    graph.emit(OperationType.LOG_SOFTMAX, inputs, (graph.output(operator),))


def elu(graph: Graph, operator: Operator, _: Options) -> None:
    """ELU; TFLite's alpha is 1."""
    source = graph.input(operator)
    graph.emit(OperationType.ELU, (source, graph.real(1.0, like=source)), (graph.output(operator),))


def gelu(graph: Graph, operator: Operator, options: Options) -> None:
    """GELU, exact (with the error function) or approximated with the hyperbolic tangent."""
    inputs = graph.input(operator), graph.boolean(value=bool(options["approximate"]))
    graph.emit(OperationType.TFLITE_GELU, inputs, (graph.output(operator),))


def leaky_relu(graph: Graph, operator: Operator, options: Options) -> None:
    """LEAKY_RELU; the slope below 0 is an option."""
    source = graph.input(operator)
    inputs = source, graph.real(options["alpha"], like=source)
    graph.emit(OperationType.TFLITE_LEAKY_RELU, inputs, (graph.output(operator),))


def local_response_normalization(graph: Graph, operator: Operator, options: Options) -> None:
    """LOCAL_RESPONSE_NORMALIZATION along the last axis."""
    source = graph.input(operator)
    factors = (graph.real(options[name], like=source) for name in ("bias", "alpha", "beta"))
    inputs = source, graph.int32(options["radius"]), *factors
    graph.emit(OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs, (graph.output(operator),))


def l2_normalization(graph: Graph, operator: Operator, options: Options) -> None:
    """L2_NORMALIZATION along the last axis. TFLite has its own arithmetic on quantised values."""
    is_stored = is_quantized(graph.operand(graph.input(operator)))
    operation_type = OperationType.TFLITE_L2_NORMALIZATION if is_stored else OperationType.L2_NORMALIZATION
    unary(operation_type)(graph, operator, options)


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.ELU: Lowering(rule=elu),
    BuiltinOperator.GELU: Lowering(rule=gelu, options="GeluOptions"),
    BuiltinOperator.HARD_SWISH: Lowering(rule=unary(OperationType.HARD_SWISH)),
    BuiltinOperator.L2_NORMALIZATION: Lowering(rule=l2_normalization, options="L2NormOptions"),
    BuiltinOperator.LEAKY_RELU: Lowering(rule=leaky_relu, options="LeakyReluOptions"),
    BuiltinOperator.LOCAL_RESPONSE_NORMALIZATION: Lowering(
        rule=local_response_normalization, options="LocalResponseNormalizationOptions"
    ),
    BuiltinOperator.LOGISTIC: Lowering(rule=unary(OperationType.LOGISTIC)),
    BuiltinOperator.LOG_SOFTMAX: Lowering(rule=log_softmax),
    BuiltinOperator.PRELU: Lowering(rule=operation(OperationType.PRELU), inputs=(2, 2)),
    BuiltinOperator.RELU: Lowering(rule=unary(OperationType.RELU)),
    BuiltinOperator.RELU6: Lowering(rule=unary(OperationType.RELU6)),
    BuiltinOperator.RELU_0_TO_1: Lowering(rule=unary(OperationType.TFLITE_RELU_0_TO_1)),
    BuiltinOperator.RELU_N1_TO_1: Lowering(rule=unary(OperationType.RELU1)),
    BuiltinOperator.SOFTMAX: Lowering(rule=softmax, options="SoftmaxOptions"),
    BuiltinOperator.TANH: Lowering(rule=unary(OperationType.TANH)),
}
