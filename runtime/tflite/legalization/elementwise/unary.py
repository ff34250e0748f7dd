"""Element-wise functions of one input, such as ABS, EXP and SQRT."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, unary


def reciprocal_root(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes RSQRT. TFLite has its own arithmetic on quantised values."""
    quantized = is_quantized(graph.operand(graph.input(operator)))
    unary(OperationType.TFLITE_RSQRT if quantized else OperationType.RSQRT)(graph, operator, options)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.ABS: Legalization(rule=unary(OperationType.ABS)),
    BuiltinOperator.CEIL: Legalization(rule=unary(OperationType.TFLITE_CEIL)),
    BuiltinOperator.COS: Legalization(rule=unary(OperationType.TFLITE_COS)),
    BuiltinOperator.EXP: Legalization(rule=unary(OperationType.EXP)),
    BuiltinOperator.FLOOR: Legalization(rule=unary(OperationType.FLOOR)),
    BuiltinOperator.LOG: Legalization(rule=unary(OperationType.LOG)),
    BuiltinOperator.NEG: Legalization(rule=unary(OperationType.NEG)),
    BuiltinOperator.ROUND: Legalization(rule=unary(OperationType.TFLITE_ROUND)),
    BuiltinOperator.RSQRT: Legalization(rule=reciprocal_root),
    BuiltinOperator.SIGN: Legalization(rule=unary(OperationType.TFLITE_SIGN)),
    BuiltinOperator.SIN: Legalization(rule=unary(OperationType.SIN)),
    BuiltinOperator.SQRT: Legalization(rule=unary(OperationType.SQRT)),
    BuiltinOperator.SQUARE: Legalization(rule=unary(OperationType.TFLITE_SQUARE)),
}
