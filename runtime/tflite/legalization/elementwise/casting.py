"""CAST, BITCAST, and parts of complex numbers."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, emit_clamped, unary

REALS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, OperandType.TENSOR_FLOAT64)


def cast(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes CAST. TFLite wraps integers that do not fit, while Android NN saturates them."""
    source, result = graph.input(operator), graph.output(operator)
    kinds = (graph.operand(source).type, graph.operand(result).type)
    is_plain = any(kind in REALS for kind in kinds) or kinds[0] is kinds[1]
    emit_clamped(
        graph, operator, OperationType.CAST if is_plain else OperationType.TFLITE_CAST, (source,), result
    )


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.BITCAST: Legalization(rule=unary(OperationType.TFLITE_BITCAST)),
    BuiltinOperator.CAST: Legalization(rule=cast),
    BuiltinOperator.COMPLEX_ABS: Legalization(rule=unary(OperationType.TFLITE_COMPLEX_ABS)),
    BuiltinOperator.IMAG: Legalization(rule=unary(OperationType.TFLITE_IMAG)),
    BuiltinOperator.REAL: Legalization(rule=unary(OperationType.TFLITE_REAL)),
}
