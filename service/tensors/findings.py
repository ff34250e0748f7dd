"""Finds boxes, keypoints, masks and transcripts in the outputs of models of the usual kinds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.service.tensors.arrays import Array
from neurald.service.tensors.classification import real_values
from neurald.service.tensors.images import image_layout
from neurald.service.tensors.raw_detections import find_raw_detections

#: Outputs of a detector's last operation: boxes, classes, scores, number of detections.
_DETECTOR_OUTPUTS = 4
#: The joints of poses in COCO's order, which MoveNet and PoseNet have.
_JOINTS = (
    "nose",
    "left eye",
    "right eye",
    "left ear",
    "right ear",
    "left shoulder",
    "right shoulder",
    "left elbow",
    "right elbow",
    "left wrist",
    "right wrist",
    "left hip",
    "right hip",
    "left knee",
    "right knee",
    "left ankle",
    "right ankle",
)
#: The joints of hands, in MediaPipe's order.
_HAND = (
    "wrist",
    *(f"thumb {part}" for part in ("base", "first joint", "second joint", "tip")),
    *(
        f"{finger} finger {part}"
        for finger in ("index", "middle", "ring", "little")
        for part in ("base", "first joint", "second joint", "tip")
    ),
)
#: Numbers of points of MediaPipe's models of faces, without and with irises.
_FACE_POINTS = (468, 478)
#: Rows of the table of keypoints.
_MAX_POINTS = 40
#: Columns of a detector's only output: batch, class, score, and the corners of a box.
_ROW = 7
_SUPPRESSIONS = (
    OperationType.TFLITE_NON_MAX_SUPPRESSION_V4,
    OperationType.TFLITE_NON_MAX_SUPPRESSION_V5,
)
#: Labels of the class that stands for no character.
_BLANKS = ("<blank>", "[blank]", "<pad>", "[PAD]", "<ctc>", "_", "ε")
#: Labels that stand for a space.
_SPACES = ("", "|", "<space>", "▁")
#: Smallest number of rows and columns of a mask.
_MIN_MASK = 9


def find_detections(
    model: Model, outputs: Sequence[Array], labels: Sequence[str] | None, count: int
) -> list[dict[str, Any]] | None:
    """Returns the best detections of a model that ends with DETECTION_POSTPROCESS.

    So does a model whose only output has rows of image, class, score, and the box's left, top,
    right and bottom in pixels, if it suppresses overlapping boxes.

    Args:
        model: the model.
        outputs: the outputs of a run.
        labels: the labels of the classes.
        count: how many.

    Returns:
        For each its `score` from 0 to 1, `class`, `label`, and the corners of its box as shares of
        the image: `top`, `left`, `bottom`, `right`. None for other models.
    """
    last = [each for each in model.main.operations if each.type is OperationType.TFLITE_DETECTION_POSTPROCESS]
    if len(last) != 1 or not set(last[0].outputs) <= set(model.outputs):
        return _detections_in_rows(model, outputs, labels, count)
    values = [outputs[list(model.outputs).index(index)] for index in last[0].outputs]
    if len(values) != _DETECTOR_OUTPUTS or values[0].ndim != 3 or values[0].shape[-1] != 4:
        return None
    boxes, classes, scores = values[0][0], values[1].reshape(-1), values[2].reshape(-1)
    number = values[3].reshape(-1)
    limit = min(len(boxes), len(classes), len(scores), int(number[0]) if number.size else 0)
    order = [int(each) for each in np.argsort(-scores[:limit], kind="stable")[:count]]
    return [
        {
            "score": float(scores[place]),
            "class": int(classes[place]),
            "label": _label(labels, int(classes[place])),
            **dict(zip(("top", "left", "bottom", "right"), map(float, boxes[place]), strict=True)),
        }
        for place in order
    ]


def _detections_in_rows(
    model: Model, outputs: Sequence[Array], labels: Sequence[str] | None, count: int
) -> list[dict[str, Any]] | None:
    size = image_size(model)
    if (
        size is None
        or len(outputs) != 1
        or outputs[0].ndim != 2
        or outputs[0].shape[1] != _ROW
        or not any(each.type in _SUPPRESSIONS for each in model.main.operations)
    ):
        return None
    height, width = size
    rows = outputs[0][np.argsort(-outputs[0][:, 2], kind="stable")[:count]]
    return [
        {
            "score": float(score),
            "class": int(number),
            "label": _label(labels, int(number)),
            "top": float(top) / height,
            "left": float(left) / width,
            "bottom": float(bottom) / height,
            "right": float(right) / width,
        }
        for _, number, score, left, top, right, bottom in rows
    ]


def decode_detections(
    model: Model, outputs: Sequence[Array], labels: Sequence[str] | None, count: int
) -> tuple[str, list[dict[str, Any]]] | None:
    """Returns the kind and the best detections of a model that ends before they are selected.

    Args:
        model: the model.
        outputs: the outputs of a run.
        labels: the labels of the classes.
        count: how many.

    Returns:
        The kind of detector, for display, and the detections as of `find_detections`. None for
        models that are none of the kinds of `raw_detections`.
    """
    size = image_size(model)
    found = None if size is None else find_raw_detections(model, outputs, size, count)
    if found is None:
        return None
    kind, detections = found
    sides = ("top", "left", "bottom", "right")
    return kind, [
        {
            "score": each.score,
            "class": each.kind,
            "label": _label(labels, each.kind),
            **dict(zip(sides, each.box, strict=True)),
        }
        for each in detections
    ]


def image_size(model: Model) -> tuple[int, int] | None:
    """Returns height and width of the image that is the model's only input; None for others."""
    shapes = [each.dimensions for each in model.input_operands]
    if len(shapes) != 1 or shapes[0] is None or len(shapes[0]) != 4 or 0 in shapes[0][1:3]:
        return None
    layout = image_layout(shapes[0])
    return (shapes[0][1], shapes[0][2]) if layout is None else (layout.height, layout.width)


def _find_landmarks(model: Model, outputs: Sequence[Array]) -> list[dict[str, Any]] | None:
    """Returns the points of a hand or a face, which the first output has as x, y, z in pixels."""
    size = image_size(model)
    if size is None or len(outputs) < 2 or outputs[0].size % 3:
        return None
    # Further outputs say whether it is a hand or a face, and which hand.
    points, others = outputs[0].size // 3, [each for each in outputs[1:] if each.size != outputs[0].size]
    if any(each.size != 1 for each in others) or not others:
        return None
    if points == len(_HAND):
        names: Sequence[str] = _HAND
    elif points in _FACE_POINTS:
        names = [f"point {number}" for number in range(points)]
    else:
        return None
    rows = real_values(outputs[0], model.main.operands[model.outputs[0]]).reshape(-1, 3)
    return [
        {"name": name, "score": None, "y": float(y) / size[0], "x": float(x) / size[1]}
        for name, (x, y, _) in zip(names, rows, strict=True)
    ]


def find_keypoints(model: Model, outputs: Sequence[Array]) -> list[dict[str, Any]] | None:
    """Returns the keypoints of a model whose only output is a list of 17 rows: y, x, score.

    Those of MediaPipe's models of hands and faces are found as well.

    Returns:
        For each its `name`, its `score`, which is None if points have none, and its place as shares
        of the image, `y` and `x`. None for other models.
    """
    if len(outputs) != 1 or outputs[0].size != 3 * len(_JOINTS) or outputs[0].shape[-2:] != (len(_JOINTS), 3):
        return _find_landmarks(model, outputs)
    rows = real_values(outputs[0], model.main.operands[model.outputs[0]]).reshape(-1, 3)
    return [
        {"name": name, "score": float(score), "y": float(y), "x": float(x)}
        for name, (y, x, score) in zip(_JOINTS, rows, strict=True)
    ]


def find_segments(
    outputs: Sequence[Array], labels: Sequence[str] | None, count: int
) -> list[dict[str, Any]] | None:
    """Returns the largest segments of a model whose only output is an image of scores of classes.

    Returns:
        For each its `class`, `label`, and `share` of the pixels. None for other models.
    """
    if len(outputs) != 1 or outputs[0].ndim != 4 or outputs[0].shape[0] != 1 or outputs[0].dtype.kind == "O":
        return None
    _, rows, columns, classes = outputs[0].shape
    if min(rows, columns) < _MIN_MASK or classes < 2:
        return None
    sizes = np.bincount(outputs[0][0].argmax(-1).reshape(-1), minlength=classes)
    order = [int(each) for each in np.argsort(-sizes, kind="stable")[:count] if sizes[each]]
    return [
        {"class": each, "label": _label(labels, each), "share": float(sizes[each]) / (rows * columns)}
        for each in order
    ]


def find_transcript(outputs: Sequence[Array], labels: Sequence[str] | None) -> str | None:
    """Returns the text that a model of speech recognised, for which the labels are its characters.

    Its only output has scores of characters for each of several moments, of shape
    [1, moments, characters]. The most probable ones are taken, repeated ones once, and blanks are
    left out. The blank is the class with the label `<blank>`, `<pad>` or `_`; without one it is the
    class after the last label, or the last class.

    Returns:
        The text; None for other models, without labels for all characters, and for labels that are
        names of classes.
    """
    if len(outputs) != 1 or outputs[0].ndim != 3 or outputs[0].dtype.kind in "Oc" or labels is None:
        return None
    batch, moments, classes = outputs[0].shape
    if batch != 1 or moments < 2 or len(labels) not in (classes, classes - 1) or not _are_characters(labels):
        return None
    blank = next((place for place, label in enumerate(labels) if label in _BLANKS), classes - 1)
    best = outputs[0][0].argmax(-1)
    changes = np.flatnonzero(np.diff(best, prepend=-1))
    text = "".join(_text(labels[each]) for each in best[changes].tolist() if each != blank)
    return " ".join(text.split())


def _are_characters(labels: Sequence[str]) -> bool:
    """Returns whether labels are characters, or parts of words that a blank or a space is among."""
    return any(label in _BLANKS or "▁" in label for label in labels) or all(
        len(label) <= 1 or label in _SPACES for label in labels
    )


def _text(label: str) -> str:
    return " " if label in _SPACES else label.replace("▁", " ")


def _label(labels: Sequence[str] | None, number: int) -> str | None:
    return labels[number] if labels is not None and 0 <= number < len(labels) else None


def finding_table(document: dict[str, Any]) -> tuple[list[str], list[list[str]]] | None:
    """Returns titles and rows of the table of what was found; None if nothing was."""
    if "transcript" in document:
        return ["transcript"], [[document["transcript"]]]
    if "keypoints" in document:
        return _keypoint_table(document["keypoints"])
    sides = ["top", "left", "bottom", "right"]
    for kind, share, further in (("detections", "score", sides), ("segments", "share", [])):
        found = document.get(kind)
        if found is not None:
            # Without labels there is no column for them.
            labels = ["label"] if any(each["label"] is not None for each in found) else []
            return [share, "class", *labels, *further], [
                [
                    f"{100 * each[share]:.2f} %",
                    str(each["class"]),
                    *[each[label] or "" for label in labels],
                    *(f"{each[side]:.3f}" for side in further),
                ]
                for each in found
            ]
    return None


def _keypoint_table(points: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    have_scores = any(each["score"] is not None for each in points)
    rows = [
        [
            each["name"],
            *([f"{100 * each['score']:.2f} %"] if have_scores else []),
            f"{each['y']:.3f}",
            f"{each['x']:.3f}",
        ]
        for each in points[:_MAX_POINTS]
    ]
    titles = ["keypoint", *(["score"] if have_scores else []), "y", "x"]
    if len(points) > _MAX_POINTS:
        rows.append([f"{len(points) - _MAX_POINTS} more, see --json", *[""] * (len(titles) - 1)])
    return titles, rows
