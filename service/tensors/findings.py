"""Finds boxes, keypoints, masks and transcripts in the outputs of models of the usual kinds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Model
from neurald.service.tensors.arrays import Array
from neurald.service.tensors.classification import real_values

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

    Args:
        model: the model.
        outputs: of a run.
        labels: of the classes.
        count: how many.

    Returns:
        For each its `score` from 0 to 1, `class`, `label`, and the corners of its box as shares of
        the image: `top`, `left`, `bottom`, `right`. None for other models.
    """
    last = [each for each in model.main.operations if each.type is OperationType.TFLITE_DETECTION_POSTPROCESS]
    if len(last) != 1 or not set(last[0].outputs) <= set(model.outputs):
        return None
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


def find_keypoints(model: Model, outputs: Sequence[Array]) -> list[dict[str, Any]] | None:
    """Returns the keypoints of a model whose only output is a list of 17 rows: y, x, score.

    Returns:
        For each its `name`, `score`, and place as shares of the image, `y` and `x`. None for other
        models.
    """
    if len(outputs) != 1 or outputs[0].size != 3 * len(_JOINTS) or outputs[0].shape[-2:] != (len(_JOINTS), 3):
        return None
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
    if "detections" in document:
        titles = ["score", "class", "label", "top", "left", "bottom", "right"]
        return titles, [
            [
                f"{100 * each['score']:.2f} %",
                str(each["class"]),
                each["label"] or "",
                *(f"{each[side]:.3f}" for side in titles[3:]),
            ]
            for each in document["detections"]
        ]
    if "keypoints" in document:
        return ["keypoint", "score", "y", "x"], [
            [each["name"], f"{100 * each['score']:.2f} %", f"{each['y']:.3f}", f"{each['x']:.3f}"]
            for each in document["keypoints"]
        ]
    if "segments" in document:
        return ["share", "class", "label"], [
            [f"{100 * each['share']:.2f} %", str(each["class"]), each["label"] or ""]
            for each in document["segments"]
        ]
    return None
