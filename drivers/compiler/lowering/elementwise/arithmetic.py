"""Lowers ADD, SUB, MUL and DIV with broadcasting."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, maximum, minimum, select
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate, rescale, saturate
from neurald.drivers.compiler.lowering.elementwise.pointwise import (
    BINARY_INPUTS,
    Function,
    Requirements,
    pointwise,
    widen,
)
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation
from neurald.hal.operations.arithmetic.fixed_point import single_ratio
from neurald.hal.operations.elementwise.arithmetic import addend_shift
from neurald.hal.operations.machinery.call import Call

#: Computes an unclamped result at the output's scale from two quantised values as INT64.
QuantizedBinary = Callable[[Call, Expression, Expression], Expression]


def lower_broadcast(
    function: Function, quantized: QuantizedBinary | None = None, requirements: Requirements | None = None
) -> Lowering:
    """Returns the lowering of a binary operation, followed by the fused activation.

    Args:
        function: a function of two FLOAT32 or wider floats, or two integers of their own type.
        quantized: the quantized of two quantised numbers.
        requirements: the requirements of two unquantised integers.
    """

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        output = call.operand("output")

        def element(one: Expression, other: Expression) -> Expression:
            if quantized is not None and is_quantized(output):
                result = quantized(call, one.to(Scalar.INT64), other.to(Scalar.INT64))
                return saturate(result, output, call.activation)
            return _activate(function(widen(one), widen(other)), call.activation).to(one.type)

        is_whole = not is_quantized(output) and output.type.dtype.kind in "iu"
        return pointwise(call, builder, BINARY_INPUTS, element, requirements if is_whole else None)

    return lower


def _activate(value: Expression, activation: FusedActivation) -> Expression:
    if value.type.is_float or activation is FusedActivation.NONE:
        return activate(value, activation)
    if activation is FusedActivation.RELU6:
        value = minimum(value, 6)
    elif activation is FusedActivation.RELU1:
        value = minimum(value, 1)
    is_below = activation is FusedActivation.RELU1 and _is_signed(value)
    return maximum(value, -1 if is_below else 0)


def quantized_sum(sign: int) -> QuantizedBinary:
    """Returns the quantised sum, or difference if `sign` is -1.

    See `neurald.hal.operations.elementwise.arithmetic.quantized_sum`.
    """

    def compute(call: Call, first: Expression, second: Expression) -> Expression:
        output, operands = call.operand("output"), (call.operand("input1"), call.operand("input2"))
        shift = addend_shift(output)
        largest = 2.0 * max(operand.scale for operand in operands)
        one, other = (
            rescale((value - operand.zero_point) << shift, operand.scale / largest)
            for value, operand in zip((first, second), operands, strict=True)
        )
        total = one + other if sign > 0 else one - other
        return rescale(total, largest / ((1 << shift) * output.scale)) + output.zero_point

    return compute


def quantized_product(call: Call, first: Expression, second: Expression) -> Expression:
    """Returns the quantised product, rounded as in `hal`'s function of the same name."""
    one, other, output = (call.operand(name) for name in ("input1", "input2", "output"))
    product = (first - one.zero_point) * (second - other.zero_point)
    return rescale(product, single_ratio(one.scale, other.scale, output.scale)) + output.zero_point


def safe_divisor(divisor: Expression) -> Expression:
    """Returns a divisor that cannot trap: 1 instead of 0, and instead of -1, which can overflow."""
    is_special = divisor.equals(0)
    if _is_signed(divisor):
        is_special = is_special | divisor.equals(-1)
    return select(is_special, 1, divisor)


def floor_divide(first: Expression, second: Expression) -> Expression:
    """Returns the floored quotient of integers: 0 for a divisor of 0, wrapping for -1."""
    quotient = first // safe_divisor(second)
    if _is_signed(second):
        quotient = select(second.equals(-1), -first, quotient)
    return select(second.equals(0), 0, quotient)


def remainder(first: Expression, second: Expression) -> Expression:
    """Returns the remainder of a floored division; 0 for integers divided by 0."""
    return first % (second if first.type.is_float else safe_divisor(second))


def _is_signed(value: Expression) -> bool:
    return not value.type.value.startswith("u")


def _divide(first: Expression, second: Expression) -> Expression:
    return first / second if first.type.is_float else floor_divide(first, second)


LOWERINGS = {
    OperationType.ADD: lower_broadcast(lambda a, b: a + b, quantized_sum(1)),
    OperationType.SUB: lower_broadcast(lambda a, b: a - b, quantized_sum(-1)),
    OperationType.MUL: lower_broadcast(lambda a, b: a * b, quantized_product),
    OperationType.DIV: lower_broadcast(_divide),
}
