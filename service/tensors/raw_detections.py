"""Decodes and selects the boxes of detectors whose models end before that is done.

Which kind a detector is follows from the shapes of its outputs and the size of its image, since the
numbers of anchors of the usual kinds differ.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from neurald.hal.model.model import Model
from neurald.service.tensors.anchors import grid, mediapipe_anchors, ssd_anchors
from neurald.service.tensors.arrays import Array
from neurald.service.tensors.classification import real_values

#: The strides of YOLO's three heads, and the anchors that those with anchors have in a cell.
_YOLO_STRIDES: Final = (8, 16, 32)
_YOLO_ANCHORS: Final = 3
#: YOLO's rows begin with centre, width and height.
_BOX: Final = 4
#: Columns of YOLO's models of poses: a box, a score, and 17 points with scores.
_POSE_COLUMNS: Final = 56
#: Columns of YOLO's models that suppress overlapping boxes: corners, score, class.
_SELECTED_COLUMNS: Final = 6
#: How SSD divides the codes of centres and of sizes.
_CENTER_SCALE: Final = 10.0
_SIZE_SCALE: Final = 5.0
#: Shares of two boxes' union that their intersection may have.
_OVERLAP: Final = 0.5
_MEDIAPIPE_OVERLAP: Final = 0.3
#: Boxes that are compared with each other.
_MAX_CANDIDATES: Final = 1000
#: Exponents beyond this are of no use, and overflow.
_MAX_EXPONENT: Final = 30.0
#: Boxes may lie beyond the image, but none is that many times as large as it.
_MAX_SHARE: Final = 4.0
#: The outputs of models that are no detectors have fewer rows.
_MIN_ROWS: Final = 64

#: For people: what is known here.
KNOWN_KINDS: Final = (
    "MediaPipe's detectors of faces, palms and persons, SSD with six layers, and YOLO 5 to 11, 26 and X"
)


_Test: TypeAlias = Callable[[int], bool]


class Detection(Struct, frozen=True):
    """A box that was found.

    Attributes:
        score: from 0 to 1.
        kind: the number of the class.
        box: top, left, bottom and right as shares of the image.
    """

    score: float
    kind: int
    box: tuple[float, ...]


class _Boxes(Struct, frozen=True):
    """All boxes of a detector before overlapping ones are suppressed.

    Attributes:
        name: the kind of detector, for people.
        corners: top, left, bottom and right as shares of the image, of shape (boxes, 4).
        scores: of shape (boxes, classes).
        overlap: see `_OVERLAP`.
    """

    name: str
    corners: Array
    scores: Array
    overlap: float = _OVERLAP


def find_raw_detections(
    model: Model, outputs: Sequence[Array], size: tuple[int, int], count: int
) -> tuple[str, list[Detection]] | None:
    """Returns the kind of a detector and its best boxes; None for other models.

    Args:
        model: the model.
        outputs: of a run.
        size: height and width of the image.
        count: how many boxes.
    """
    if any(each.dtype.kind not in "fiu" for each in outputs):
        return None
    values = [
        np.asarray(real_values(each, model.main.operands[index]), np.float32)
        for index, each in zip(model.outputs, outputs, strict=True)
    ]
    for decode in (_mediapipe, _ssd, _selected, _yolo):
        found = decode(values, size)
        if found is not None:
            return found.name, _best(found, count)
    return None


def is_like_a_detector(outputs: Sequence[Array]) -> bool:
    """Returns whether outputs for an image may be those of a detector whose boxes must be decoded."""
    rows = [max(each.shape) for each in outputs if each.ndim == 3 and min(each.shape[1:]) >= _BOX]
    heads = [each.shape for each in outputs if each.ndim in (4, 5) and each.shape[1] == each.shape[2]]
    return any(each >= _MIN_ROWS for each in rows) or len(set(heads)) > 1


def _mediapipe(values: Sequence[Array], size: tuple[int, int]) -> _Boxes | None:
    """Boxes and points relative to anchors, in pixels, and one score."""
    pair = _pair(values, lambda columns: columns > _BOX and columns % 2 == 0, lambda columns: columns == 1)
    if pair is None:
        return None
    codes, scores = pair
    anchors = mediapipe_anchors(size, len(codes))
    if anchors is None:
        return None
    centers, strides = anchors
    height, width = size
    middle = centers + codes[:, 1::-1] / (height, width)
    corners = _corners(middle, codes[:, 3:1:-1] / (height, width))
    name = f"MediaPipe with layers of strides {strides}"
    return _Boxes(name, corners, _sigmoid(scores), _MEDIAPIPE_OVERLAP)


def _ssd(values: Sequence[Array], size: tuple[int, int]) -> _Boxes | None:
    """Codes of boxes relative to anchors, and scores of classes, of which the first is no class."""
    pair = _pair(values, lambda columns: columns == _BOX, lambda columns: columns > 1)
    if pair is None:
        return None
    codes, scores = pair
    anchors = ssd_anchors(size, len(codes))
    if anchors is None:
        return None
    sizes = anchors[:, 2:] * np.exp(np.minimum(codes[:, 2:] / _SIZE_SCALE, _MAX_EXPONENT))
    middle = anchors[:, :2] + codes[:, :2] / _CENTER_SCALE * anchors[:, 2:]
    return _Boxes("SSD with six layers", _corners(middle, sizes), _probabilities(scores)[:, 1:])


def _selected(values: Sequence[Array], size: tuple[int, int]) -> _Boxes | None:
    """Rows of corners, score and class, of a YOLO that suppresses overlapping boxes itself."""
    if len(values) != 1 or values[0].ndim != 3 or values[0].shape[0] != 1:
        return None
    rows = values[0][0]
    if rows.shape[1] != _SELECTED_COLUMNS or not len(rows):
        return None
    kinds = rows[:, 5].astype(np.int64)
    if (kinds != rows[:, 5]).any() or kinds.min() < 0 or not _is_probability(rows[:, 4]):
        return None
    corners = rows[:, [1, 0, 3, 2]] / _unit(rows[:, :_BOX], size)
    scores = np.zeros((len(rows), int(kinds.max()) + 1), np.float32)
    scores[np.arange(len(rows)), kinds] = rows[:, 4]
    return _Boxes("YOLO that has selected its boxes", corners, scores, overlap=1.0)


def _yolo(values: Sequence[Array], size: tuple[int, int]) -> _Boxes | None:
    """Rows or columns of a box and scores for each cell of three grids."""
    if len(values) != 1 or values[0].ndim != 3 or values[0].shape[0] != 1:
        return None
    if any(length % max(_YOLO_STRIDES) for length in size):
        return None
    cells = [grid(size, stride) for stride in _YOLO_STRIDES]
    centers = np.concatenate(cells)
    rows = values[0][0]
    is_turned = rows.shape[1] == len(centers) != rows.shape[0]
    rows = rows.T if is_turned else rows
    if rows.shape[1] <= _BOX:
        return None
    if len(rows) == _YOLO_ANCHORS * len(centers):
        name, scores = "YOLO with three anchors in a cell", _with_objectness(rows)
    elif len(rows) != len(centers):
        return None
    elif is_turned:
        name, scores = "YOLO without anchors", _probabilities(rows[:, _BOX:])
        if rows.shape[1] == _POSE_COLUMNS:
            scores = scores[:, :1]
    else:
        name, scores = "YOLO without anchors, with objectness", _with_objectness(rows)
    boxes = rows[:, :_BOX]
    if len(rows) == len(centers) and not _follows(boxes, centers):
        # The centres are counted from those of the cells, and the sizes are logarithms.
        name = f"{name}, whose boxes are relative to cells"
        strides = np.repeat(_YOLO_STRIDES, list(map(len, cells)))[:, None].astype(np.float32)
        places = centers[:, ::-1] * (size[1], size[0]) - strides / 2
        exponents = np.minimum(boxes[:, 2:], _MAX_EXPONENT)
        boxes = np.concatenate([boxes[:, :2] * strides + places, np.exp(exponents) * strides], axis=1)
    unit = _unit(boxes, size)
    return _Boxes(name, _corners(boxes[:, 1::-1] / unit[:2], boxes[:, 3:1:-1] / unit[:2]), scores)


def _with_objectness(rows: Array) -> Array:
    """Returns the scores of classes, of rows that have first that of anything being there."""
    scores = _probabilities(rows[:, _BOX:])
    # A model of one class has no further score.
    return scores[:, :1] * scores[:, 1:] if scores.shape[1] > 1 else scores


def _follows(boxes: Array, centers: Array) -> bool:
    """Returns whether the middle of boxes is that of their cells, more or less."""
    x = boxes[:, 0]
    return bool(np.ptp(x) > 0 and np.corrcoef(x, centers[:, 1])[0, 1] > _OVERLAP)


def _unit(boxes: Array, size: tuple[int, int]) -> Array:
    """Returns by what to divide y, x, y, x to get shares of the image: pixels are larger than those."""
    height, width = size
    is_share = not np.abs(boxes).max(initial=0) > _MAX_SHARE
    return np.ones(_BOX, np.float32) if is_share else np.array([height, width] * 2, np.float32)


def _pair(values: Sequence[Array], has_boxes: _Test, has_scores: _Test) -> tuple[Array, Array] | None:
    """Returns the boxes and the scores of a model with one output for each, in any order.

    If both outputs may be either, scores are those that are probabilities, or the second.
    """
    if len(values) != 2 or any(each.ndim != 3 or each.shape[0] != 1 for each in values):
        return None
    found = [
        (boxes[0], scores[0])
        for boxes, scores in (values, values[::-1])
        if has_boxes(boxes.shape[2]) and has_scores(scores.shape[2]) and len(boxes[0]) == len(scores[0])
    ]
    return max(found, key=lambda each: _is_probability(each[1]), default=None)


def _corners(centers: Array, sizes: Array) -> Array:
    return np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=1)


def _sigmoid(values: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -_MAX_EXPONENT, _MAX_EXPONENT))), np.float32)


def _is_probability(values: Array) -> bool:
    return bool(values.size == 0 or (values.min() >= 0 and values.max() <= 1))


def _probabilities(values: Array) -> Array:
    return values if _is_probability(values) else _sigmoid(values)


def _best(found: _Boxes, count: int) -> list[Detection]:
    """Returns the best boxes, without those that overlap with better ones of their class."""
    scores = np.nan_to_num(found.scores).reshape(-1)
    order = np.argsort(-scores, kind="stable")[:_MAX_CANDIDATES]
    classes = found.scores.shape[1]
    kept: list[tuple[int, int]] = []
    for place in order.tolist():
        box, kind = divmod(place, classes)
        rivals = [other for other, of in kept if of == kind]
        if not rivals or _overlaps(found.corners[box], found.corners[rivals]).max() <= found.overlap:
            kept.append((box, kind))
        if len(kept) == count:
            break
    return [
        Detection(float(scores[box * classes + kind]), kind, tuple(map(float, found.corners[box])))
        for box, kind in kept
    ]


def _overlaps(box: Array, others: Array) -> Array:
    """Returns the intersection over the union of a box with each of others."""
    top, bottom = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(bottom - top, 0), axis=1)
    areas = [np.prod(np.maximum(each[..., 2:] - each[..., :2], 0), axis=-1) for each in (box, others)]
    return np.asarray(shared / np.maximum(areas[0] + areas[1] - shared, np.finfo(np.float32).tiny))
