"""AXIS_ALIGNED_BBOX_TRANSFORM, BOX_WITH_NMS_LIMIT: boxes on images.

A box is [x1, y1, x2, y2], the upper left and the lower right corner. Quantised boxes are in units
of 1/8 pixel.
"""

from enum import IntEnum
from itertools import pairwise

import numpy as np
from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED, is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import real, store
from neurald.hal.operations.detection.suppression import Decay, soft_suppress
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.rules import data_rows
from neurald.hal.operations.machinery.signature import Form, Row, scalar, tensor
from neurald.hal.records import replace

#: Size of one unit of a quantised coordinate, in pixels.
_COORDINATE_SCALE = 0.125


class SuppressionKernel(IntEnum):
    """A way in which BOX_WITH_NMS_LIMIT lowers the scores of boxes that overlap a selected one."""

    HARD = 0
    LINEAR = 1
    GAUSSIAN = 2


def box_rows() -> tuple[Row, ...]:
    """Returns rows with data of type T, boxes of type R and real scalars of type S."""
    return tuple(
        replace(each, types={**each.types, "R": _box_type(each.types["T"])})
        for each in data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_3)
    )


def _box_type(data: OperandType) -> OperandType:
    return OperandType.TENSOR_QUANT16_ASYMM if data in QUANTIZED else data


def coordinate_scale(*names: str) -> Check:
    """Returns a check that the named operands, if quantised, have scale 0.125 and zero point 0."""

    def check(call: Call) -> None:
        for name in names:
            operand = call.operand(name)
            if is_quantized(operand) and (operand.scale, operand.zero_point) != (_COORDINATE_SCALE, 0):
                raise BadData(
                    f"{call.name(name)} has scale {operand.scale:g} and zero point {operand.zero_point}; "
                    f"{_COORDINATE_SCALE:g} and 0 are expected"
                )

    return check


def scores_keep_scale(call: Call) -> None:
    """Checks that quantised scores of the output have the scale and zero point of the input's."""
    output, given = call.operand("scores_out"), call.operand("scores")
    is_same = np.float32(output.scale) == np.float32(given.scale) and output.zero_point == given.zero_point
    if is_quantized(output) and not is_same:
        raise BadData(
            f"{call.name('scores_out')} has scale {output.scale:g} and zero point {output.zero_point}; "
            f"those of scores, {given.scale:g} and {given.zero_point}, are expected"
        )


def positive(*names: str) -> Check:
    """Returns a check that the named scalars are positive and finite."""

    def check(call: Call) -> None:
        for name in names:
            value = call.scalar(name)
            if not 0 < value < np.inf:
                raise BadData(f"{call.name(name)} is {value:g}; it must be positive and finite")

    return check


def expect_shape(call: Call, name: str, expected: Shape, why: str) -> None:
    """Raises BadData unless an input has the expected shape; `why` explains that shape."""
    if call.shape(name) != expected:
        raise BadData(
            f"{call.name(name)} has shape {list(call.shape(name))}; {list(expected)}, {why}, is expected"
        )


def expect_boxes(call: Call, name: str, boxes: Array) -> None:
    """Raises BadData unless the corners of all boxes, (n, 4), are in order."""
    wrong = np.flatnonzero(~(boxes[:, :2] <= boxes[:, 2:]).all(axis=1))
    if wrong.size:
        raise BadData(
            f"{call.name(name)}: box {wrong[0]} is {boxes[wrong[0]].tolist()}; [x1, y1, x2, y2] with x1 <= "
            "x2 "
            "and y1 <= y2 is expected"
        )


def float32(call: Call, name: str) -> Array:
    """Returns an input as float32, dequantised if necessary."""
    return real(call, name).astype(np.float32, copy=False)


def transform(boxes: Array, deltas: Array, height: Array, width: Array) -> Array:
    """Moves and scales boxes, and clips them to their images.

    Args:
        boxes: (..., 4), float32 like all other arguments.
        deltas: (..., 4): [dx, dy, dw, dh], the shift of the centre relative to width and height of
            the box, and the logarithms of the scale factors of width and height.
        height, width: the height and width of the images, (...).

    Returns:
        Boxes of the shape that boxes and deltas broadcast to.
    """
    with np.errstate(all="ignore"):
        sizes = boxes[..., 2:] - boxes[..., :2]
        centers = (boxes[..., :2] + boxes[..., 2:]) / 2 + deltas[..., :2] * sizes
        half_sizes = np.exp(deltas[..., 2:]) * sizes / 2
        edges = np.stack((width, height), axis=-1)
        corners = [np.minimum(np.maximum(c, 0), edges) for c in (centers - half_sizes, centers + half_sizes)]
    return np.concatenate(corners, axis=-1)


def _transform_shape(call: Call) -> tuple[Shape, ...]:
    count = call.shape("boxes")[0]
    expect_shape(call, "boxes", (count, 4), "four coordinates for each box")
    _, columns = call.shape("deltas")
    classes = max(1, columns // 4)
    expect_shape(call, "deltas", (count, 4 * classes), "four deltas for each box and class")
    expect_shape(call, "images", (count,), "one image for each box")
    batches = max(1, call.shape("image_sizes")[0])
    expect_shape(call, "image_sizes", (batches, 2), "height and width of each image")
    return ((count, 4 * classes),)


def expect_images(call: Call, batches: int) -> Array:
    """Returns the image indexes in the input `images`.

    Raises:
        BadData: an index is not below `batches`, the number of images.
    """
    images = call.array("images")
    wrong = np.flatnonzero((images < 0) | (images >= batches))
    if wrong.size:
        raise BadData(
            f"{call.name('images')}: element {wrong[0]} is {images[wrong[0]]}; an image from 0 to {batches - 1} "
            "is expected"
        )
    return images


def _transform(call: Call) -> tuple[Array, ...]:
    (shape,) = _transform_shape(call)
    boxes, deltas, sizes = float32(call, "boxes"), float32(call, "deltas"), float32(call, "image_sizes")
    expect_boxes(call, "boxes", boxes)
    sizes = sizes[expect_images(call, len(sizes))][:, np.newaxis]
    moved = transform(
        boxes[:, np.newaxis], deltas.reshape(len(boxes), shape[1] // 4, 4), sizes[..., 0], sizes[..., 1]
    )
    with np.errstate(all="ignore"):
        return (store(moved.reshape(shape), call.operand("output")),)


class BoxSelection(Struct, frozen=True, kw_only=True):
    """Selected boxes, in order of selection.

    Attributes:
        rows: the number of each box among all boxes.
        classes, scores: the class of each box, and its score.
    """

    rows: Array
    classes: Array
    scores: Array

    @property
    def count(self) -> int:
        """The number of boxes."""
        return len(self.rows)


class BoxSelectionRule(Struct, frozen=True, kw_only=True):
    """The rule by which BOX_WITH_NMS_LIMIT selects boxes.

    Attributes:
        kernel: how the scores of boxes that overlap a selected one are lowered.
        limit: maximum number of boxes of an image; None if there is none.
        score_limit: the score that boxes exceed before they are lowered.
        least: the lowest score to keep after that.
        iou_limit: the overlap from which the kernels HARD and LINEAR lower scores.
        sigma: the sigma of the kernel GAUSSIAN.
    """

    kernel: SuppressionKernel
    limit: int | None
    score_limit: float
    least: float
    iou_limit: float
    sigma: float


def _decay(rule: BoxSelectionRule) -> Decay:
    if rule.kernel is SuppressionKernel.HARD:
        return lambda overlap: np.where(overlap < rule.iou_limit, np.float32(1), np.float32(0))
    if rule.kernel is SuppressionKernel.LINEAR:
        return lambda overlap: np.where(overlap < rule.iou_limit, np.float32(1), 1 - overlap)
    return lambda overlap: np.exp(-overlap * overlap / np.float32(rule.sigma))


def _known_kernel(call: Call) -> None:
    call.scalar_in("kernel", 0, len(SuppressionKernel) - 1)


def box_selection_rule(call: Call) -> BoxSelectionRule:
    """Returns the arguments of BOX_WITH_NMS_LIMIT.

    Raises:
        BadData: the shapes of its inputs do not fit together, or sigma is not positive.
    """
    rois, classes = call.shape("scores")
    if classes < 2:
        raise BadData(
            f"{call.name('scores')} has {classes} classes; at least 2, the background being the first, are "
            "expected"
        )
    expect_shape(call, "boxes", (rois, 4 * classes), "four coordinates for each score")
    expect_shape(call, "images", (rois,), "one image for each row of scores")
    _known_kernel(call)
    rule = BoxSelectionRule(
        kernel=SuppressionKernel(call.scalar("kernel")),
        limit=None if call.scalar("limit") < 0 else call.scalar("limit"),
        score_limit=call.scalar("score_threshold"),
        least=call.scalar("nms_score_threshold"),
        iou_limit=call.scalar("iou_threshold"),
        sigma=call.scalar("sigma"),
    )
    if rule.kernel is SuppressionKernel.GAUSSIAN and not rule.sigma > 0:
        raise BadData(f"{call.name('sigma')} is {rule.sigma:g}; it must be positive")
    return rule


def _select(call: Call) -> BoxSelection:
    rule = box_selection_rule(call)
    boxes = float32(call, "boxes").reshape(*call.shape("scores"), 4)
    expect_boxes(call, "boxes", boxes.reshape(-1, 4))
    return select_boxes(rule, boxes, float32(call, "scores"), call.array("images"))


def select_boxes(rule: BoxSelectionRule, boxes: Array, scores: Array, images: Array) -> BoxSelection:
    """Selects boxes in each image separately; images are runs of equal indexes.

    Args:
        rule: how.
        boxes: float32 (rows, classes, 4).
        scores: float32 (rows, classes), those of the background first.
        images: (rows,).
    """
    bounds = [0, *(np.flatnonzero(images[1:] != images[:-1]) + 1), len(images)]
    parts = [_select_in_image(rule, boxes, scores, slice(start, stop)) for start, stop in pairwise(bounds)]
    return BoxSelection(
        rows=np.concatenate([part.rows for part in parts]),
        classes=np.concatenate([part.classes for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
    )


def _select_in_image(rule: BoxSelectionRule, boxes: Array, every: Array, rows: slice) -> BoxSelection:
    """Selects the best boxes except background, ordered by class and then by score."""
    scores, decay = every[rows], _decay(rule)
    found: list[tuple[Array, Array, Array]] = []
    for index in range(1, scores.shape[1]):
        candidates = np.flatnonzero(scores[:, index] > rule.score_limit)
        kept, lowered = soft_suppress(
            boxes[rows][candidates, index], scores[candidates, index], decay, rule.least, rule.limit
        )
        found.append((candidates[kept] + rows.start, np.full(len(kept), index), lowered))
    chosen, classes, best = (np.concatenate(part) for part in zip(*found, strict=True))
    top = np.argsort(-best, kind="stable")[: rule.limit]
    top = top[np.argsort(classes[top], kind="stable")]
    return BoxSelection(rows=chosen[top], classes=classes[top], scores=best[top])


def _select_shape(call: Call) -> tuple[Shape, ...]:
    count = call.once(_select).count
    return (count,), (count, 4), (count,), (count,)


def _select_reference(call: Call) -> tuple[Array, ...]:
    chosen = call.once(_select)
    rois, classes = call.shape("scores")
    boxes = call.array("boxes").reshape(rois, classes, 4)
    return (
        store(chosen.scores, call.operand("scores_out")),
        boxes[chosen.rows, chosen.classes],
        chosen.classes.astype(np.int32),
        call.array("images")[chosen.rows],
    )


DEFINITIONS = (
    Definition(
        type=OperationType.AXIS_ALIGNED_BBOX_TRANSFORM,
        forms=(
            Form(
                inputs=(
                    tensor("boxes", "R", rank=2),
                    tensor("deltas", rank=2),
                    tensor("images", OperandType.TENSOR_INT32, rank=1),
                    tensor("image_sizes", "R", rank=2),
                ),
                outputs=(tensor("output", "R", rank=2),),
            ),
        ),
        rows=box_rows(),
        checks=(coordinate_scale("boxes", "image_sizes", "output"),),
        shape=_transform_shape,
        reference=_transform,
    ),
    Definition(
        type=OperationType.BOX_WITH_NMS_LIMIT,
        forms=(
            Form(
                inputs=(
                    tensor("scores", rank=2),
                    tensor("boxes", "R", rank=2),
                    tensor("images", OperandType.TENSOR_INT32, rank=1),
                    scalar("score_threshold", "S"),
                    scalar("limit"),
                    scalar("kernel"),
                    scalar("iou_threshold", "S"),
                    scalar("sigma", "S"),
                    scalar("nms_score_threshold", "S"),
                ),
                outputs=(
                    tensor("scores_out", rank=1),
                    tensor("boxes_out", "R", rank=2),
                    tensor("classes_out", OperandType.TENSOR_INT32, rank=1),
                    tensor("images_out", OperandType.TENSOR_INT32, rank=1),
                ),
            ),
        ),
        rows=box_rows(),
        checks=(
            coordinate_scale("boxes", "boxes_out"),
            scores_keep_scale,
            _known_kernel,
        ),
        shape=_select_shape,
        reference=_select_reference,
    ),
)
