"""Reductions as TFLite has them, and CUMSUM."""

import math

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    clamp,
    constant,
    index,
    load,
    maximum,
    minimum,
)
from neurald.drivers.compiler.ir.graph import unflat
from neurald.drivers.compiler.ir.op import Fold, Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import saturate
from neurald.drivers.compiler.lowering.elementwise.pointwise import widen
from neurald.drivers.compiler.lowering.machinery.reduced_axes import (
    along,
    count_along,
    filled,
    fold,
    whole_position,
)
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.drivers.compiler.lowering.reduction.reduction import lower_mean
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.quantized import is_quantized, stored_limits
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.reduction.reduction import (
    cumulative_axis,
    product_multiplier,
    reduced_axes,
    sum_line,
)

_INT32 = -1 << 31, (1 << 31) - 1
#: Products of stored values are rescaled at each step: an expression for each.
_LONGEST_PRODUCT = 64

#: Truth values are folded as what the same numbers would give.
TRUTHS = {Fold.SUM: Fold.ANY, Fold.MAXIMUM: Fold.ANY, Fold.PRODUCT: Fold.ALL, Fold.MINIMUM: Fold.ALL}


def _mean(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, axes, shape = builder.value(call, "input"), reduced_axes(call), output_shapes(call)[0]
    count, output = count_along(source.shape, axes), call.operand("output")
    if is_quantized(output) and not count:
        return (filled(builder, shape, 0, source.type),)
    if is_quantized(output) or source.type.is_float:
        return (lower_mean(call, builder, axes),)

    def whole(total: Expression) -> Expression:
        divisor = constant(max(1, count), Scalar.INT64)
        return apply(Op.TRUNCATE_DIVIDE, total, divisor).to(source.type)

    return (
        fold(
            builder,
            source,
            axes,
            Fold.SUM,
            element=lambda value: value.to(Scalar.INT64),
            finish=whole,
            shape=shape,
        ),
    )


def _fold(how: Fold) -> Lowering:
    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source = builder.value(call, "input")

        def finish(value: Expression) -> Expression:
            return finite(how, value).to(source.type)

        return (
            fold(
                builder,
                source,
                reduced_axes(call),
                TRUTHS.get(how, how) if source.type is Scalar.BOOL else how,
                element=widen,
                finish=finish,
                shape=output_shapes(call)[0],
            ),
        )

    return lower


def finite(how: Fold, value: Expression) -> Expression:
    """What a fold of floats gives that starts with the lowest or highest finite number, not with an infinite one."""
    if not value.type.is_float or how not in (Fold.MAXIMUM, Fold.MINIMUM):
        return value
    limits = np.finfo(value.type.value)
    return maximum(value, float(limits.min)) if how is Fold.MAXIMUM else minimum(value, float(limits.max))


def _sum(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, axes, operand = builder.value(call, "input"), reduced_axes(call), call.operand("input")
    output = call.operand("output")
    if not is_quantized(output):
        return _fold(Fold.SUM)(call, builder)

    scale, bias = (float(number) for number in sum_line(count_along(source.shape, axes), operand, output))
    low, high = (limit - output.zero_point for limit in stored_limits(output))

    def stored(total: Expression) -> Expression:
        # TFLite's sums have 32 bits.
        limited = clamp(total, *_INT32).to(Scalar.FLOAT32)
        steps = clamp(apply(Op.ROUND_AWAY, limited * scale + bias), float(low), float(high))
        return (steps.to(Scalar.INT32) + output.zero_point).to(source.type)

    return (
        fold(
            builder,
            source,
            axes,
            Fold.SUM,
            element=lambda value: value.to(Scalar.INT64),
            finish=stored,
            shape=output_shapes(call)[0],
        ),
    )


def _product(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Stored values are rescaled at each step, so the order matters: that of the elements."""
    source, axes, operand = builder.value(call, "input"), reduced_axes(call), call.operand("input")
    output, shape = call.operand("output"), output_shapes(call)[0]
    if not is_quantized(output):
        return _fold(Fold.PRODUCT)(call, builder)
    lengths = tuple(source.shape[dimension] for dimension in axes)
    count = math.prod(lengths)
    if not count:
        return (filled(builder, shape, 0, source.type),)
    multiplier, right = product_multiplier(count, operand, output)
    if count > _LONGEST_PRODUCT or right <= 0:
        raise Unsupported(f"a product of {count} stored values, each {operand.scale:g}, has no kernel")
    bits = min(right, 62)

    def body(*at: Expression) -> Expression:
        def factor(place: int) -> Expression:
            folded = dict(zip(axes, unflat(index(place), lengths), strict=True))
            position = whole_position(at, folded, len(source.shape))
            return load(source, position).to(Scalar.INT64) - operand.zero_point

        product = factor(0)
        for place in range(1, count + 1):
            following = product * factor(place) if place < count else product
            product = clamp((following * multiplier + ((1 << bits) >> 1)) >> bits, *_INT32)
        return saturate(product + output.zero_point, output)

    return (builder.compute(shape, body),)


def _cumulative(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Sums of two elements, then of four, and so on: each is one of half as many, and the one right before that."""
    source, dimension = builder.value(call, "input"), cumulative_axis(call)
    way = -1 if call.scalar("reverse") else 1
    length = source.shape[dimension]

    def element(value: Value, at: tuple[Expression, ...], distance: int) -> Expression:
        """The element so far back, against the direction of the sum; 0 where there is none."""
        place = at[dimension] - way * distance
        return widen(load(value, along(at, dimension, place), (place >= 0) & (place < length), 0))

    sums, count = source, 1
    while count < length:
        sums = builder.compute(
            source.shape,
            lambda *at, sums=sums, count=count: widen(load(sums, at)) + element(sums, at, count),
        )
        count *= 2
    if call.scalar("exclusive"):
        sums = builder.compute(source.shape, lambda *at: element(sums, at, 1))
    return (builder.compute(source.shape, lambda *at: load(sums, at).to(source.type)),)


LOWERINGS = {
    OperationType.TFLITE_MEAN: _mean,
    OperationType.TFLITE_SUM: _sum,
    OperationType.TFLITE_REDUCE_PROD: _product,
    OperationType.TFLITE_REDUCE_MAX: _fold(Fold.MAXIMUM),
    OperationType.TFLITE_REDUCE_MIN: _fold(Fold.MINIMUM),
    OperationType.TFLITE_REDUCE_ANY: _fold(Fold.ANY),
    OperationType.TFLITE_REDUCE_ALL: _fold(Fold.ALL),
    OperationType.TFLITE_CUMSUM: _cumulative,
}
