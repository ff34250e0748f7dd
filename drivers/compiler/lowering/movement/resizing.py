"""Lowers RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR.

Source coordinates are computed by the references' own functions and stored as constants. If a
length of the image or of the result is not known, they are computed once before the result, in the
same way.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    clamp,
    index,
    load,
    maximum,
    minimum,
)
from neurald.drivers.compiler.ir.extents.extent import estimate, has_extents
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.operations.movement.resizing import flags, nearest_indexes, neighbours, output_size

#: A number for each index along an axis: constants, or a value.
Positions: TypeAlias = Array | Value
#: For each index along an axis: the elements before and after, and the weight of the latter.
AxisInterpolation: TypeAlias = tuple[Positions, Positions, Positions]

#: Longest axis whose indices have 16 bits.
_MAX_SHORT = 1 << 16
#: How many times as wide as the image a result must be for `weighted_rows` to pay.
_MIN_WIDENING = 2


class Neighbours(Struct, frozen=True, kw_only=True):
    """The two image elements that enclose an element of the result along an axis.

    Attributes:
        lower, upper: their indices.
        weight: the weight of the upper one.
    """

    lower: Expression
    upper: Expression
    weight: Expression


def source_index(builder: Builder, positions: Positions, length: int, at: Expression) -> Expression:
    """Returns the index on an axis that a table assigns to an output index."""
    if isinstance(positions, Value):
        return indices_of(builder, positions, length)(at)
    result = len(positions)
    if np.array_equal(positions, np.arange(result) * length // result):
        return (at * length) // result
    return indices_of(builder, positions, length)(at)


def indices_of(builder: Builder, positions: Positions, length: int) -> Callable[[Expression], Expression]:
    """Returns the function that reads indices on an axis of this length from a table."""
    if isinstance(positions, Value):
        return lambda at: clamp(load(positions, (at,)).to(Scalar.INDEX), 0, length - 1)
    # Bounds of an index follow from its type.
    kind = np.uint16 if length <= _MAX_SHORT else np.int32
    table = builder.constant(positions.astype(kind))
    return lambda at: load(table, (at,)).to(Scalar.INDEX)


def neighbours_of(builder: Builder, positions: AxisInterpolation, length: int, at: Expression) -> Neighbours:
    """Returns the neighbours at an output index, on an axis of this length."""
    lower, upper, weight = positions
    return Neighbours(
        lower=source_index(builder, lower, length, at),
        upper=source_index(builder, upper, length, at),
        weight=load(weights_of(builder, weight), (at,)),
    )


def weights_of(builder: Builder, weights: Positions) -> Value:
    """Returns weights as a value."""
    return weights if isinstance(weights, Value) else builder.constant(weights)


def is_open(call: Call, length: int, result: int) -> bool:
    """Returns True if the coordinates along an axis follow from lengths that are not known.

    Corners that are aligned at half pixels need to know whether there is a single element.
    """
    return has_extents((length, result)) and not all(flags(call))


def _centre(call: Call, length: int, result: int, at: Expression) -> Expression:
    """Returns what `coordinates` does for an index."""
    align_corners, half_pixel_centers = flags(call)
    # A single element is at 0, whatever the scale is.
    length, divisor = length - align_corners, maximum(index(result - align_corners), 1)
    # Not all devices round quotients in FLOAT32 as the references do.
    scale = index(length).to(Scalar.FLOAT64) / divisor.to(Scalar.FLOAT64)
    return (at.to(Scalar.FLOAT32) + 0.5 * half_pixel_centers) * scale.to(Scalar.FLOAT32)


def _nearest_positions(call: Call, builder: Builder, length: int, result: int) -> Positions:
    """Returns the index of the nearest element along an axis, see `nearest_indexes`."""
    if not is_open(call, length, result):
        return nearest_indexes(call, length, result)
    rounding = Op.ROUND_AWAY if flags(call)[0] else Op.FLOOR

    def position(at: Expression) -> Expression:
        return apply(rounding, _centre(call, length, result, at)).to(Scalar.INT32)

    return builder.compute((result,), position, is_stored=True)


def neighbour_positions(call: Call, builder: Builder, length: int, result: int) -> AxisInterpolation:
    """Returns the elements before and after, and the weight of the latter; see `neighbours`."""
    if not is_open(call, length, result):
        return neighbours(call, length, result)

    def centre(at: Expression) -> Expression:
        return _centre(call, length, result, at) - 0.5 * flags(call)[1]

    def lower(at: Expression) -> Expression:
        last = index(length - 1).to(Scalar.FLOAT32)
        return minimum(maximum(apply(Op.FLOOR, centre(at)), 0.0), last)

    bodies = (
        lambda at: lower(at).to(Scalar.INT32),
        lambda at: apply(Op.CEIL, centre(at)).to(Scalar.INT32),
        lambda at: centre(at) - lower(at),
    )
    first, second, weight = (builder.compute((result,), body, is_stored=True) for body in bodies)
    return first, second, weight


def interpolated(
    source: Value, at: tuple[Expression, ...], rows: Neighbours, columns: Neighbours, one: int
) -> Expression:
    """Interpolates between four neighbours, along height first; `one` is a weight of 1."""
    batch, row, _, channel = at
    first, second = (
        _along_height(source, (batch, row, column, channel), rows, one)
        for column in (columns.lower, columns.upper)
    )
    return _blended(first, second, columns.weight, one)


def _along_height(source: Value, at: tuple[Expression, ...], rows: Neighbours, one: int) -> Expression:
    """Interpolates along height between the two rows that enclose an element of the result."""
    batch, _, column, channel = at
    first, second = (
        load(source, (batch, row, column, channel)).to(rows.weight.type) for row in (rows.lower, rows.upper)
    )
    return _blended(first, second, rows.weight, one)


def _blended(first: Expression, second: Expression, weight: Expression, one: int) -> Expression:
    """Returns the sum of two neighbours, of which the second one has the weight."""
    return first * (one - weight) + second * weight


def widens(width: int, result: int) -> bool:
    """Returns True if several columns of the result use each element of a row of the image."""
    return estimate(result) >= _MIN_WIDENING * estimate(width)


def weighted_rows(builder: Builder, source: Value, height: int, rows: AxisInterpolation, one: int) -> Value:
    """Returns an image interpolated along height alone, in the type of the weights, and stored.

    The elements of its rows are adjacent, and each is weighted once. `along_width` then gives the
    results of `interpolated`.

    Args:
        builder: receives the image.
        source: the image.
        height: the number of rows of the result.
        rows: the interpolation along the height.
        one: a weight of 1.
    """
    batches, length, width, channels = source.shape

    def body(*at: Expression) -> Expression:
        return _along_height(source, at, neighbours_of(builder, rows, length, at[1]), one)

    return builder.compute((batches, height, width, channels), body, is_stored=True)


def along_width(image: Value, at: tuple[Expression, ...], columns: Neighbours, one: int) -> Expression:
    """Interpolates along width between the two columns that enclose an element of the result."""
    batch, row, _, channel = at
    first, second = (load(image, (batch, row, column, channel)) for column in (columns.lower, columns.upper))
    return _blended(first, second, columns.weight, one)


def lower_nearest(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers RESIZE_NEAREST_NEIGHBOR."""
    source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
    batches, height, width, channels = source.shape
    size = output_size(call)
    rows, columns = (
        _nearest_positions(call, builder, length, result)
        for length, result in zip((height, width), size, strict=True)
    )

    def body(n: Expression, y: Expression, x: Expression, c: Expression) -> Expression:
        return load(
            source, (n, source_index(builder, rows, height, y), source_index(builder, columns, width, x), c)
        )

    result = builder.compute((batches, *size, channels), body)
    return (from_nhwc(builder, result, is_nchw(call)),)


def lower_bilinear(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers RESIZE_BILINEAR in FLOAT32; quantised results round ties away from zero."""
    source, output = to_nhwc(builder, builder.value(call, "input"), is_nchw(call)), call.operand("output")
    batches, height, width, channels = source.shape
    size = output_size(call)
    rows, columns = (
        neighbour_positions(call, builder, length, result)
        for length, result in zip((height, width), size, strict=True)
    )

    is_widened = widens(width, size[1])
    image = weighted_rows(builder, source, size[0], rows, 1) if is_widened else source

    def body(*at: Expression) -> Expression:
        across = neighbours_of(builder, columns, width, at[2])
        if is_widened:
            value = along_width(image, at, across, 1)
        else:
            down = neighbours_of(builder, rows, height, at[1])
            value = interpolated(source, at, down, across, 1)
        if not is_quantized(output):
            return value.to(source.type)
        low, high = map(float, quantized_limits(output))
        return clamp(apply(Op.ROUND_AWAY, value), low, high).to(source.type)

    result = builder.compute((batches, *size, channels), body)
    return (from_nhwc(builder, result, is_nchw(call)),)


LOWERINGS = {
    OperationType.RESIZE_BILINEAR: lower_bilinear,
    OperationType.RESIZE_NEAREST_NEIGHBOR: lower_nearest,
}
