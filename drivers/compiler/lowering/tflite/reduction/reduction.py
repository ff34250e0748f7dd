"""Lowers TFLite's reductions and CUMSUM."""

import math
from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.ir.algorithm import PRODUCT_LANES, RescaledProduct, RunningSum
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    clamp,
    constant,
    index,
    length,
    load,
    maximum,
    minimum,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, at_least, estimate
from neurald.drivers.compiler.ir.graph import delinearize, linearize
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import saturate
from neurald.drivers.compiler.lowering.elementwise.pointwise import widen
from neurald.drivers.compiler.lowering.machinery.reduced_axes import (
    BOOL_REDUCTIONS,
    count_along,
    filled,
    reduce_dimensions,
    whole_position,
)
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.drivers.compiler.lowering.reduction.reduction import lower_mean
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.reduction.reduction import (
    cumulative_axis,
    product_multiplier,
    reduced_axes,
    stored_one,
    sum_scaling,
)

_INT32 = -1 << 31, (1 << 31) - 1
#: Products of quantised values are rescaled at each step, so each step adds expressions. Longer
#: ones are computed by a procedure.
_MAX_PRODUCT_TERMS = 64


def _mean(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, axes, shape = builder.value(call, "input"), reduced_axes(call), output_shapes(call)[0]
    count, output = count_along(source.shape, axes), call.operand("output")
    if is_quantized(output) and not count:
        return (filled(builder, shape, 0, source.type),)
    if is_quantized(output) or source.type.is_float:
        return (lower_mean(call, builder, axes),)

    def whole(total: Expression) -> Expression:
        divisor = constant(count + 1 - at_least(count, 1), Scalar.INT64)
        return apply(Op.TRUNCATE_DIVIDE, total, divisor).to(source.type)

    return (
        reduce_dimensions(
            builder,
            source,
            axes,
            ReductionOp.SUM,
            element=lambda value: value.to(Scalar.INT64),
            finish=whole,
            shape=shape,
        ),
    )


def _reduction(how: ReductionOp) -> Lowering:
    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source = builder.value(call, "input")

        def finish(value: Expression) -> Expression:
            return finite(how, value).to(source.type)

        return (
            reduce_dimensions(
                builder,
                source,
                reduced_axes(call),
                BOOL_REDUCTIONS.get(how, how) if source.type is Scalar.BOOL else how,
                element=widen,
                finish=finish,
                shape=output_shapes(call)[0],
            ),
        )

    return lower


def finite(how: ReductionOp, value: Expression) -> Expression:
    """Clamps a maximum or minimum of floats to finite numbers, as TFLite's reductions do."""
    if not value.type.is_float or how not in (ReductionOp.MAXIMUM, ReductionOp.MINIMUM):
        return value
    limits = np.finfo(value.type.value)
    return (
        maximum(value, float(limits.min)) if how is ReductionOp.MAXIMUM else minimum(value, float(limits.max))
    )


def _sum(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, axes, operand = builder.value(call, "input"), reduced_axes(call), call.operand("input")
    output = call.operand("output")
    if not is_quantized(output):
        return _reduction(ReductionOp.SUM)(call, builder)

    count = count_along(source.shape, axes)
    # TFLite sums in 32 bits.
    may_saturate = isinstance(count, Extent) or count * max(map(abs, quantized_limits(operand))) > _INT32[1]
    scale, bias = _sum_scaling(count, operand, output)
    low, high = (limit - output.zero_point for limit in quantized_limits(output))

    def requantized(total: Expression) -> Expression:
        limited = clamp(total, *_INT32) if may_saturate else total
        real = limited.to(Scalar.FLOAT32) * scale + bias
        steps = clamp(apply(Op.ROUND_AWAY, real), float(low), float(high))
        return (steps.to(Scalar.INT32) + output.zero_point).to(source.type)

    return (
        reduce_dimensions(
            builder,
            source,
            axes,
            ReductionOp.SUM,
            element=lambda value: value.to(Scalar.INT64 if may_saturate else Scalar.INT32),
            finish=requantized,
            shape=output_shapes(call)[0],
        ),
    )


def _sum_scaling(count: int, operand: Operand, output: Operand) -> tuple[float, float | Expression]:
    """Returns `sum_scaling`, whose offset is an expression if the number of values is not known."""
    if not isinstance(count, Extent) or not operand.zero_point:
        scale, bias = sum_scaling(estimate(count), operand, output)
        return float(scale), float(bias)
    scale, each = sum_scaling(1, operand, output)
    largest = float(np.finfo(np.float32).max)
    return float(scale), clamp(length(count, Scalar.FLOAT32) * float(each), -largest, largest)


def _product(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers REDUCE_PROD; quantised products are rescaled at each step, in element order."""
    source, axes, operand = builder.value(call, "input"), reduced_axes(call), call.operand("input")
    output, shape = call.operand("output"), output_shapes(call)[0]
    if not is_quantized(output):
        return _reduction(ReductionOp.PRODUCT)(call, builder)
    lengths = tuple(source.shape[dimension] for dimension in axes)
    count = math.prod(lengths)
    if not count or not math.prod(shape):
        return (filled(builder, shape, stored_one(output), source.type),)
    multiplier, right = product_multiplier(count, operand, output)
    if right <= 0:
        raise Unsupported(f"a product of quantised values with scale {operand.scale:g} is not supported")
    bits = min(right, 62)
    if count > _MAX_PRODUCT_TERMS:
        rule = RescaledProduct(multiplier=multiplier, bits=bits)
        products = _long_product(builder, source, axes, operand.zero_point, rule)

        def stored(*at: Expression) -> Expression:
            number = linearize(at, shape)
            return saturate(load(products, (number,)).to(Scalar.INT64) + output.zero_point, output)

        return (builder.compute(shape, stored),)

    def body(*at: Expression) -> Expression:
        def factor(number: int) -> Expression:
            reduced = dict(zip(axes, delinearize(index(number), lengths), strict=True))
            position = whole_position(at, reduced, len(source.shape))
            return load(source, position).to(Scalar.INT64) - operand.zero_point

        product = factor(0)
        for number in range(1, count + 1):
            following = product * factor(number) if number < count else product
            rescaled = (following * multiplier + ((1 << bits) >> 1)) >> bits
            product = rescaled.to(Scalar.INT32).to(Scalar.INT64)
        return saturate(product + output.zero_point, output)

    return (builder.compute(shape, body),)


def _long_product(
    builder: Builder, source: Value, axes: Sequence[int], zero_point: int, rule: RescaledProduct
) -> Value:
    """Returns the rescaled products over axes, in a row, followed by others."""
    kept = [dimension for dimension in range(len(source.shape)) if dimension not in axes]
    lengths, left = ([source.shape[each] for each in dimensions] for dimensions in (axes, kept))
    width = math.prod(left)
    padded = 1 if width == 1 else -(-width // PRODUCT_LANES) * PRODUCT_LANES

    def factor(row: Expression, column: Expression) -> Expression:
        found = dict(zip(axes, delinearize(row, tuple(lengths)), strict=True))
        found.update(zip(kept, delinearize(minimum(column, width - 1), tuple(left)), strict=True))
        position = tuple(found[dimension] for dimension in range(len(source.shape)))
        return load(source, position).to(Scalar.INT32) - zero_point

    factors = builder.compute((math.prod(lengths), padded), factor)
    return builder.procedure(rule, factors, output=(padded,))


def _cumulative(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers CUMSUM."""
    source, dimension = builder.value(call, "input"), cumulative_axis(call)
    lengths = source.shape[:dimension], source.shape[dimension + 1 :]
    wide = source
    if source.type is Scalar.FLOAT16:
        wide = builder.compute(source.shape, lambda *at: widen(load(source, at)))
    outer, inner = map(math.prod, lengths)
    sums = builder.procedure(
        RunningSum(is_exclusive=bool(call.scalar("exclusive")), is_reverse=bool(call.scalar("reverse"))),
        builder.reshape(wide, (outer, source.shape[dimension], inner)),
        output=(outer, source.shape[dimension], inner),
        type=wide.type,
    )
    result = builder.reshape(sums, source.shape)
    if wide is source:
        return (result,)
    return (builder.compute(source.shape, lambda *at: load(result, at).to(source.type)),)


LOWERINGS = {
    OperationType.TFLITE_MEAN: _mean,
    OperationType.TFLITE_SUM: _sum,
    OperationType.TFLITE_REDUCE_PROD: _product,
    OperationType.TFLITE_REDUCE_MAX: _reduction(ReductionOp.MAXIMUM),
    OperationType.TFLITE_REDUCE_MIN: _reduction(ReductionOp.MINIMUM),
    OperationType.TFLITE_REDUCE_ANY: _reduction(ReductionOp.ANY),
    OperationType.TFLITE_REDUCE_ALL: _reduction(ReductionOp.ALL),
    OperationType.TFLITE_CUMSUM: _cumulative,
}
