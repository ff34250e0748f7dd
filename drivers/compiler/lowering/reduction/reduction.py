"""Lowers MEAN, and REDUCE_ALL, _ANY, _MAX, _MIN, _PROD and _SUM."""

from collections.abc import Callable

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    constant,
    index,
    length,
    load,
    maximum,
    minimum,
)
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.op import Op, ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.gemmlowp import bit_length, saturate32
from neurald.drivers.compiler.lowering.arithmetic.quantized import fixed_point, saturate
from neurald.drivers.compiler.lowering.convolution.weighted_sum import largest
from neurald.drivers.compiler.lowering.elementwise.pointwise import widen
from neurald.drivers.compiler.lowering.machinery.reduced_axes import (
    count_along,
    exact_sum,
    filled,
    reduce_dimensions,
)
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axes
from neurald.hal.operations.reduction.reduction import mean_multiplier, mean_rescaling


def difference(operand: Operand, count: int) -> Callable[[Expression], Expression]:
    """Returns the difference from the zero point, in a type that can sum `count` of them."""
    kind = exact_sum(count, largest(operand))
    return lambda value: value.to(kind) - operand.zero_point


def _long_product(value: Expression, mantissa: int, exponent: int) -> Expression:
    """Computes value × mantissa × 2^(exponent - 31) as `fixed_point.multiply` does, in 64 bits.

    The value is an INT64, and need not be in int32's range; the exponent is at most 0.
    """
    product = value * mantissa
    nudged = product + ((1 << 30) + (1 << (30 - exponent) if exponent else 0))
    if exponent:
        # Ties are rounded away from zero.
        nudged = nudged - ((product >> 63) & (1 << 31))
    return nudged >> (31 - exponent)


def _open_multiplier(
    builder: Builder, count: int, operand: Operand, output: Operand
) -> tuple[Expression, Expression]:
    """Returns `mean_multiplier` for a number of elements that is only known at run time."""
    mantissa, exponent, most = mean_rescaling(operand, output)
    whole = maximum(index(count).to(Scalar.INT64), 1)
    shift = minimum(bit_length(whole) - 1, most)
    factor = apply(Op.TRUNCATE_DIVIDE, constant(mantissa, Scalar.INT64) << shift, whole)
    # They are the same for all elements, and a division takes longer than all else.
    stored = [
        builder.compute((1,), lambda *_, part=part: part.to(Scalar.INT32), is_stored=True)
        for part in (factor, constant(exponent, Scalar.INT64) - shift)
    ]
    first, second = (load(each, (index(0),)) for each in stored)
    return first, second


def lower_mean(call: Call, builder: Builder, axes: tuple[int, ...]) -> Value:
    """Lowers the mean of at least one element."""
    source, operand, output = builder.value(call, "input"), call.operand("input"), call.operand("output")
    count, shape = count_along(source.shape, axes), output_shapes(call)[0]
    if is_quantized(output):
        is_long = count * largest(operand) >= 1 << 31
        if isinstance(count, Extent) and not is_long:
            multiplier = 0, 0
            mantissa, exponent = _open_multiplier(builder, count, operand, output)
        else:
            multiplier = mean_multiplier(count, operand, output)
            mantissa, exponent = (constant(part, Scalar.INT32) for part in multiplier)
        is_shifted_left = multiplier[1] > 0

        # To subtract the zero points at once is cheaper.
        is_plain = not (is_long or isinstance(count, Extent))
        is_plain = is_plain and count * max(map(abs, quantized_limits(operand))) < 1 << 31

        def requantized(total: Expression) -> Expression:
            rest = total - count * operand.zero_point if is_plain else total
            if is_long and is_shifted_left:
                # Larger sums saturate in the shift, too.
                mean = fixed_point(saturate32(rest), mantissa, exponent)
            elif is_long:
                mean = _long_product(rest, *multiplier)
            else:
                mean = fixed_point(rest, mantissa, exponent)
            return saturate(mean + output.zero_point, output)

        return reduce_dimensions(
            builder,
            source,
            axes,
            ReductionOp.SUM,
            element=(lambda value: value.to(Scalar.INT32)) if is_plain else difference(operand, count),
            finish=requantized,
            shape=shape,
        )
    return reduce_dimensions(
        builder,
        source,
        axes,
        ReductionOp.SUM,
        element=widen,
        finish=lambda total: (total / length(count, total.type)).to(source.type),
        shape=shape,
    )


def _mean(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, axes, shape = builder.value(call, "input"), resolve_axes(call, "axes"), output_shapes(call)[0]
    if 0 in shape:
        return (filled(builder, shape, 0, source.type),)
    if not count_along(source.shape, axes):
        raise Unsupported("a mean of no elements is not supported")
    return (lower_mean(call, builder, axes),)


def _reduction(how: ReductionOp) -> Lowering:
    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source, shape = builder.value(call, "input"), output_shapes(call)[0]
        if 0 in source.shape:
            return (filled(builder, shape, of_nothing(how, source.type), source.type),)
        return (
            reduce_dimensions(
                builder,
                source,
                resolve_axes(call, "axes"),
                how,
                element=widen,
                finish=lambda value: value.to(source.type),
                shape=shape,
            ),
        )

    return lower


def of_nothing(how: ReductionOp, type_: Scalar) -> float:
    """Returns the result of a reduction of no elements: a finite number."""
    if type_.is_float and how in (ReductionOp.MAXIMUM, ReductionOp.MINIMUM):
        limits = np.finfo(type_.value)
        return float(limits.min if how is ReductionOp.MAXIMUM else limits.max)
    return reduction_identity(how, type_)


LOWERINGS = {
    OperationType.MEAN: _mean,
    OperationType.REDUCE_ALL: _reduction(ReductionOp.ALL),
    OperationType.REDUCE_ANY: _reduction(ReductionOp.ANY),
    OperationType.REDUCE_MAX: _reduction(ReductionOp.MAXIMUM),
    OperationType.REDUCE_MIN: _reduction(ReductionOp.MINIMUM),
    OperationType.REDUCE_PROD: _reduction(ReductionOp.PRODUCT),
    OperationType.REDUCE_SUM: _reduction(ReductionOp.SUM),
}
