"""Lowers ABS, ELU, EXP, FLOOR, LOG, NEG, RSQRT, SIN and SQRT."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, maximum, select
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.elementwise.pointwise import Function, by_table, lower
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Call


def of(op: Op) -> Function:
    """Returns the operation as a function."""
    return lambda value: apply(op, value)


def lower_unary(function: Function) -> Lowering:
    """Returns the lowering of a function: by a table for quantised values, else directly."""
    lower_plain = lower(function)

    def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
        return (by_table if is_quantized(call.operand("output")) else lower_plain)(call, builder)

    return lowered


def _elu(call: Call, builder: Builder) -> tuple[Value, ...]:
    alpha = float(call.scalar("alpha"))

    def function(value: Expression) -> Expression:
        product = apply(Op.EXPM1, value) * alpha
        # A minimum would keep the NaN product that occurs if e^x overflows and alpha is 0; select
        # drops it.
        return maximum(value, 0.0) + select(product < 0.0, product, 0.0)

    return lower(function)(call, builder)


LOWERINGS = {
    OperationType.ABS: lower_unary(of(Op.ABSOLUTE)),
    OperationType.ELU: _elu,
    OperationType.EXP: lower_unary(of(Op.EXP)),
    OperationType.FLOOR: lower_unary(of(Op.FLOOR)),
    OperationType.LOG: lower_unary(of(Op.LOG)),
    OperationType.NEG: lower_unary(of(Op.NEGATE)),
    OperationType.RSQRT: lower_unary(of(Op.RSQRT)),
    OperationType.SIN: lower_unary(of(Op.SIN)),
    OperationType.SQRT: lower_unary(of(Op.SQRT)),
}
