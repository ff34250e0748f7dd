"""Lowers MAXIMUM, MINIMUM, SELECT, PRELU and POW."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, constant, maximum, minimum, select
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import fixed_point, saturate
from neurald.drivers.compiler.lowering.elementwise.pointwise import (
    BINARY_INPUTS,
    Function,
    lower_pointwise,
    pointwise,
    table_of,
    widen,
)
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier, single_ratio
from neurald.hal.operations.elementwise.selection import rescaled
from neurald.hal.operations.machinery.call import Call


def _rescaling(call: Call, builder: Builder, name: str) -> Function:
    """Returns the conversion of an input's element to the output's quantisation."""
    operand, output = call.operand(name), call.operand("output")
    is_alike = (operand.scale, operand.zero_point) == (output.scale, output.zero_point)
    if is_alike or not is_quantized(output):
        return lambda value: value
    return table_of(call, builder, name, lambda each: rescaled(each, name))


def _lower(function: Function, names: Sequence[str]) -> Lowering:
    """Returns the lowering of a function whose last two inputs share the output's quantisation."""

    def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
        one, other = (_rescaling(call, builder, name) for name in BINARY_INPUTS)
        result = Scalar.of(call.operand("output").type.dtype)

        def element(*elements: Expression) -> Expression:
            *others, first, second = elements
            return function(*others, one(first), other(second)).to(result)

        return pointwise(call, builder, names, element)

    return lowered


def _prelu(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers PRELU: x, or alpha · x below 0. Quantised values have a multiplier for each case."""
    operand, slope, output = (call.operand(name) for name in ("input", "alpha", "output"))

    def plain(value: Expression, alpha: Expression) -> Expression:
        x = widen(value)
        return select(x >= 0.0, x, x * widen(alpha)).to(value.type)

    def quantized(value: Expression, alpha: Expression) -> Expression:
        x = value.to(Scalar.INT32) - operand.zero_point
        is_above = x >= 0
        product = select(is_above, x, x * (alpha.to(Scalar.INT32) - slope.zero_point))
        above = quantize_multiplier(single_ratio(operand.scale, 1, output.scale))
        below = quantize_multiplier(single_ratio(operand.scale, slope.scale, output.scale))
        mantissa, exponent = (
            select(is_above, constant(one, Scalar.INT32), other)
            for one, other in zip(above, below, strict=True)
        )
        return saturate(fixed_point(product, mantissa, exponent) + output.zero_point, output)

    return pointwise(call, builder, ("input", "alpha"), quantized if is_quantized(output) else plain)


LOWERINGS = {
    OperationType.MAXIMUM: _lower(lambda first, second: maximum(widen(first), widen(second)), BINARY_INPUTS),
    OperationType.MINIMUM: _lower(lambda first, second: minimum(widen(first), widen(second)), BINARY_INPUTS),
    OperationType.POW: lower_pointwise(
        lambda value, exponent: apply(Op.POWER, value, exponent), BINARY_INPUTS
    ),
    OperationType.PRELU: _prelu,
    OperationType.SELECT: _lower(select, ("condition", *BINARY_INPUTS)),
}
