"""Lowers ABS, ELU, EXP, FLOOR, LOG, NEG, RSQRT, SIN and SQRT."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, maximum, minimum, select
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.elementwise.pointwise import Function, by_table, lower_pointwise
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Call


def op_function(op: Op) -> Function:
    """Returns the operation as a function."""
    return lambda value: apply(op, value)


def lower_unary(function: Function) -> Lowering:
    """Returns the lowering of a function: by a table for quantised values, else directly."""
    lower_plain = lower_pointwise(function)

    def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
        return (by_table if is_quantized(call.operand("output")) else lower_plain)(call, builder)

    return lowered


def elu(value: Expression, alpha: float | Expression) -> Expression:
    """Returns alpha·(e^x - 1) of an x below 0, and other numbers as they are."""
    return select(value < 0.0, apply(Op.EXPM1, minimum(value, 0.0)) * alpha, value)


def _elu(call: Call, builder: Builder) -> tuple[Value, ...]:
    alpha = float(call.scalar("alpha"))

    def function(value: Expression) -> Expression:
        if alpha >= 0:
            return elu(value, alpha)
        # Android adds the product also for numbers above 0 if it is negative.
        product = apply(Op.EXPM1, value) * alpha
        return maximum(value, 0.0) + select(product < 0.0, product, 0.0)

    return lower_pointwise(function)(call, builder)


LOWERINGS = {
    OperationType.ABS: lower_unary(op_function(Op.ABSOLUTE)),
    OperationType.ELU: _elu,
    OperationType.EXP: lower_unary(op_function(Op.EXP)),
    OperationType.FLOOR: lower_unary(op_function(Op.FLOOR)),
    OperationType.LOG: lower_unary(op_function(Op.LOG)),
    OperationType.NEG: lower_unary(op_function(Op.NEGATE)),
    OperationType.RSQRT: lower_unary(op_function(Op.RSQRT)),
    OperationType.SIN: lower_unary(op_function(Op.SIN)),
    OperationType.SQRT: lower_unary(op_function(Op.SQRT)),
}
