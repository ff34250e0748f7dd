"""Finds boxes in the outputs of detectors that end before their boxes are computed.

Such a detector has one output with places relative to anchors, and one with scores, or both in one
output. The anchors come from the file, or else from the only usual layout that fits the numbers of
boxes and columns. Overlapping boxes of a class are left out.

    MediaPipe   [1, boxes, 4 + 2 points] x, y, width, height and points in pixels; [1, boxes, 1] scores
    SSD         [1, boxes, 4] y, x, height, width; [1, boxes, classes], of which the first one is none
    YOLOX       [1, boxes, 5 + classes] x, y, width, height in cells, whether it is anything, classes
    YOLOv5      the same, computed already, with three boxes for each cell
    YOLOv8      [1, 4 + classes, boxes] x, y, width, height, computed already, and classes
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.hal.model.types import Model
from neurald.service.tensors.anchors import (
    Anchors,
    mediapipe_anchors,
    ssd_anchors,
    yolo_anchors,
    yolo_cells,
)
from neurald.service.tensors.arrays import Array
from neurald.service.tensors.classification import real_values
from neurald.service.tensors.detector_options import DetectorOptions

#: By what SSD's outputs are divided: y, x, height, width.
_SSD_SCALES: Final = (10.0, 10.0, 5.0, 5.0)
#: Boxes that are compared with each other, and the overlap from which two are taken for one.
_MAX_COMPARED: Final = 500
_MAX_OVERLAP: Final = 0.5
#: Logarithms of widths in cells are smaller than this.
_MAX_LOGARITHM: Final = 12.0
#: Largest coordinate of boxes that are shares of the image, with some room at the edges.
_MAX_SHARE: Final = 2.0
_YOLO_V5_BOXES: Final = 3


class RawDetections(Struct, frozen=True, kw_only=True):
    """The boxes of a detector.

    Attributes:
        layout: how they were computed, for people.
        boxes: for each top, left, bottom and right, as shares of the image.
        scores: for each and each class, from 0 to 1.
        points: for each some points' y and x, as shares of the image.
    """

    layout: str
    boxes: Array
    scores: Array
    points: Array

    def best(self, count: int) -> list[tuple[int, int]]:
        """Returns the places of the best boxes that do not overlap, and their classes."""
        classes = self.scores.argmax(-1)
        scores = self.scores[np.arange(len(classes)), classes]
        order = np.argsort(-scores, kind="stable")[:_MAX_COMPARED]
        found: list[tuple[int, int]] = []
        while len(order) and len(found) < count:
            first, others = order[0], order[1:]
            found.append((int(first), int(classes[first])))
            is_same = classes[others] == classes[first]
            is_same &= _overlaps(self.boxes[first], self.boxes[others]) > _MAX_OVERLAP
            order = others[~is_same]
        return found


def raw_detections(
    model: Model,
    outputs: Sequence[Array],
    size: tuple[int, int],
    options: DetectorOptions | None,
    classes: int | None,
) -> RawDetections | None:
    """Computes the boxes of a detector; None for other models, and where several layouts fit.

    Args:
        model: the model.
        outputs: of a run.
        size: height and width of its image.
        options: those in its file.
        classes: number of labels, if there are any.
    """
    if any(each.dtype.kind not in "fiu" or each.ndim != 3 or each.shape[0] != 1 for each in outputs):
        return None
    values = [
        real_values(each, model.main.operands[index])[0]
        for each, index in zip(outputs, model.outputs, strict=True)
    ]
    if not all(each.size and np.isfinite(each).all() for each in values):
        return None
    if len(values) == 1:
        return _yolo(values[0], size, classes)
    return _with_scores(values, size, options) if len(values) == 2 else None


def _with_scores(
    values: Sequence[Array], size: tuple[int, int], options: DetectorOptions | None
) -> RawDetections | None:
    """Computes the boxes of a detector with one output for places, and one for scores."""
    # Places have four columns, or more if there are points, which detectors of one class have.
    first, second = values
    if len(first) != len(second) or first.shape == second.shape:
        return None
    narrow, wide = sorted(values, key=lambda each: each.shape[1])
    places, scores = (wide, narrow) if narrow.shape[1] < 4 else (narrow, wide)
    columns = places.shape[1]
    if columns < 4 or columns % 2:
        return None
    if options is not None:
        if len(options.anchors.boxes) != len(places):
            return None
        scores = _probabilities(scores) if options.has_logits else scores
        return _decoded(places, scores, options.anchors, options.scales, options.is_exponential)
    if scores.shape[1] == 1:
        anchors = mediapipe_anchors(size, len(places))
        if anchors is None:
            return None
        swapped = places.reshape(len(places), -1, 2)[..., ::-1].reshape(places.shape)
        scales = (*size, *size)
        return _decoded(swapped, _probabilities(scores), anchors, scales, is_exponential=False)
    anchors = ssd_anchors(size, len(places)) if columns == 4 else None
    if anchors is None:
        return None
    if scores.min() < 0 or scores.max() > 1:
        scores = _probabilities(scores)
    return _decoded(places, scores[:, 1:], anchors, _SSD_SCALES, is_exponential=True)


def _decoded(
    places: Array,
    scores: Array,
    anchors: Anchors,
    scales: Sequence[float],
    is_exponential: bool,
) -> RawDetections:
    """Computes boxes and points from rows of y, x, height, width, and y and x of points."""
    own = anchors.boxes
    sides = places[:, 2:4] / np.array(scales[2:], np.float32)
    # A larger box than the image is of no use, but an infinite one harms.
    sides = own[:, 2:] * (np.exp(np.minimum(sides, _MAX_LOGARITHM)) if is_exponential else sides)
    points = places.reshape(len(places), -1, 2) / np.array(scales[:2], np.float32)
    points = points * own[:, None, 2:] + own[:, None, :2]
    centres = points[:, 0]
    return RawDetections(
        layout=f"the {len(own)} anchors of {anchors.name}",
        boxes=np.concatenate([centres - sides / 2, centres + sides / 2], -1),
        scores=scores,
        points=points[:, 2:],
    )


def _yolo(rows: Array, size: tuple[int, int], classes: int | None) -> RawDetections | None:
    """Computes the boxes of a model of the YOLO family, which has a single output."""
    cells = sum(height * width for _, (height, width) in yolo_cells(size))
    fits = []
    if len(rows) == cells and rows.shape[1] - 5 == (classes or rows.shape[1] - 5) > 0:
        fits.append("YOLOX")
    if len(rows) == _YOLO_V5_BOXES * cells and rows.shape[1] - 5 == (classes or rows.shape[1] - 5) > 0:
        fits.append("YOLOv5")
    if rows.shape[1] == cells and len(rows) - 4 == (classes or len(rows) - 4) > 0:
        fits.append("YOLOv8")
    if len(fits) != 1:
        return None
    (name,) = fits
    rows = rows.T if name == "YOLOv8" else rows
    centres, sides = rows[:, 1::-1], rows[:, 3:1:-1]
    scores = rows[:, 4:] if name == "YOLOv8" else rows[:, 4:5] * rows[:, 5:]
    anchors = yolo_anchors(size, len(rows)) if name == "YOLOX" else None
    if anchors is not None and abs(sides).max() <= _MAX_LOGARITHM:
        own = anchors.boxes
        centres = own[:, :2] + (centres - 0.5) * own[:, 2:]
        sides = np.exp(sides) * own[:, 2:]
    elif max(centres.max(), sides.max()) > _MAX_SHARE:
        centres, sides = centres / np.array(size, np.float32), sides / np.array(size, np.float32)
    return RawDetections(
        layout=f"the {len(rows)} boxes of {name}",
        boxes=np.concatenate([centres - sides / 2, centres + sides / 2], -1),
        scores=scores,
        points=np.zeros((len(rows), 0, 2), np.float32),
    )


def _probabilities(scores: Array) -> Array:
    """Returns the sigmoid of scores."""
    found: Array = 1 / (1 + np.exp(-np.clip(scores, -80, 80)))
    return found


def _overlaps(box: Array, others: Array) -> Array:
    """Returns the shares that the intersections of a box with others have of their unions."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.maximum(sides, 0).prod(-1)
    areas = [np.maximum(each[..., 2:] - each[..., :2], 0).prod(-1) for each in (box, others)]
    found: Array = common / np.maximum(areas[0] + areas[1] - common, 1e-12)
    return found
