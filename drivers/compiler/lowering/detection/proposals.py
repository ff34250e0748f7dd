"""Lowers GENERATE_PROPOSALS and HEATMAP_MAX_KEYPOINT."""

import numpy as np

from neurald.drivers.compiler.ir.algorithm import GreedySelection
from neurald.drivers.compiler.ir.builder import Builder, Limit, Unsupported
from neurald.drivers.compiler.ir.expression import (
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
    select,
)
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real, store
from neurald.drivers.compiler.lowering.detection.boxes import OUT_OF_ORDER, moved_corner
from neurald.drivers.compiler.lowering.machinery.layout import to_nhwc
from neurald.drivers.compiler.lowering.machinery.table import BoundedLowerings, BoundedValue
from neurald.drivers.compiler.lowering.reduction.arg_reduce import extreme_indices
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.detection.proposals import (
    MAX_KEYPOINT_OFFSET,
    flatness_tolerance,
    require_proposal_shapes,
)
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw

#: Components of a refined keypoint: offsets right and down of the maximum, and the score.
_RIGHT, _DOWN, _SCORE = range(3)

#: Number of ranks that FLOAT32 represents.
_MAX_RANKS = 1 << 24


def _moved(call: Call, builder: Builder) -> Value:
    """Returns the boxes of all proposals, FLOAT32 (images, height × width × anchors, 4)."""
    deltas = to_nhwc(builder, builder.value(call, "deltas"), is_nchw(call))
    anchors, sizes = builder.value(call, "anchors"), builder.value(call, "image_sizes")
    images, height, width, _ = deltas.shape
    (count, _), operand = anchors.shape, call.operand("anchors")
    strides = [float(np.float32(call.scalar(name))) for name in ("width_stride", "height_stride")]

    def place(number: Expression) -> tuple[Expression, Expression, Expression]:
        return number // (width * count), number // count % width, number % count

    def body(image: Expression, number: Expression, column: Expression) -> Expression:
        row, across, anchor = place(number)

        def corner(at: Expression) -> Expression:
            shifts = [each.to(Scalar.FLOAT32) * by for each, by in zip((across, row), strides, strict=True)]
            return real(load(anchors, (anchor, at)), operand) + select((at % 2).equals(0), *shifts)

        return moved_corner(
            column,
            corner,
            lambda at: real(load(deltas, (image, row, across, anchor * 4 + at)), call.operand("deltas")),
            lambda at: real(load(sizes, (image, 1 - at)), call.operand("image_sizes")),
        )

    def in_order(image: Expression, number: Expression, column: Expression) -> list[tuple[Expression, str]]:
        *_, anchor = place(number)
        start, end = (real(load(anchors, (anchor, column % 2 + each)), operand) for each in (0, 2))
        return [(start <= end, OUT_OF_ORDER)]

    return builder.compute((images, height * width * count, 4), body, in_order)


def _sort_key(score: Expression) -> Expression:
    """Returns an INT32 of the order of a FLOAT32, with NaN below all numbers."""
    bits = apply(Op.REINTERPRET, score, type=Scalar.INT32)
    key = select(bits < 0, bits ^ 0x7FFF_FFFF, bits)
    key = select(score.equals(0.0), constant(0, Scalar.INT32), key)
    return select(apply(Op.IS_NAN, score), constant(-(1 << 31), Scalar.INT32), key)


def _proposals(call: Call, builder: Builder) -> tuple[BoundedValue, ...]:
    """Lowers GENERATE_PROPOSALS: ranks the boxes of each image, and selects from them."""
    require_proposal_shapes(call)
    boxes, given = _moved(call, builder), to_nhwc(builder, builder.value(call, "scores"), is_nchw(call))
    images, count, _ = boxes.shape
    before, after = call.scalar("limit_before"), call.scalar("limit_after")
    ranks = before if 0 < before < count else count
    if not images * count or ranks > _MAX_RANKS:
        raise Unsupported(f"{ranks} proposals of {images} images are not supported")
    scores = builder.reshape(given, (images, count))

    def score(image: Expression, number: Expression) -> Expression:
        return real(load(scores, (image, number)), call.operand("scores"))

    keys = builder.compute((images, count), lambda *at: _sort_key(score(*at)))
    tops = builder.top_k(keys, ranks, prefers_lower_index=True)

    def ranked(image: Expression, rank: Expression) -> Expression:
        return clamp(load(tops, (image, rank)).to(Scalar.INDEX), 0, count - 1)

    corners = builder.compute(
        (images, ranks, 4), lambda image, rank, column: load(boxes, (image, ranked(image, rank), column))
    )
    sizes, least = builder.value(call, "image_sizes"), float(np.float32(call.scalar("min_size")))

    def preference(image: Expression, rank: Expression) -> Expression:
        """Returns a number that is smaller for later ranks, NaN for boxes that do not fit."""
        fits: Expression = constant(True, Scalar.BOOL)
        for side in (0, 1):
            start, end = (load(corners, (image, rank, index(side + each))) for each in (0, 2))
            edge = real(load(sizes, (image, index(1 - side))), call.operand("image_sizes"))
            extent = end - start
            fits = fits & (constant(least, Scalar.FLOAT32) < extent) & (start + extent / 2.0 < edge)
        return select(fits, -rank.to(Scalar.FLOAT32), constant(float("nan"), Scalar.FLOAT32))

    limit = min(after, ranks) if after > 0 else ranks
    selection = GreedySelection(
        limit=limit, iou_limit=float(np.float32(call.scalar("iou_threshold"))), includes_limit=True
    )
    found = builder.procedure(
        selection, corners, builder.compute((images, ranks), preference), output=(images, limit + 1)
    )

    def end_of(image: Expression) -> Expression:
        """Returns how many proposals there are up to an image."""
        along = axis(images, "i")
        own = load(found, (along, index(limit)))
        return reduce(ReductionOp.SUM, (along,), select(along <= image, own, constant(0, Scalar.INT32)))

    ends = builder.compute((images,), end_of)

    def image_of(slot: Expression) -> Expression:
        along = axis(images, "i")
        is_past = load(ends, (along,)).to(Scalar.INDEX) <= slot
        passed = select(is_past, constant(1, Scalar.INT32), constant(0, Scalar.INT32))
        return reduce(ReductionOp.SUM, (along,), passed)

    bound = images * limit
    owners = builder.compute((bound,), image_of)

    def parts(slot: Expression) -> tuple[Expression, Expression]:
        """Returns the image and the number of a result's proposal."""
        image = clamp(load(owners, (slot,)).to(Scalar.INDEX), 0, images - 1)
        begin = load(ends, (image,)) - load(found, (image, index(limit)))
        rank = load(found, (image, clamp(slot - begin.to(Scalar.INDEX), 0, limit - 1))).to(Scalar.INDEX)
        return image, ranked(image, clamp(rank, 0, ranks - 1))

    # Before the results, whose computation is limited by it.
    total = builder.compute((), lambda: load(ends, (index(images - 1),)))
    rows = Limit(dimension=0, bound=bound, count=total)
    output, corner = call.operand("scores_out"), call.operand("boxes_out")
    return (
        BoundedValue(
            value=builder.compute((bound,), lambda slot: store(score(*parts(slot)), output)), limit=rows
        ),
        BoundedValue(
            value=builder.compute(
                (bound, 4), lambda slot, column: store(load(boxes, (*parts(slot), column)), corner)
            ),
            limit=rows,
        ),
        BoundedValue(
            value=builder.compute((bound,), lambda slot: minimum(load(owners, (slot,)), images - 1)),
            limit=rows,
        ),
    )


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
BOUNDED_LOWERINGS: BoundedLowerings = {OperationType.GENERATE_PROPOSALS: _proposals}
