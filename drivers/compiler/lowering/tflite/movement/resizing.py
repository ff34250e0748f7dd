"""Lowers TFLite's RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

from functools import reduce
from operator import add

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, index, load, maximum
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.drivers.compiler.lowering.movement.resizing import (
    AxisInterpolation,
    Neighbours,
    along_width,
    interpolated,
    is_open,
    lower_bilinear,
    lower_nearest,
    neighbour_positions,
    neighbours_of,
    weighted_rows,
    widens,
)
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.operations.movement.resizing import flags, output_size
from neurald.hal.operations.tflite.movement.resizing import ONE, fixed_point_neighbours

#: Number of channels from which bytes are loaded together.
_MIN_ADJACENT = 8
#: How many times as wide as the result an image may be, so that weighting all of its columns pays.
_MAX_SHRINK = 8


def _bilinear(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers RESIZE_BILINEAR. Signed values use fixed point, unsigned ones FLOAT32."""
    source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
    if source.type.is_float:
        return lower_bilinear(call, builder)
    batches, height, width, channels = source.shape
    size = output_size(call)
    is_unsigned = source.type is Scalar.UINT8
    positions = neighbour_positions if is_unsigned else _fixed_point
    rows, columns = (
        positions(call, builder, length, result) for length, result in zip((height, width), size, strict=True)
    )
    has_short_rows = _has_short_rows(source, size)
    if is_unsigned and has_short_rows:
        result = _unsigned_by_rows(builder, source, size, rows, columns)
    elif not is_unsigned and (has_short_rows or widens(width, size[1])):
        image = weighted_rows(builder, source, size[0], rows, ONE)

        def across(*at: Expression) -> Expression:
            total = along_width(image, at, neighbours_of(builder, columns, width, at[2]), ONE)
            return _rounded(total, source.type)

        result = builder.compute((batches, *size, channels), across)
    else:
        blend = _unsigned if is_unsigned else _signed

        def blended(*at: Expression) -> Expression:
            down = neighbours_of(builder, rows, height, at[1])
            return blend(source, at, down, neighbours_of(builder, columns, width, at[2]))

        result = builder.compute((batches, *size, channels), blended)
    return (from_nhwc(builder, result, is_nchw(call)),)


def _has_short_rows(source: Value, size: tuple[int, int]) -> bool:
    """Returns True if bytes would be loaded one by one, since few channels are adjacent."""
    width, channels = source.shape[2:]
    is_short = not isinstance(channels, Extent) and channels < _MIN_ADJACENT
    return source.type.size_bytes == 1 and is_short and estimate(width) <= _MAX_SHRINK * estimate(size[1])


def _unsigned_by_rows(
    builder: Builder,
    source: Value,
    size: tuple[int, int],
    rows: AxisInterpolation,
    columns: AxisInterpolation,
) -> Value:
    """Weights whole rows of the image, which are adjacent, before columns are chosen.

    The results are those of `_unsigned`: sums of floats in the same order.
    """
    batches, height, width, channels = source.shape
    shape = (batches, size[0], width, channels)

    def end(number: int) -> Value:
        def weighted(*at: Expression) -> Expression:
            down = neighbours_of(builder, rows, height, at[1])
            row = (down.lower, down.upper)[number]
            share = (1 - down.weight, down.weight)[number]
            return load(source, (at[0], row, *at[2:])).to(Scalar.FLOAT32) * share

        return builder.compute(shape, weighted, is_stored=True)

    ends = end(0), end(1)

    def body(*at: Expression) -> Expression:
        across = neighbours_of(builder, columns, width, at[2])
        sides = (across.lower, 1 - across.weight), (across.upper, across.weight)
        parts = [load(each, (*at[:2], column, at[3])) * share for column, share in sides for each in ends]
        return _rounded(reduce(add, parts), source.type)

    return builder.compute((batches, *size, channels), body)


def _fixed_point(call: Call, builder: Builder, length: int, result: int) -> AxisInterpolation:
    """Returns source indices with weights in the type of the computation."""
    kind = Scalar.INT32 if call.operand("input").type.dtype.itemsize == 1 else Scalar.INT64
    if not is_open(call, length, result):
        lower, upper, weight = fixed_point_neighbours(call, length, result)
        return lower, upper, weight.astype(kind.dtype)
    align_corners, half_pixel_centers = flags(call)
    # Indices would be limited to numbers for which these do not exceed 32 bits.
    most = index(length - align_corners).to(Scalar.INT64)
    divisor = maximum(index(result - align_corners), 1).to(Scalar.INT64)
    step = (ONE * most + divisor // 2) // divisor

    def coordinate(at: Expression) -> Expression:
        found = at.to(Scalar.INT64) * step
        return found + (step // 2 - ONE // 2) if half_pixel_centers else found

    def first(at: Expression) -> Expression:
        # Before the first element, both neighbours are the first.
        return maximum(coordinate(at) // ONE, 0)

    bodies = (
        lambda at: first(at).to(Scalar.INT32),
        lambda at: (-(-coordinate(at) // ONE)).to(Scalar.INT32),
        lambda at: (coordinate(at) - first(at) * ONE).to(kind),
    )
    before, after, share = (builder.compute((result,), body, is_stored=True) for body in bodies)
    return before, after, share


def _signed(source: Value, at: tuple[Expression, ...], down: Neighbours, across: Neighbours) -> Expression:
    return _rounded(interpolated(source, at, down, across, ONE), source.type)


def _unsigned(source: Value, at: tuple[Expression, ...], down: Neighbours, across: Neighbours) -> Expression:
    """Sums the four neighbours times both weights, in TFLite's order."""
    ends = (down.lower, 1 - down.weight), (down.upper, down.weight)
    sides = (across.lower, 1 - across.weight), (across.upper, across.weight)
    parts = [
        load(source, (at[0], row, column, at[3])).to(Scalar.FLOAT32) * row_weight * column_weight
        for column, column_weight in sides
        for row, row_weight in ends
    ]
    return _rounded(reduce(add, parts), source.type)


def _rounded(total: Expression, kind: Scalar) -> Expression:
    """Rounds a weighted sum of elements of a type."""
    if kind is not Scalar.UINT8:
        # Ties are away from zero. ONE is a power of 2.
        sign = total >> (8 * total.type.size_bytes - 1)
        return ((total + (ONE * ONE // 2) + sign) >> (2 * (ONE.bit_length() - 1))).to(kind)
    rounded = apply(Op.FLOOR, total + 0.5)
    return clamp(rounded, 0.0, float(np.iinfo(np.uint8).max)).to(kind)


LOWERINGS = {
    OperationType.TFLITE_RESIZE_BILINEAR: _bilinear,
    OperationType.TFLITE_RESIZE_NEAREST_NEIGHBOR: lower_nearest,
}
