"""Lowers RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR.

Source coordinates are computed by the references' own functions and stored as constants.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.operations.movement.resizing import nearest_indexes, neighbours, output_size

#: For each index along an axis: the elements before and after, and the weight of the latter.
AxisInterpolation = tuple[Array, Array, Array]

#: Longest axis whose indices have 16 bits.
_MAX_SHORT = 1 << 16


class Neighbours(Struct, frozen=True, kw_only=True):
    """The two image elements that enclose an element of the result along an axis.

    Attributes:
        lower, upper: their indices.
        weight: of the upper one.
    """

    lower: Expression
    upper: Expression
    weight: Expression


def source_index(builder: Builder, positions: Array, length: int, at: Expression) -> Expression:
    """Returns the index on an axis that a constant table assigns to an output index."""
    result = len(positions)
    if np.array_equal(positions, np.arange(result) * length // result):
        return (at * length) // result
    return indices_of(builder, positions, length)(at)


def indices_of(builder: Builder, positions: Array, length: int) -> Callable[[Expression], Expression]:
    """Returns the function that reads indices on an axis of this length from a constant table."""
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
        weight=load(builder.constant(weight), (at,)),
    )


def interpolated(
    source: Value, at: tuple[Expression, ...], rows: Neighbours, columns: Neighbours, kind: Scalar, one: int
) -> Expression:
    """Interpolates between four neighbours, along height first; `one` is a weight of 1."""
    batch, _, _, channel = at

    def along_height(column: Expression) -> Expression:
        first, second = (
            load(source, (batch, row, column, channel)).to(kind) for row in (rows.lower, rows.upper)
        )
        return first * (one - rows.weight) + second * rows.weight

    return along_height(columns.lower) * (one - columns.weight) + along_height(columns.upper) * columns.weight


def lower_nearest(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers RESIZE_NEAREST_NEIGHBOR."""
    source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
    batches, height, width, channels = source.shape
    size = output_size(call)
    rows, columns = nearest_indexes(call, height, size[0]), nearest_indexes(call, width, size[1])

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
    rows, columns = neighbours(call, height, size[0]), neighbours(call, width, size[1])

    def body(*at: Expression) -> Expression:
        value = interpolated(
            source,
            at,
            neighbours_of(builder, rows, height, at[1]),
            neighbours_of(builder, columns, width, at[2]),
            Scalar.FLOAT32,
            1,
        )
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
