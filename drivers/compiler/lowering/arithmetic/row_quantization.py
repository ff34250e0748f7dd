"""Lowers the quantisation of rows of floats, and products of such rows with integer weights.

Scales and zero points are computed in FLOAT32, as TFLite does.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from msgspec import Struct

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
from neurald.drivers.compiler.ir.graph import Pair, inside
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.operations.arithmetic.row_quantization import MAX_QUANTIZED_MAGNITUDE

#: Positions before and after the values, along dimensions 1 and 2.
Padding: TypeAlias = tuple[Pair, Pair]

NO_PADDING: Padding = ((0, 0), (0, 0))
_LOW, _HIGH = -128, 127
_MAX_INT32 = (1 << 31) - 1


class QuantizedRows(Struct, frozen=True, kw_only=True):
    """Rows of floats, quantised separately.

    Attributes:
        values: INT8, of the floats' shape. A row is everything at one index of the first dimension.
        scales: FLOAT32, (rows,).
        zero_points: INT8, (rows,); None if all are 0.
    """

    values: Value
    scales: Value
    zero_points: Value | None


def quantize_rows(
    builder: Builder, values: Value, *, asymmetric: bool, padding: Padding = NO_PADDING
) -> QuantizedRows:
    """Quantises each row of FLOAT32 numbers by its own range.

    Args:
        builder: the builder of the operation.
        values: (rows, …).
        asymmetric: True if rows get a zero point.
        padding: the padding of the quantised values along dimensions 1 and 2, by the zero point.
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
    if padding != NO_PADDING:
        for dimension, (before, after) in enumerate(padding, start=1):
            lengths[dimension] += before + after
            befores[dimension] = before

    def body(*at: Expression) -> Expression:
        row = at[0]
        position = tuple(index - before for index, before in zip(at, befores, strict=True))
        value = load(values, position, inside(position, values.shape))
        if zero_points is None:
            scaled = value * _symmetric_inverse(limits, row)
            # Rounds half away from zero, since the conversion truncates.
            moved = scaled + _below_half(scaled)
        else:
            # The zero point is added to what is rounded, as TFLite does.
            scaled = apply(Op.ROUND_AWAY, value * (1.0 / load(scales, (row,))))
            moved = scaled + load(zero_points, (row,)).to(Scalar.FLOAT32)
        # NaN converts to the integer 0.
        return clamp(moved, float(_LOW if asymmetric else -_HIGH), float(_HIGH)).to(Scalar.INT8)

    return QuantizedRows(values=builder.compute(tuple(lengths), body), scales=scales, zero_points=zero_points)


def _below_half(value: Expression) -> Expression:
    """Returns the largest FLOAT32 below 1/2, with the sign of another."""
    sign = apply(Op.REINTERPRET, value, type=Scalar.INT32) & -(1 << 31)
    bits = int(np.float32(0.5 - 2.0**-25).view(np.int32))
    return apply(Op.REINTERPRET, sign | bits, type=Scalar.FLOAT32)


def _limits(builder: Builder, values: Value) -> Value:
    """Returns the magnitudes of each row's minimum, at most 0, and maximum, at least 0: (rows, 2).

    NaN is ignored.
    """

    def body(row: Expression, side: Expression) -> Expression:
        return _max_over_row(values, row, lambda number: select(side.equals(0), -number, number))

    return builder.compute((values.shape[0], 2), body)


def _magnitudes(builder: Builder, values: Value) -> Value:
    """Returns (rows,): the largest magnitude of each row."""
    return builder.compute(
        (values.shape[0],), lambda row: _max_over_row(values, row, lambda number: apply(Op.ABSOLUTE, number))
    )


def _max_over_row(values: Value, row: Expression, signed: Callable[[Expression], Expression]) -> Expression:
    """Returns the maximum over a row of `signed(number)`, at least 0."""
    axes = tuple(axis(length, f"r{dimension}") for dimension, length in enumerate(values.shape[1:]))
    value = load(values, (row, *axes))
    return maximum(reduce(ReductionOp.MAXIMUM_NUMBER, axes, signed(value)), 0.0)


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
    """Returns the zero point, from the end of the range with the smaller rounding error."""
    scale = load(scales, (row,))
    below, above = _limit(limits, row, 0) / scale, _limit(limits, row, 1) / scale
    is_from_low = (below + float(-_LOW)) < (above + float(_HIGH))
    zero = select(is_from_low, below + float(_LOW), constant(float(_HIGH), Scalar.FLOAT32) - above)
    return apply(Op.ROUND_AWAY, clamp(zero, float(_LOW), float(_HIGH))).to(Scalar.INT8)


def sum_type(terms: int) -> Scalar:
    """Returns the type for sums of `terms` products of quantised floats and weights."""
    return (
        Scalar.INT32
        if 2 * MAX_QUANTIZED_MAGNITUDE * MAX_QUANTIZED_MAGNITUDE * terms <= _MAX_INT32
        else Scalar.INT64
    )


def centred(builder: Builder, sums: Value, rows: QuantizedRows, weights: Value, channels: int) -> Value:
    """Subtracts the contribution of the rows' zero points from sums.

    Args:
        builder: the builder of the operation.
        sums: (rows, …, channels).
        rows: the first factor.
        weights: the second factor.
        channels: the channel dimension of the weights.
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
    """Returns the sum of each channel's weights; computed at compile time for constants."""
    others = tuple(dimension for dimension in range(len(weights.shape)) if dimension != channels)
    if weights.constant is not None:
        return builder.constant(weights.constant.sum(axis=others, dtype=type.dtype))

    def body(channel: Expression) -> Expression:
        axes = [axis(length, f"r{dimension}") for dimension, length in enumerate(weights.shape)]
        position = tuple(channel if d == channels else index for d, index in enumerate(axes))
        return reduce(ReductionOp.SUM, tuple(axes[d] for d in others), load(weights, position).to(type))

    return builder.compute((weights.shape[channels],), body)


def products(builder: Builder, rows: QuantizedRows, weights: Value) -> Value:
    """Multiplies rows (rows, elements) by weights (units, elements); centred (rows, units)."""
    sums = builder.matrix_product(rows.values, weights, type=sum_type(weights.shape[1]))
    return centred(builder, sums, rows, weights, 0)
