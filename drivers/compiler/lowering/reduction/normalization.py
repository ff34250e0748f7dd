"""Lowers L2_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION, INSTANCE_NORMALIZATION and LOG_SOFTMAX."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, axis, constant, load, maximum, reduce
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import store
from neurald.drivers.compiler.lowering.machinery.reduced_axes import along, first_along, reduce_dimensions
from neurald.drivers.compiler.lowering.reduction.reduction import difference
from neurald.drivers.compiler.lowering.reduction.softmax import lower_log_softmax
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axis
from neurald.hal.operations.reduction.normalization import MIN_NORM


def _axis(call: Call) -> int:
    return resolve_axis(call.scalar("axis"), len(call.shape("input")), call.name("axis"))


def _real(value: Expression) -> Expression:
    return value.to(Scalar.FLOAT32)


def _square(value: Expression) -> Expression:
    return value * value


def sums_of_squares(call: Call, builder: Builder, dimension: int) -> Value:
    """Returns sums of squares, keeping the dimension with length 1.

    Floats are summed in FLOAT32, quantised differences from the zero point exactly.
    """
    source, operand = builder.value(call, "input"), call.operand("input")
    if not is_quantized(operand):
        return reduce_dimensions(
            builder, source, (dimension,), ReductionOp.SUM, element=lambda value: _square(_real(value))
        )
    # A bound on the sum, as a multiple of the largest square.
    count = source.shape[dimension] * (1 << 8 * source.type.size_bytes)
    centred = difference(operand, count)
    return reduce_dimensions(
        builder, source, (dimension,), ReductionOp.SUM, element=lambda value: _square(centred(value))
    )


def lower_l2(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers L2_NORMALIZATION. The scale cancels, so quantised values are used directly."""
    source, operand, output = builder.value(call, "input"), call.operand("input"), call.operand("output")
    dimension = _axis(call)
    sums = sums_of_squares(call, builder, dimension)
    least = 1.0 if is_quantized(operand) else float(MIN_NORM)

    def body(*at: Expression) -> Expression:
        norm = maximum(apply(Op.SQRT, _real(load(sums, first_along(at, dimension)))), least)
        value = load(source, at)
        centred = value.to(Scalar.INT32) - operand.zero_point if is_quantized(operand) else value
        return store(_real(centred) / norm, output)

    return (builder.compute(source.shape, body),)


def _local_response(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, output, dimension = builder.value(call, "input"), call.operand("output"), _axis(call)
    length = source.shape[dimension]
    radius = min(call.scalar_in("radius", 0), max(0, length - 1))
    bias, alpha, beta = (float(call.scalar(name)) for name in ("bias", "alpha", "beta"))

    def body(*at: Expression) -> Expression:
        near = axis(2 * radius + 1, "r")
        index = at[dimension] + near - radius
        seen = load(source, along(at, dimension, index), (index >= 0) & (index < length), 0)
        total = reduce(ReductionOp.SUM, (near,), _square(_real(seen)))
        base, value = total * alpha + bias, _real(load(source, at))
        root = _root(base, beta) if alpha >= 0 and bias > 0 else None
        if root is not None:
            return store(value / root, output)
        return store(value * apply(Op.POWER, base, constant(-beta, Scalar.FLOAT32)), output)

    return (builder.compute(source.shape, body),)


def _root(base: Expression, exponent: float) -> Expression | None:
    """Returns a usual power of a positive number or NaN by roots; None for other powers."""
    if exponent == 1:
        return base
    root = apply(Op.SQRT, base)
    return {0.5: root, 0.75: root * apply(Op.SQRT, root)}.get(exponent)


def _instance(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers INSTANCE_NORMALIZATION, which normalises each channel of each image separately."""
    source, output = builder.value(call, "input"), call.operand("output")
    spatial = (2, 3) if call.scalar("nchw") else (1, 2)
    gamma, beta, epsilon = (float(call.scalar(name)) for name in ("gamma", "beta", "epsilon"))
    count = float(source.shape[spatial[0]] * source.shape[spatial[1]])
    means = reduce_dimensions(
        builder, source, spatial, ReductionOp.SUM, element=_real, finish=lambda total: total / count
    )

    def centred(at: tuple[Expression, ...]) -> Expression:
        first = first_along(first_along(at, spatial[0]), spatial[1])
        return _real(load(source, at)) - load(means, first)

    squares = builder.compute(source.shape, lambda *at: _square(centred(at)))
    variances = reduce_dimensions(
        builder, squares, spatial, ReductionOp.SUM, finish=lambda total: total / count
    )

    def body(*at: Expression) -> Expression:
        variance = load(variances, first_along(first_along(at, spatial[0]), spatial[1]))
        return store(centred(at) * gamma / apply(Op.SQRT, variance + epsilon) + beta, output)

    return (builder.compute(source.shape, body),)


LOWERINGS = {
    OperationType.L2_NORMALIZATION: lower_l2,
    OperationType.LOCAL_RESPONSE_NORMALIZATION: _local_response,
    OperationType.INSTANCE_NORMALIZATION: _instance,
    OperationType.LOG_SOFTMAX: lower_log_softmax,
}
