"""L2_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, unary


def local_response_normalization(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes LOCAL_RESPONSE_NORMALIZATION along the last axis."""
    source = graph.input(operator)
    factors = (graph.real(options[name], like=source) for name in ("bias", "alpha", "beta"))
    inputs = source, graph.int32(options["radius"]), *factors
    graph.emit(OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs, (graph.output(operator),))


def l2_normalization(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes L2_NORMALIZATION along the last axis.

    TFLite has its own arithmetic on quantised values.
    """
    quantized = is_quantized(graph.operand(graph.input(operator)))
    operation_type = OperationType.TFLITE_L2_NORMALIZATION if quantized else OperationType.L2_NORMALIZATION
    unary(operation_type)(graph, operator, options)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.L2_NORMALIZATION: Legalization(rule=l2_normalization, options="L2NormOptions"),
    BuiltinOperator.LOCAL_RESPONSE_NORMALIZATION: Legalization(
        rule=local_response_normalization, options="LocalResponseNormalizationOptions"
    ),
}
