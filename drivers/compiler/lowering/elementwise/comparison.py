"""Lowers EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL and LOGICAL_AND, _OR, _NOT."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real
from neurald.drivers.compiler.lowering.elementwise.pointwise import (
    BINARY_INPUTS,
    Function,
    lower_pointwise,
    pointwise,
    widen,
)
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Call

COMPARISONS: dict[OperationType, Function] = {
    OperationType.EQUAL: lambda first, second: first.equals(second),
    OperationType.NOT_EQUAL: lambda first, second: first.differs(second),
    OperationType.GREATER: lambda first, second: first > second,
    OperationType.GREATER_EQUAL: lambda first, second: first >= second,
    OperationType.LESS: lambda first, second: first < second,
    OperationType.LESS_EQUAL: lambda first, second: first <= second,
}


def ordered(value: Expression) -> Expression:
    """Converts an unquantised number to a type with an order; BOOL becomes UINT8."""
    return value.to(Scalar.UINT8) if value.type is Scalar.BOOL else widen(value)


def _comparable(value: Expression, operand: Operand) -> Expression:
    return real(value, operand) if is_quantized(operand) else ordered(value)


def _lower(function: Function) -> Lowering:
    """Returns the lowering of a comparison. Quantised numbers are compared as FLOAT32 reals."""

    def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
        operands = [call.operand(name) for name in BINARY_INPUTS]
        return pointwise(
            call, builder, BINARY_INPUTS, lambda *elements: function(*map(_comparable, elements, operands))
        )

    return lowered


LOWERINGS = {
    **{operation: _lower(function) for operation, function in COMPARISONS.items()},
    OperationType.LOGICAL_AND: lower_pointwise(lambda first, second: first & second, BINARY_INPUTS),
    OperationType.LOGICAL_OR: lower_pointwise(lambda first, second: first | second, BINARY_INPUTS),
    OperationType.LOGICAL_NOT: lower_pointwise(lambda value: ~value),
}
