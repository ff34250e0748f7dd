"""SOFTMAX along an axis."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.builder import Builder, reduction_axes
from neurald.drivers.compiler.ir.expression import Expression, apply, constant, load, reduce
from neurald.drivers.compiler.ir.op import Fold, Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real, store
from neurald.drivers.compiler.lowering.machinery.reduced_axes import along, first_along, fold
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.quantized import is_quantized
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axis

#: Gives the result from an exponent, of which the largest is 0, and the sum of the powers along the axis, which is at least 1.
_Result = Callable[[Expression, Expression], Expression]


def lower_exponents(call: Call, builder: Builder, result: _Result) -> tuple[Value, ...]:
    """Elements × beta as exponents, the largest along the axis taken away, so that no power overflows."""
    source, operand, output = builder.value(call, "input"), call.operand("input"), call.operand("output")
    axis = resolve_axis(call.scalar("axis"), len(source.shape), call.name("axis"))
    beta = float(call.scalar("beta"))
    largest = fold(builder, source, (axis,), Fold.MAXIMUM)

    def exponent(at: tuple[Expression, ...]) -> Expression:
        value, top = load(source, at), load(largest, first_along(at, axis))
        if is_quantized(operand):
            difference = value.to(Scalar.INT32) - top.to(Scalar.INT32)
            return difference.to(Scalar.FLOAT32) * (operand.scale * beta)
        return (real(value, operand) - real(top, operand)) * beta

    def total(*at: Expression) -> Expression:
        folded = reduction_axes(source.shape, (axis,))
        return reduce(
            Fold.SUM, tuple(folded.values()), apply(Op.EXP, exponent(along(at, axis, folded[axis])))
        )

    sums = builder.compute(largest.shape, total)
    return (
        builder.compute(
            source.shape, lambda *at: store(result(exponent(at), load(sums, first_along(at, axis))), output)
        ),
    )


def lower_softmax(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Powers over their sum: times its reciprocal, which is the same for a whole row."""
    return lower_exponents(
        call,
        builder,
        lambda exponent, total: apply(Op.EXP, exponent) * (constant(1.0, total.type) / total),
    )


def lower_log_softmax(call: Call, builder: Builder) -> tuple[Value, ...]:
    """The logarithm of that."""
    return lower_exponents(call, builder, lambda exponent, total: exponent - apply(Op.LOG, total))


LOWERINGS = {OperationType.SOFTMAX: lower_softmax}
