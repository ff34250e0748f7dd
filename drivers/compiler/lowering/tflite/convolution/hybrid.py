"""Weighted sums of floats with weights of 8 bits, see `neurald.hal.operations.tflite.convolution.hybrid`.

Scales and zero points of rows are computed in FLOAT32, where the reference takes FLOAT64 for those with a zero point.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    clamp,
    constant,
    load,
    maximum,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.op import Fold, Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate
from neurald.drivers.compiler.lowering.convolution.weighted_sum import Padding, Plan
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.convolution.hybrid import LARGEST, weight_scales

_LOW, _HIGH = -128, 127
_LARGEST_INT32 = (1 << 31) - 1
_NO_PADDING: Padding = ((0, 0), (0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of floats, quantised one by one.

    Attributes:
        stored: INT8, of the shape of the floats; whatever has one index of its first dimension is a row.
        scales: FLOAT32, (rows,).
        zero_points: INT32, (rows,); None where all are 0.
    """

    stored: Value
    scales: Value
    zero_points: Value | None


def quantize_rows(
    builder: Builder, values: Value, *, asymmetric: bool, padding: Padding = _NO_PADDING
) -> Rows:
    """Each row of FLOAT32 numbers by its own range.

    Args:
        builder: of the operation.
        values: (rows, …).
        asymmetric: whether rows get a zero point.
        padding: stored values are padded so far, along the dimensions 1 and 2, with what stands for 0.
    """
    count = values.shape[0]
    limits = _limits(builder, values) if asymmetric else _magnitudes(builder, values)
    if asymmetric:
        scales = builder.compute((count,), lambda n: _asymmetric_scale(limits, n))
        zero_points = builder.compute((count,), lambda n: _zero_point(limits, scales, n))
    else:
        scales = builder.compute((count,), lambda n: _symmetric_scale(limits, n))
        zero_points = None
    lengths = list(values.shape)
    befores = [0] * len(lengths)
    if padding != _NO_PADDING:
        for dimension, (before, after) in enumerate(padding, start=1):
            lengths[dimension] += before + after
            befores[dimension] = before

    def body(*at: Expression) -> Expression:
        row = at[0]
        position = tuple(place - before for place, before in zip(at, befores, strict=True))
        value = load(values, position, inside(position, values.shape))
        if zero_points is None:
            stored = value * _symmetric_inverse(limits, row)
        else:
            zero = load(zero_points, (row,)).to(Scalar.FLOAT32)
            stored = value * (1.0 / load(scales, (row,))) + zero
        rounded = apply(Op.ROUND_AWAY, stored)
        # What is not a number becomes 0 as an integer.
        return clamp(rounded, float(_LOW if asymmetric else -_HIGH), float(_HIGH)).to(Scalar.INT8)

    return Rows(stored=builder.compute(tuple(lengths), body), scales=scales, zero_points=zero_points)


def _limits(builder: Builder, values: Value) -> Value:
    """(rows, 2): how far each row reaches below 0, and above; what is not a number does not count."""

    def body(row: Expression, side: Expression) -> Expression:
        return _reach(values, row, lambda number: select(side.equals(0), -number, number))

    return builder.compute((values.shape[0], 2), body)


def _magnitudes(builder: Builder, values: Value) -> Value:
    """(rows,): how far each row reaches to either side."""
    return builder.compute(
        (values.shape[0],), lambda row: _reach(values, row, lambda number: apply(Op.ABSOLUTE, number))
    )


def _reach(values: Value, row: Expression, signed: Callable[[Expression], Expression]) -> Expression:
    """The largest of what numbers of a row are made, but not below 0."""
    axes = tuple(axis(length, f"r{dimension}") for dimension, length in enumerate(values.shape[1:]))
    value = load(values, (row, *axes))
    number = select(apply(Op.IS_NAN, value), 0.0, value)
    return maximum(reduce(Fold.MAXIMUM, axes, signed(number)), 0.0)


def _limit(limits: Value, row: Expression, side: int) -> Expression:
    return load(limits, (row, row * 0 + side))


def _symmetric_scale(magnitudes: Value, row: Expression) -> Expression:
    largest = load(magnitudes, (row,))
    return select(largest.equals(0.0), 1.0, largest / float(_HIGH))


def _symmetric_inverse(magnitudes: Value, row: Expression) -> Expression:
    largest = load(magnitudes, (row,))
    return select(largest.equals(0.0), 0.0, constant(float(_HIGH), Scalar.FLOAT32) / largest)


def _asymmetric_scale(limits: Value, row: Expression) -> Expression:
    extent = _limit(limits, row, 1) + _limit(limits, row, 0)
    return select(extent.equals(0.0), 1.0, extent / float(_HIGH - _LOW))


def _zero_point(limits: Value, scales: Value, row: Expression) -> Expression:
    """The end at which less is lost gives it."""
    scale = load(scales, (row,))
    below, above = _limit(limits, row, 0) / scale, _limit(limits, row, 1) / scale
    is_from_low = (below + float(-_LOW)) < (above + float(_HIGH))
    zero = select(is_from_low, below + float(_LOW), constant(float(_HIGH), Scalar.FLOAT32) - above)
    return apply(Op.ROUND_AWAY, clamp(zero, float(_LOW), float(_HIGH))).to(Scalar.INT32)


def sum_type(terms: int) -> Scalar:
    """What so many products of quantised floats and weights are summed in."""
    return Scalar.INT32 if 2 * LARGEST * LARGEST * terms <= _LARGEST_INT32 else Scalar.INT64


def centred(builder: Builder, sums: Value, rows: Rows, weights: Value, channels: int) -> Value:
    """Sums less what the zero points of rows add to them.

    Args:
        builder: of the operation.
        sums: (rows, …, channels).
        rows: what was multiplied.
        weights: with what.
        channels: the dimension of the weights that is that of the channels.
    """
    zero_points = rows.zero_points
    if zero_points is None:
        return sums
    totals = _totals(builder, weights, channels, sums.type)
    return builder.compute(
        sums.shape,
        lambda *at: load(sums, at) - load(zero_points, at[:1]).to(sums.type) * load(totals, at[-1:]),
    )


def _totals(builder: Builder, weights: Value, channels: int, type: Scalar) -> Value:  # noqa: A002 - as elsewhere
    """The sum of the weights of each channel; of constants right away."""
    others = tuple(dimension for dimension in range(len(weights.shape)) if dimension != channels)
    if weights.constant is not None:
        return builder.constant(weights.constant.sum(axis=others, dtype=type.dtype))

    def body(channel: Expression) -> Expression:
        axes = [axis(length, f"r{dimension}") for dimension, length in enumerate(weights.shape)]
        position = tuple(channel if d == channels else place for d, place in enumerate(axes))
        return reduce(Fold.SUM, tuple(axes[d] for d in others), load(weights, position).to(type))

    return builder.compute((weights.shape[channels],), body)


def finish(call: Call, builder: Builder, sums: Value, scales: Value) -> Value:
    """Floats of centred sums: (rows, …, channels) with scales (rows,); bias and fused activation."""
    bias = builder.value(call, "bias") if call.has("bias") else None
    steps = builder.constant(weight_scales(call.operand("filter")))
    is_single = steps.count == 1

    def body(*at: Expression) -> Expression:
        channel = at[-1]
        step = load(steps, (channel * 0 if is_single else channel,))
        total = load(sums, at).to(Scalar.FLOAT32) * step * load(scales, at[:1])
        if bias is not None:
            total = total + load(bias, (channel,)).to(Scalar.FLOAT32)
        return activate(total, call.activation)

    return builder.compute(sums.shape, body)


def windows(call: Call, builder: Builder, plan: Plan, source: Value, *, asymmetric: bool) -> Value:
    """The output of an operation that moves a window over NHWC images, each of which is a row."""
    rows = quantize_rows(
        builder, source, asymmetric=asymmetric, padding=plan.padding if asymmetric else _NO_PADDING
    )
    shape = plan.weights.shape
    sums = plan.contract(
        rows.stored,
        type=sum_type(math.prod(shape) // max(1, shape[plan.channels])),
        padding=_NO_PADDING if asymmetric else plan.padding,
    )
    sums = centred(builder, sums, rows, plan.weights, plan.channels)
    return finish(call, builder, plan.restore(sums), rows.scales)


def products(builder: Builder, rows: Rows, weights: Value) -> Value:
    """Centred sums of rows (rows, elements) with weights (units, elements): (rows, units)."""
    sums = builder.matrix_product(rows.stored, weights, type=sum_type(weights.shape[1]))
    return centred(builder, sums, rows, weights, 0)


def blockwise_products(builder: Builder, rows: Rows, weights: Value, block_scales: Value) -> Value:
    """Centred sums of rows (rows, elements) with weights (units, elements) whose blocks have scales (units, blocks).

    Returns:
        FLOAT32, (rows, units).
    """
    (count, depth), (units, blocks) = rows.stored.shape, block_scales.shape
    length, stored = depth // blocks, rows.stored
    left = builder.compute(
        (blocks, count, length), lambda block, row, place: load(stored, (row, block * length + place))
    )
    if weights.constant is not None:
        parts = weights.constant.reshape(units, blocks, length).swapaxes(0, 1)
        right = builder.constant(parts)
    else:
        right = builder.compute(
            (blocks, units, length), lambda block, unit, place: load(weights, (unit, block * length + place))
        )
    kind = sum_type(length)
    sums = builder.matrix_product(left, right, type=kind)
    zero_points = rows.zero_points
    totals = None if zero_points is None else _block_totals(builder, right, kind)

    def body(row: Expression, unit: Expression) -> Expression:
        block = axis(blocks, "b")
        total = load(sums, (block, row, unit))
        if zero_points is not None and totals is not None:
            total = total - load(zero_points, (row,)).to(kind) * load(totals, (block, unit))
        scaled = total.to(Scalar.FLOAT32) * load(block_scales, (unit, block))
        return reduce(Fold.SUM, (block,), scaled)

    return builder.compute((count, units), body)


def _block_totals(builder: Builder, parts: Value, type: Scalar) -> Value:  # noqa: A002 - as elsewhere
    """The sums of the weights of each block, (blocks, units); of constants right away."""
    blocks, units, length = parts.shape
    if parts.constant is not None:
        return builder.constant(parts.constant.sum(axis=2, dtype=type.dtype))

    def body(block: Expression, unit: Expression) -> Expression:
        place = axis(length, "k")
        return reduce(Fold.SUM, (place,), load(parts, (block, unit, place)).to(type))

    return builder.compute((blocks, units), body)
