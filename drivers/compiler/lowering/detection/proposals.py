"""Lowers HEATMAP_MAX_KEYPOINT."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    clamp,
    constant,
    index,
    load,
    maximum,
    select,
)
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real, store
from neurald.drivers.compiler.lowering.detection.boxes import OUT_OF_ORDER
from neurald.drivers.compiler.lowering.machinery.layout import to_nhwc
from neurald.drivers.compiler.lowering.reduction.arg_reduce import extreme_indices
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.detection.proposals import MAX_KEYPOINT_OFFSET, flatness_tolerance
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw

#: Components of a refined keypoint: offsets right and down of the maximum, and the score.
_RIGHT, _DOWN, _SCORE = range(3)


def _keypoint(call: Call, builder: Builder) -> tuple[Value, ...]:
    heatmap = to_nhwc(builder, builder.value(call, "heatmap"), is_nchw(call))
    count, size, _, keypoints = heatmap.shape
    operand, boxes = call.operand("heatmap"), builder.value(call, "boxes")
    box_operand, points = call.operand("boxes"), call.operand("keypoints_out")
    maps = builder.reshape(heatmap, (count, size * size, keypoints))
    highest = extreme_indices(builder, maps, 1, ReductionOp.MAXIMUM, (count, keypoints))

    def refined(n: Expression, k: Expression, what: Expression) -> Expression:
        coordinate = clamp(load(highest, (n, k)).to(Scalar.INDEX), 0, size * size - 1)

        def element(down: int, right: int) -> Expression:
            row, column = (
                _mirrored(coordinate // size + down, size),
                _mirrored(coordinate % size + right, size),
            )
            return real(load(heatmap, (n, row, column, k)), operand)

        parts = _refine(
            [[element(y, x) for x in (-1, 0, 1)] for y in (-1, 0, 1)], float(flatness_tolerance(call))
        )
        return select(
            what.equals(_SCORE), parts[_SCORE], select(what.equals(_DOWN), parts[_DOWN], parts[_RIGHT])
        )

    refinements = builder.compute((count, keypoints, 3), refined)

    def corner(n: Expression, which: Expression) -> Expression:
        return real(load(boxes, (n, which)), box_operand)

    def score(n: Expression, k: Expression) -> Expression:
        return store(load(refinements, (n, k, index(_SCORE))), call.operand("scores_out"))

    def point(n: Expression, k: Expression, axis: Expression) -> Expression:
        # Axis 0 is along columns, axis 1 along rows.
        highest_index = load(highest, (n, k)).to(Scalar.INDEX)
        coordinate = select(axis.equals(0), highest_index % size, highest_index // size)
        way = coordinate.to(Scalar.FLOAT32) + load(refinements, (n, k, axis))
        extent = corner(n, axis + 2) - corner(n, axis)
        return store((way + 0.5) / float(size) * extent + corner(n, axis), points)

    def in_order(n: Expression, k: Expression, axis: Expression) -> list[tuple[Expression, str]]:
        return [(corner(n, axis) <= corner(n, axis + 2), OUT_OF_ORDER)]

    return (
        builder.compute((count, keypoints), score),
        builder.compute((count, keypoints, 2), point, in_order),
    )


def _mirrored(coordinate: Expression, size: int) -> Expression:
    """Mirrors an index that lies up to one element outside the map."""
    return select(coordinate < 0, index(1), select(coordinate >= size, index(size - 2), coordinate))


def _refine(around: list[list[Expression]], tolerance: float) -> tuple[Expression, Expression, Expression]:
    """Returns the maximum of the quadratic through 3 × 3 elements.

    See `neurald.hal.operations.detection.proposals`.
    """
    center = around[1][1]
    slope_x, slope_y = (around[1][2] - around[1][0]) / 2, (around[2][1] - around[0][1]) / 2
    xx = around[1][0] - center * 2 + around[1][2]
    yy = around[0][1] - center * 2 + around[2][1]
    xy = (around[2][2] - around[2][0] - around[0][2] + around[0][0]) / 4
    determinant = xx * yy - xy * xy
    is_flat = apply(Op.ABSOLUTE, determinant) < xx * yy * tolerance + tolerance
    divisor = select(is_flat, 1.0, determinant)
    right, down = (xy * slope_y - yy * slope_x) / divisor, (xy * slope_x - xx * slope_y) / divisor
    longest = maximum(apply(Op.ABSOLUTE, right), apply(Op.ABSOLUTE, down))
    farthest = constant(float(MAX_KEYPOINT_OFFSET), Scalar.FLOAT32)
    cut = select(longest > farthest, farthest / longest, 1.0)
    right, down = select(is_flat, 0.0, right * cut), select(is_flat, 0.0, down * cut)
    curve = (xx * right + xy * down) * right + (xy * right + yy * down) * down
    return right, down, center + slope_x * right + slope_y * down + curve / 2


LOWERINGS = {OperationType.HEATMAP_MAX_KEYPOINT: _keypoint}
