"""Lowers unary functions for all of TFLite's types."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.elementwise.pointwise import (
    UNARY_INPUTS,
    lower_pointwise,
    pointwise,
    table_of,
)
from neurald.drivers.compiler.lowering.elementwise.unary import lower_unary, op_function
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Call


def _of_positive(op: Op) -> Lowering:
    """Returns the lowering of a root. Negative quantised values fail; real ones yield NaN."""
    lower_plain = lower_pointwise(op_function(op))

    def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
        if not is_quantized(call.operand("output")):
            return lower_plain(call, builder)
        zero_point = call.operand("input").zero_point

        def requirements(value: Expression) -> tuple[tuple[Expression, str], ...]:
            return (
                (value.to(Scalar.INT32) >= zero_point, "the square root of a negative number is undefined"),
            )

        return pointwise(
            call, builder, UNARY_INPUTS, table_of(call, builder, lowest=zero_point), requirements
        )

    return lowered


LOWERINGS = {
    OperationType.TFLITE_ABS: lower_unary(op_function(Op.ABSOLUTE)),
    OperationType.TFLITE_CEIL: lower_pointwise(op_function(Op.CEIL)),
    OperationType.TFLITE_COS: lower_pointwise(op_function(Op.COS)),
    OperationType.TFLITE_EXP: lower_unary(op_function(Op.EXP)),
    OperationType.TFLITE_FLOOR: lower_pointwise(op_function(Op.FLOOR)),
    OperationType.TFLITE_LOG: lower_unary(op_function(Op.LOG)),
    # Quantised values are negated as stored.
    OperationType.TFLITE_NEG: lower_pointwise(op_function(Op.NEGATE)),
    OperationType.TFLITE_ROUND: lower_pointwise(op_function(Op.ROUND_EVEN)),
    OperationType.TFLITE_RSQRT: _of_positive(Op.RSQRT),
    OperationType.TFLITE_SIGN: lower_pointwise(op_function(Op.SIGN)),
    OperationType.TFLITE_SQRT: _of_positive(Op.SQRT),
    OperationType.TFLITE_SQUARE: lower_pointwise(lambda value: value * value),
}
