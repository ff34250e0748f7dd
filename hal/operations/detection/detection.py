"""DETECTION_POSTPROCESSING.

Converts scores and anchor deltas to a fixed number of detections per image.
"""

import numpy as np
from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.detection.boxes import expect_shape, float32, positive
from neurald.hal.operations.detection.suppression import suppress
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows
from neurald.hal.operations.machinery.signature import Form, scalar, tensor

_SCALES = ("scale_y", "scale_x", "scale_height", "scale_width")
_THRESHOLDS = ("score_threshold", "iou_threshold")

_FORM = Form(
    inputs=(
        tensor("scores", rank=3),
        tensor("deltas", rank=3),
        tensor("anchors", rank=2),
        *(scalar(name, "S") for name in _SCALES),
        scalar("per_class", OperandType.BOOL),
        scalar("detections"),
        scalar("classes_per_detection"),
        scalar("detections_per_class"),
        *(scalar(name, "S") for name in _THRESHOLDS),
        scalar("background", OperandType.BOOL),
    ),
    outputs=(
        tensor("scores_out", rank=2),
        tensor("boxes_out", rank=3),
        tensor("classes_out", OperandType.TENSOR_INT32, rank=2),
        tensor("counts_out", OperandType.TENSOR_INT32, rank=1),
    ),
)


class _Detections(Struct, frozen=True, kw_only=True):
    """The detections of one image: anchor index, class (0 is the background) and score of each."""

    anchors: Array
    classes: Array
    scores: Array


def _thresholds(call: Call) -> None:
    for name in _THRESHOLDS:
        if not call.scalar(name) >= 0:
            raise BadData(f"{call.name(name)} is {call.scalar(name):g}; it must be at least 0")


def _limits(call: Call) -> None:
    """Checks the number of detections, and the limit that belongs to the chosen algorithm."""
    call.scalar_in("detections", 1)
    call.scalar_in("detections_per_class" if call.scalar("per_class") else "classes_per_detection", 1)


def _shape(call: Call) -> tuple[Shape, ...]:
    batches, anchors, classes = call.shape("scores")
    if classes < 2:
        raise BadData(
            f"{call.name('scores')} has {classes} classes; at least 2, the background being the first, are "
            "expected"
        )
    length = max(4, call.shape("deltas")[2])
    expect_shape(call, "deltas", (batches, anchors, length), "at least four deltas for each anchor")
    expect_shape(call, "anchors", (anchors, 4), "four numbers for each anchor")
    _limits(call)
    count = call.scalar("detections")
    if not call.scalar("per_class"):
        count *= call.scalar("classes_per_detection")
    return (batches, count), (batches, count, 4), (batches, count), (batches,)


def _boxes(call: Call) -> Array:
    """Returns the boxes of all anchors, (batches, anchors, 4): [y1, x1, y2, x2]."""
    deltas, anchors = float32(call, "deltas"), float32(call, "anchors")
    scales = np.array([call.scalar(name) for name in _SCALES], np.float32)
    with np.errstate(all="ignore"):
        centers = anchors[:, :2] + anchors[:, 2:] * deltas[..., :2] / scales[:2]
        half_sizes = anchors[:, 2:] * np.exp(deltas[..., 2:4] / scales[2:]) / 2
        return np.concatenate((centers - half_sizes, centers + half_sizes), axis=-1)


def _by_class(call: Call, boxes: Array, scores: Array) -> _Detections:
    """Suppresses boxes in each class separately, then selects the best of all."""
    threshold, overlap = (call.scalar(name) for name in _THRESHOLDS)
    limit = call.scalar("detections_per_class")
    anchors, classes = [], []
    for index in range(1, scores.shape[1]):
        candidates = np.flatnonzero(scores[:, index] > threshold)
        kept = suppress(boxes[candidates], scores[candidates, index], overlap, limit)
        anchors.append(candidates[kept])
        classes.append(np.full(len(kept), index))
    found = np.concatenate(anchors), np.concatenate(classes)
    top = np.argsort(-scores[found], kind="stable")[: call.scalar("detections")]
    return _Detections(anchors=found[0][top], classes=found[1][top], scores=scores[found][top])


def _by_anchor(call: Call, boxes: Array, scores: Array) -> _Detections:
    """Suppresses boxes by each anchor's best score, then selects the best classes of the rest."""
    threshold, overlap = (call.scalar(name) for name in _THRESHOLDS)
    best = scores[:, 1:].max(axis=1)
    candidates = np.flatnonzero(best > threshold)
    kept = candidates[suppress(boxes[candidates], best[candidates], overlap, call.scalar("detections"))]
    count = min(scores.shape[1] - 1, call.scalar("classes_per_detection"))
    classes = 1 + np.argsort(-scores[kept, 1:], axis=1, kind="stable")[:, :count].reshape(-1)
    anchors = np.repeat(kept, count)
    return _Detections(anchors=anchors, classes=classes, scores=scores[anchors, classes])


def _reference(call: Call) -> tuple[Array, ...]:
    shapes = _shape(call)
    types = [call.operand(parameter.name).type.dtype for parameter in _FORM.outputs]
    outputs = tuple(np.zeros(shape, dtype) for shape, dtype in zip(shapes, types, strict=True))
    scores_out, boxes_out, classes_out, counts_out = outputs
    choose = _by_class if call.scalar("per_class") else _by_anchor
    for image, (boxes, scores) in enumerate(zip(_boxes(call), float32(call, "scores"), strict=True)):
        found = choose(call, boxes, scores)
        count = len(found.anchors)
        with np.errstate(over="ignore"):
            scores_out[image, :count] = found.scores
            boxes_out[image, :count] = boxes[found.anchors]
        classes_out[image, :count] = found.classes - (0 if call.scalar("background") else 1)
        counts_out[image] = count
    return outputs


DEFINITIONS = (
    Definition(
        type=OperationType.DETECTION_POSTPROCESSING,
        forms=(_FORM,),
        rows=data_rows(FeatureLevel.LEVEL_3),
        checks=(positive(*_SCALES), _thresholds, _limits),
        shape=_shape,
        reference=_reference,
    ),
)
