"""DETECTION_POSTPROCESS.

Selects the best detections of an image from encoded boxes and class scores.

It is TFLite's custom operator. Android's DETECTION_POSTPROCESSING is similar, but differs in
threshold comparisons and rounding.
"""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import real
from neurald.hal.operations.detection.boxes import expect_shape, positive
from neurald.hal.operations.detection.suppression import overlaps, select_compatible
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, Parameter, row, scalar, tensor

_SCALES = ("scale_y", "scale_x", "scale_height", "scale_width")
_INPUT_TYPES = frozenset((OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM))

_FORM = Form(
    inputs=(
        Parameter(name="boxes", types=_INPUT_TYPES, ranks=(3, 3)),
        Parameter(name="scores", types=_INPUT_TYPES, ranks=(3, 3)),
        Parameter(name="anchors", types=_INPUT_TYPES, ranks=(2, 2)),
        scalar("detections"),
        scalar("classes_per_detection"),
        scalar("detections_per_class"),
        scalar("classes"),
        scalar("per_class", OperandType.BOOL),
        scalar("score_threshold", OperandType.FLOAT32),
        scalar("iou_threshold", OperandType.FLOAT32),
        *(scalar(name, OperandType.FLOAT32) for name in _SCALES),
    ),
    outputs=(
        tensor("boxes_out", OperandType.TENSOR_FLOAT32, rank=3),
        tensor("classes_out", OperandType.TENSOR_FLOAT32, rank=2),
        tensor("scores_out", OperandType.TENSOR_FLOAT32, rank=2),
        tensor("count_out", OperandType.TENSOR_FLOAT32, rank=1),
    ),
)


def _limits(call: Call) -> None:
    """Checks all limits and the IoU threshold."""
    for name in ("detections", "classes_per_detection", "classes"):
        call.scalar_in(name, 1)
    # LiteRT ignores it otherwise, and files have 0 there.
    if call.scalar("per_class"):
        call.scalar_in("detections_per_class", 1)
    threshold = call.scalar("iou_threshold")
    if not 0 < threshold <= 1:
        raise BadData(f"{call.name('iou_threshold')} is {threshold:g}; more than 0 and at most 1 is expected")


def _shape(call: Call) -> tuple[Shape, ...]:
    images, anchors, columns = call.shape("scores")
    if images != 1:
        raise BadData(f"{call.name('scores')} has {images} images; 1 is expected")
    length = max(4, call.shape("boxes")[2])
    expect_shape(call, "boxes", (1, anchors, length), "at least four numbers for each anchor")
    expect_shape(call, "anchors", (anchors, 4), "four numbers for each anchor")
    _limits(call)
    classes = call.scalar("classes")
    if columns - classes not in (0, 1):
        raise BadData(
            f"{call.name('scores')} has {columns} classes; {classes}, or one more for the background, are "
            "expected"
        )
    count = call.scalar("detections") * call.scalar("classes_per_detection")
    return (1, count, 4), (1, count), (1, count), (1,)


def _boxes(call: Call) -> Array:
    """Decodes the boxes, (anchors, 4): [y1, x1, y2, x2]."""
    codes = real(call, "boxes")[0].astype(np.float64)
    anchors = real(call, "anchors").astype(np.float64)
    scales = np.array([np.float32(call.scalar(name)) for name in _SCALES], np.float64)
    with np.errstate(all="ignore"):
        centers = (codes[:, :2] / scales[:2] * anchors[:, 2:] + anchors[:, :2]).astype(np.float32)
        half_sizes = (0.5 * np.exp(codes[:, 2:4] / scales[2:]) * anchors[:, 2:]).astype(np.float32)
        return np.concatenate((centers - half_sizes, centers + half_sizes), axis=1)


def _suppress(call: Call, boxes: Array, scores: Array, limit: int) -> Array:
    """Returns the anchors, best first, that overlap no better one by more than the threshold."""
    candidates = np.flatnonzero(scores >= np.float32(call.scalar("score_threshold")))
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    return select_apart(boxes, order, np.float32(call.scalar("iou_threshold")), limit)


def select_apart(boxes: Array, order: Array, threshold: np.float32, limit: int) -> Array:
    """Keeps each box, in this order, that overlaps no kept one by more than the threshold."""
    return select_compatible(
        order, limit, lambda best, others: ~(_overlaps(boxes[best], boxes[others]) > threshold)
    )


def _overlaps(box: Array, others: Array) -> Array:
    """Returns `overlaps`, except that a box without a positive area overlaps none."""
    with np.errstate(all="ignore"):
        areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
        area = (box[2] - box[0]) * (box[3] - box[1])
    return np.where((areas > 0) & (area > 0), overlaps(box, others), np.float32(0))


def _by_class(call: Call, boxes: Array, scores: Array) -> tuple[Array, Array]:
    """Suppresses boxes in each class separately; returns anchors and classes of the best."""
    limit = call.scalar("detections_per_class")
    kept = [_suppress(call, boxes, column, limit) for column in scores.T]
    anchors = np.concatenate(kept)
    classes = np.repeat(np.arange(scores.shape[1]), [len(chosen) for chosen in kept])
    top = np.argsort(-scores[anchors, classes], kind="stable")[: call.scalar("detections")]
    return anchors[top], classes[top]


def _by_anchor(call: Call, boxes: Array, scores: Array) -> tuple[Array, Array]:
    """Suppresses boxes by each anchor's best score.

    Returns anchors and their best classes, (kept, classes).
    """
    kept = _suppress(call, boxes, scores.max(axis=1), call.scalar("detections"))
    count = min(scores.shape[1], call.scalar("classes_per_detection"))
    classes = np.argsort(-scores[kept], axis=1, kind="stable")[:, :count]
    return np.broadcast_to(kept[:, np.newaxis], classes.shape), classes


def _reference(call: Call) -> tuple[Array, ...]:
    boxes_out, classes_out, scores_out, count_out = (np.zeros(shape, np.float32) for shape in _shape(call))
    # A column before the last `classes` columns is the background.
    scores, boxes = real(call, "scores")[0][:, -call.scalar("classes") :], _boxes(call)
    if call.scalar("per_class"):
        anchors, classes = _by_class(call, boxes, scores)
        slots = np.arange(len(anchors))
    else:
        anchors, classes = _by_anchor(call, boxes, scores)
        width = call.scalar("classes_per_detection")
        slots = np.arange(len(anchors))[:, np.newaxis] * width + np.arange(anchors.shape[1])
    boxes_out[0, slots] = boxes[anchors]
    classes_out[0, slots] = classes
    scores_out[0, slots] = scores[anchors, classes]
    count_out[0] = len(anchors)
    return boxes_out, classes_out, scores_out, count_out


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_DETECTION_POSTPROCESS,
        forms=(_FORM,),
        rows=(row(FeatureLevel.LEVEL_1),),
        checks=(positive(*_SCALES), _limits),
        shape=_shape,
        reference=_reference,
    ),
)
