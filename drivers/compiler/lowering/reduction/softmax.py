"""Lowers SOFTMAX."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.builder import Builder, reduction_axes
from neurald.drivers.compiler.ir.expression import Expression, apply, constant, load, reduce
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real, store
from neurald.drivers.compiler.lowering.machinery.reduced_axes import along, first_along, reduce_dimensions
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axis

#: Computes the result from an exponent (at most 0) and the sum of exponentials (at least 1).
_Result = Callable[[Expression, Expression], Expression]


def lower_exponents(call: Call, builder: Builder, result: _Result) -> tuple[Value, ...]:
    """Lowers a softmax-like operation on exponents beta · (x - maximum), which cannot overflow."""
    source, operand, output = builder.value(call, "input"), call.operand("input"), call.operand("output")
    axis = resolve_axis(call.scalar("axis"), len(source.shape), call.name("axis"))
    beta = float(call.scalar("beta"))
    largest = reduce_dimensions(builder, source, (axis,), ReductionOp.MAXIMUM)

    def exponent(at: tuple[Expression, ...]) -> Expression:
        value, top = load(source, at), load(largest, first_along(at, axis))
        if is_quantized(operand):
            difference = value.to(Scalar.INT32) - top.to(Scalar.INT32)
            return difference.to(Scalar.FLOAT32) * (operand.scale * beta)
        return (real(value, operand) - real(top, operand)) * beta

    def total(*at: Expression) -> Expression:
        reduced = reduction_axes(source.shape, (axis,))
        return reduce(
            ReductionOp.SUM, tuple(reduced.values()), apply(Op.EXP, exponent(along(at, axis, reduced[axis])))
        )

    sums = builder.compute(largest.shape, total)
    return (
        builder.compute(
            source.shape, lambda *at: store(result(exponent(at), load(sums, first_along(at, axis))), output)
        ),
    )


def lower_softmax(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers SOFTMAX. Multiplies by the reciprocal of the sum, which is shared by a whole row."""
    return lower_exponents(
        call,
        builder,
        lambda exponent, total: apply(Op.EXP, exponent) * (constant(1.0, total.type) / total),
    )


def lower_log_softmax(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers LOG_SOFTMAX. That of a scalar, which TFLite allows, is 0."""
    if not call.shape("input"):
        output = call.operand("output")
        return (builder.compute((), lambda: store(constant(0.0, Scalar.FLOAT32), output)),)
    return lower_exponents(call, builder, lambda exponent, total: exponent - apply(Op.LOG, total))


LOWERINGS = {OperationType.SOFTMAX: lower_softmax}
