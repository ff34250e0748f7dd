"""Lowers TFLite's RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, constant, load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.drivers.compiler.lowering.machinery.reduced_axes import divide_rounded
from neurald.drivers.compiler.lowering.movement.resizing import (
    AxisInterpolation,
    interpolated,
    lower_bilinear,
    lower_nearest,
    neighbours_of,
)
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.operations.movement.resizing import neighbours, output_size
from neurald.hal.operations.tflite.movement.resizing import ONE, fixed_point_neighbours


def _bilinear(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers RESIZE_BILINEAR. Signed values use fixed point, unsigned ones FLOAT32."""
    source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
    if source.type.is_float:
        return lower_bilinear(call, builder)
    batches, height, width, channels = source.shape
    size = output_size(call)
    is_unsigned = source.type is Scalar.UINT8
    positions = neighbours if is_unsigned else _fixed_point
    rows, columns = positions(call, height, size[0]), positions(call, width, size[1])
    blend = _unsigned if is_unsigned else _signed

    def body(*at: Expression) -> Expression:
        return blend(builder, source, at, rows, columns)

    result = builder.compute((batches, *size, channels), body)
    return (from_nhwc(builder, result, is_nchw(call)),)


def _fixed_point(call: Call, length: int, result: int) -> AxisInterpolation:
    """Returns source indices with weights in the type of the computation."""
    lower, upper, weight = fixed_point_neighbours(call, length, result)
    return (
        lower,
        upper,
        weight.astype(np.int32 if call.operand("input").type.dtype.itemsize == 1 else np.int64),
    )


def _signed(
    builder: Builder,
    source: Value,
    at: tuple[Expression, ...],
    rows: AxisInterpolation,
    columns: AxisInterpolation,
) -> Expression:
    _, height, width, _ = source.shape
    down, across = (
        neighbours_of(builder, rows, height, at[1]),
        neighbours_of(builder, columns, width, at[2]),
    )
    total = interpolated(source, at, down, across, down.weight.type, ONE)
    return divide_rounded(total, constant(ONE * ONE, total.type)).to(source.type)


def _unsigned(
    builder: Builder,
    source: Value,
    at: tuple[Expression, ...],
    rows: AxisInterpolation,
    columns: AxisInterpolation,
) -> Expression:
    """Sums the four neighbours times both weights, in TFLite's order."""
    _, height, width, _ = source.shape
    down, across = (
        neighbours_of(builder, rows, height, at[1]),
        neighbours_of(builder, columns, width, at[2]),
    )
    ends = (down.lower, 1 - down.weight), (down.upper, down.weight)
    sides = (across.lower, 1 - across.weight), (across.upper, across.weight)
    parts = [
        load(source, (at[0], row, column, at[3])).to(Scalar.FLOAT32) * row_weight * column_weight
        for column, column_weight in sides
        for row, row_weight in ends
    ]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    rounded = apply(Op.FLOOR, total + 0.5)
    return clamp(rounded, 0.0, float(np.iinfo(np.uint8).max)).to(source.type)


LOWERINGS = {
    OperationType.TFLITE_RESIZE_BILINEAR: _bilinear,
    OperationType.TFLITE_RESIZE_NEAREST_NEIGHBOR: lower_nearest,
}
