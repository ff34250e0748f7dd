"""Lowers STABLEHLO_ADD, _MULTIPLY, _MAXIMUM and _MINIMUM, which act on numbers as stored."""

from neurald.drivers.compiler.ir.expression import Expression, maximum, minimum
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.lowering.elementwise.pointwise import BINARY_INPUTS, Function, lower_pointwise
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType


def _lower(of_numbers: Function, of_truths: Function) -> Lowering:
    def function(first: Expression, second: Expression) -> Expression:
        return (of_truths if first.type is Scalar.BOOL else of_numbers)(first, second)

    return lower_pointwise(function, BINARY_INPUTS)


def _and(first: Expression, second: Expression) -> Expression:
    return first & second


def _or(first: Expression, second: Expression) -> Expression:
    return first | second


LOWERINGS = {
    OperationType.TFLITE_STABLEHLO_ADD: _lower(lambda first, second: first + second, _or),
    OperationType.TFLITE_STABLEHLO_MULTIPLY: _lower(lambda first, second: first * second, _and),
    OperationType.TFLITE_STABLEHLO_MAXIMUM: _lower(maximum, _or),
    OperationType.TFLITE_STABLEHLO_MINIMUM: _lower(minimum, _and),
}
