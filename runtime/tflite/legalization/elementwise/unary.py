"""Functions of one number."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering, unary
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def reciprocal_root(graph: Graph, operator: Operator, options: Options) -> None:
    """RSQRT. TFLite has its own arithmetic on quantised values."""
    is_stored = is_quantized(graph.operand(graph.input(operator)))
    unary(OperationType.TFLITE_RSQRT if is_stored else OperationType.RSQRT)(graph, operator, options)


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.ABS: Lowering(rule=unary(OperationType.ABS)),
    BuiltinOperator.CEIL: Lowering(rule=unary(OperationType.TFLITE_CEIL)),
    BuiltinOperator.COS: Lowering(rule=unary(OperationType.TFLITE_COS)),
    BuiltinOperator.EXP: Lowering(rule=unary(OperationType.EXP)),
    BuiltinOperator.FLOOR: Lowering(rule=unary(OperationType.FLOOR)),
    BuiltinOperator.LOG: Lowering(rule=unary(OperationType.LOG)),
    BuiltinOperator.NEG: Lowering(rule=unary(OperationType.NEG)),
    BuiltinOperator.ROUND: Lowering(rule=unary(OperationType.TFLITE_ROUND)),
    BuiltinOperator.RSQRT: Lowering(rule=reciprocal_root),
    BuiltinOperator.SIGN: Lowering(rule=unary(OperationType.TFLITE_SIGN)),
    BuiltinOperator.SIN: Lowering(rule=unary(OperationType.SIN)),
    BuiltinOperator.SQRT: Lowering(rule=unary(OperationType.SQRT)),
    BuiltinOperator.SQUARE: Lowering(rule=unary(OperationType.TFLITE_SQUARE)),
}
