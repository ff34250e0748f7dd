"""GENERATE_PROPOSALS, HEATMAP_MAX_KEYPOINT: regions from score maps."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import store
from neurald.hal.operations.detection.boxes import (
    box_rows,
    coordinate_scale,
    expect_boxes,
    expect_shape,
    float32,
    positive,
    scores_keep_scale,
    transform,
)
from neurald.hal.operations.detection.suppression import suppress
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.layout import is_nchw, shape_from_nhwc, shape_to_nhwc, to_nhwc
from neurald.hal.operations.machinery.signature import Form, Row, scalar, tensor
from neurald.hal.records import replace

_NCHW = scalar("nchw", OperandType.BOOL, level=FeatureLevel.LEVEL_3)

#: Maximum distance of a keypoint from the element with the highest score, in elements.
MAX_KEYPOINT_OFFSET = np.float32(1.5)


def _proposal_rows() -> tuple[Row, ...]:
    """Extends `box_rows` by the type A of anchors, which are signed if quantised."""
    return tuple(
        replace(each, types={**each.types, "A": _anchor_type(each.types["R"])}) for each in box_rows()
    )


def _anchor_type(boxes: OperandType) -> OperandType:
    return OperandType.TENSOR_QUANT16_SYMM if boxes in QUANTIZED else boxes


def _map_shape(call: Call, name: str) -> Shape:
    """Returns the NHWC shape of an input."""
    shape = call.shape(name)
    return shape_to_nhwc(shape) if is_nchw(call) else shape


def _map(call: Call, name: str) -> Array:
    """Returns an input as NHWC float32."""
    values = float32(call, name)
    return to_nhwc(values) if is_nchw(call) else values


def require_proposal_shapes(call: Call) -> None:
    """Raises BadData unless the shapes of the inputs of GENERATE_PROPOSALS fit together."""
    batches, height, width, anchors = _map_shape(call, "scores")
    deltas: Shape = (batches, height, width, 4 * anchors)
    deltas = shape_from_nhwc(deltas) if is_nchw(call) else deltas
    expect_shape(call, "deltas", deltas, "four deltas for each score")
    expect_shape(call, "anchors", (anchors, 4), "four coordinates for each anchor")
    expect_shape(call, "image_sizes", (batches, 2), "height and width of each image")


def _generate(call: Call) -> tuple[Array, Array, Array]:
    """Computes the scores, boxes and images of all proposals, image by image."""
    require_proposal_shapes(call)
    batches, height, width, anchors = _map_shape(call, "scores")
    shapes, sizes = float32(call, "anchors"), float32(call, "image_sizes")
    expect_boxes(call, "anchors", shapes)
    rows = np.arange(height, dtype=np.float32) * np.float32(call.scalar("height_stride"))
    columns = np.arange(width, dtype=np.float32) * np.float32(call.scalar("width_stride"))
    x, y = np.meshgrid(columns, rows)
    boxes = shapes + np.stack((x, y, x, y), axis=-1)[:, :, np.newaxis]
    scores = _map(call, "scores").reshape(batches, height * width * anchors)
    moves = _map(call, "deltas").reshape(batches, height, width, anchors, 4)
    found: list[tuple[Array, Array, Array]] = [
        (np.empty(0, np.float32), np.empty((0, 4), np.float32), np.empty(0, np.int32))
    ]
    for image, size in enumerate(sizes):
        moved = transform(boxes, moves[image], size[0], size[1]).reshape(-1, 4)
        kept = _selected_proposals(call, moved, scores[image], size)
        found.append((scores[image, kept], moved[kept], np.full(len(kept), image, np.int32)))
    scores_out, boxes_out, images = (np.concatenate(part) for part in zip(*found, strict=True))
    return scores_out, boxes_out, images


def _selected_proposals(call: Call, boxes: Array, scores: Array, size: Array) -> Array:
    """Selects the proposals of one image.

    The best, large enough, centred inside, without overlap.
    """
    before, after = call.scalar("limit_before"), call.scalar("limit_after")
    candidates = np.arange(len(scores))
    if 0 < before < len(scores):
        candidates = np.argsort(-scores, kind="stable")[:before]
    corners = boxes[candidates]
    with np.errstate(all="ignore"):
        extents = corners[:, 2:] - corners[:, :2]
        centers = corners[:, :2] + extents / 2
    fits = (extents > call.scalar("min_size")) & (centers < size[::-1])
    candidates = candidates[fits.all(axis=1)]
    limit = after if after > 0 else None
    kept: Array = candidates[
        suppress(boxes[candidates], scores[candidates], call.scalar("iou_threshold"), limit)
    ]
    return kept


def _generate_shape(call: Call) -> tuple[Shape, ...]:
    count = len(call.once(_generate)[0])
    return (count,), (count, 4), (count,)


def _generate_reference(call: Call) -> tuple[Array, ...]:
    scores, boxes, images = call.once(_generate)
    return store(scores, call.operand("scores_out")), store(boxes, call.operand("boxes_out")), images


def _keypoint_shape(call: Call) -> tuple[Shape, ...]:
    boxes, height, width, keypoints = _map_shape(call, "heatmap")
    if height != width or height < 2:
        raise BadData(
            f"{call.name('heatmap')} has height {height} and width {width}; the same, at least 2, is expected"
        )
    expect_shape(call, "boxes", (boxes, 4), "four coordinates for each heatmap")
    return (boxes, keypoints), (boxes, keypoints, 2)


def _neighbourhood(heatmaps: Array, row: Array, column: Array) -> Array:
    """Returns the 3 × 3 elements around a position of each map, mirrored at the edges.

    Args:
        heatmaps: (boxes, keypoints, size, size).
        row, column: (boxes, keypoints).

    Returns:
        (3, 3, boxes, keypoints), rows first.
    """
    size = heatmaps.shape[-1]
    boxes, keypoints = np.ogrid[: heatmaps.shape[0], : heatmaps.shape[1]]

    def mirrored(index: Array) -> Array:
        return np.where(index < 0, 1, np.where(index >= size, size - 2, index))

    steps = (-1, 0, 1)
    return np.array(
        [
            [heatmaps[boxes, keypoints, mirrored(row + down), mirrored(column + right)] for right in steps]
            for down in steps
        ]
    )


def _refine(around: Array, tolerance: np.float32) -> tuple[Array, Array, Array]:
    """Finds the maximum of the quadratic through 3 × 3 elements.

    Its offset right and down, and its value.

    Args:
        around: see `_neighbourhood`.
        tolerance: the centre is used if the quadratic is flatter than this.
    """
    center = around[1, 1]
    slope_x, slope_y = (around[1, 2] - around[1, 0]) / 2, (around[2, 1] - around[0, 1]) / 2
    xx = around[1, 0] - 2 * center + around[1, 2]
    yy = around[0, 1] - 2 * center + around[2, 1]
    xy = (around[2, 2] - around[2, 0] - around[0, 2] + around[0, 0]) / 4
    determinant = xx * yy - xy * xy
    is_flat = np.abs(determinant) < tolerance + tolerance * (xx * yy)
    determinant = np.where(is_flat, np.float32(1), determinant)
    right, down = (xy * slope_y - yy * slope_x) / determinant, (xy * slope_x - xx * slope_y) / determinant
    longest = np.maximum(np.abs(right), np.abs(down))
    cut = np.where(longest > MAX_KEYPOINT_OFFSET, MAX_KEYPOINT_OFFSET / longest, np.float32(1))
    right, down = (np.where(is_flat, np.float32(0), way * cut) for way in (right, down))
    curve = (xx * right + xy * down) * right + (xy * right + yy * down) * down
    return right, down, center + slope_x * right + slope_y * down + curve / 2


def flatness_tolerance(call: Call) -> np.float32:
    """Returns the flatness tolerance for a heatmap's quadratics."""
    is_half = call.operand("heatmap").type is OperandType.TENSOR_FLOAT16
    return np.float32(1e-3 if is_half else 1e-5)


def _keypoint(call: Call) -> tuple[Array, ...]:
    (count, keypoints), _ = _keypoint_shape(call)
    boxes = float32(call, "boxes")
    expect_boxes(call, "boxes", boxes)
    heatmaps = np.moveaxis(_map(call, "heatmap"), 3, 1)
    size = heatmaps.shape[-1]
    highest = heatmaps.reshape(count, keypoints, size * size).argmax(axis=-1)
    row, column = highest // size, highest % size
    with np.errstate(all="ignore"):
        around = _neighbourhood(heatmaps, row, column)
        right, down, scores = _refine(around, flatness_tolerance(call))
        ways = np.stack((column + right, row + down), axis=-1).astype(np.float32)
        fractions = (ways + np.float32(0.5)) / np.float32(size)
        corners, extents = boxes[:, np.newaxis, :2], (boxes[:, 2:] - boxes[:, :2])[:, np.newaxis]
        points = fractions * extents + corners
        return store(scores, call.operand("scores_out")), store(points, call.operand("keypoints_out"))


DEFINITIONS = (
    Definition(
        type=OperationType.GENERATE_PROPOSALS,
        forms=(
            Form(
                inputs=(
                    tensor("scores", rank=4),
                    tensor("deltas", rank=4),
                    tensor("anchors", "A", rank=2),
                    tensor("image_sizes", "R", rank=2),
                    scalar("height_stride", "S"),
                    scalar("width_stride", "S"),
                    scalar("limit_before"),
                    scalar("limit_after"),
                    scalar("iou_threshold", "S"),
                    scalar("min_size", "S"),
                    _NCHW,
                ),
                outputs=(
                    tensor("scores_out", rank=1),
                    tensor("boxes_out", "R", rank=2),
                    tensor("images_out", OperandType.TENSOR_INT32, rank=1),
                ),
            ),
        ),
        rows=_proposal_rows(),
        checks=(
            coordinate_scale("anchors", "image_sizes", "boxes_out"),
            scores_keep_scale,
            positive("height_stride", "width_stride"),
        ),
        shape=_generate_shape,
        reference=_generate_reference,
    ),
    Definition(
        type=OperationType.HEATMAP_MAX_KEYPOINT,
        forms=(
            Form(
                inputs=(tensor("heatmap", rank=4), tensor("boxes", "R", rank=2), _NCHW),
                outputs=(tensor("scores_out", rank=2), tensor("keypoints_out", "R", rank=3)),
            ),
        ),
        rows=box_rows(),
        checks=(coordinate_scale("boxes", "keypoints_out"),),
        shape=_keypoint_shape,
        reference=_keypoint,
    ),
)
