"""Reductions as TFLite has them, and CUMSUM."""

import math

import numpy as np

from neurald.drivers.compiler.builder import Builder, Unsupported
from neurald.drivers.compiler.expression import (
    Expression,
    apply,
    axis,
    clamp,
    constant,
    index,
    load,
    maximum,
    minimum,
    reduce,
)
from neurald.drivers.compiler.graph import Value, unflat
from neurald.drivers.compiler.lowering.folding import (
    along,
    count_along,
    filled,
    fold,
    whole_position,
)
from neurald.drivers.compiler.lowering.moving import output_shapes
from neurald.drivers.compiler.lowering.pointwise import widen
from neurald.drivers.compiler.lowering.quantized import rescale, saturate
from neurald.drivers.compiler.lowering.reduction import difference, lower_mean
from neurald.drivers.compiler.lowering.table import Lowering
from neurald.drivers.compiler.op import Fold, Op
from neurald.drivers.compiler.scalar import Scalar
from neurald.hal.operation_type import OperationType
from neurald.hal.operations.call import Call
from neurald.hal.operations.quantized import is_quantized
from neurald.hal.operations.tflite.reduction import cumulative_axis, product_multiplier, reduced_axes

_INT32 = -1 << 31, (1 << 31) - 1
#: Products of stored values are rescaled at each step: an expression for each.
_LONGEST_PRODUCT = 64
#: Up to so many elements, each sum of CUMSUM reads all that it is made of.
_SHORT_SUM = 64

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

    def stored(total: Expression) -> Expression:
        # TFLite's sums have 32 bits.
        limited = clamp(total.to(Scalar.INT64), *_INT32)
        return saturate(rescale(limited, operand.scale / output.scale) + output.zero_point, output)

    element = difference(operand, count_along(source.shape, axes))
    return (
        fold(builder, source, axes, Fold.SUM, element=element, finish=stored, shape=output_shapes(call)[0]),
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
    """Sums of blocks first, so that a sum of n elements reads about 2·√n numbers."""
    source, dimension = builder.value(call, "input"), cumulative_axis(call)
    is_reverse, gap = bool(call.scalar("reverse")), int(bool(call.scalar("exclusive")))
    length = source.shape[dimension]
    block = max(1, length if length <= _SHORT_SUM else math.isqrt(length - 1) + 1)
    blocks = -(-length // block) if length else 0

    def element(at: tuple[Expression, ...], place: Expression, holds: Expression) -> Expression:
        """The element at `place`, counted in the direction of the sum, or 0 unless it `holds`."""
        where = length - 1 - place if is_reverse else place
        return widen(load(source, along(at, dimension, where), holds & (place < length), 0))

    def sum_of_block(*at: Expression) -> Expression:
        inner = axis(block, "r")
        place = at[dimension] * block + inner
        return reduce(Fold.SUM, (inner,), element(at, place, index(0).equals(0)))

    is_single = blocks <= 1
    sums = None if is_single else builder.compute(_along_shape(source, dimension, blocks), sum_of_block)

    def body(*at: Expression) -> Expression:
        last = (length - 1 - at[dimension] if is_reverse else at[dimension]) - gap
        inner = axis(block, "r")
        number = at[dimension] * 0 if sums is None else maximum(last, 0) // block
        place = number * block + inner
        total = reduce(Fold.SUM, (inner,), element(at, place, place <= last))
        if sums is not None:
            outer = axis(blocks, "b")
            before = load(sums, along(at, dimension, outer), outer < number, 0)
            total = total + reduce(Fold.SUM, (outer,), before)
        return total.to(source.type)

    return (builder.compute(source.shape, body),)


def _along_shape(source: Value, dimension: int, length: int) -> tuple[int, ...]:
    """The shape of a value with another length along a dimension."""
    return (*source.shape[:dimension], length, *source.shape[dimension + 1 :])


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
