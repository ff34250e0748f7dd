"""Decodes and selects the boxes of detectors whose models end before that is done.

Which kind a detector is follows from the shapes of its outputs and the size of its image, since the
numbers of anchors of the usual kinds differ.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from neurald.hal.model.model import Model
from neurald.service.tensors.anchors import grid, mediapipe_anchors, ssd_anchors
from neurald.service.tensors.arrays import Array
from neurald.service.tensors.boxes import (
    MAX_EXPONENT,
    Boxes,
    Detection,
    agreement,
    are_probabilities,
    best_boxes,
    corners_of,
    probabilities,
    sigmoid,
)
from neurald.service.tensors.classification import real_values
from neurald.service.tensors.head_codes import boxes_of_levels, boxes_of_pair
from neurald.service.tensors.levels import find_levels

#: The strides of YOLO's grids, and the anchors that those with anchors have in a cell.
_YOLO_STRIDES: Final = ((8, 16, 32), (8, 16, 32, 64), (16, 32))
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
_MEDIAPIPE_OVERLAP: Final = 0.3
#: How closely the middles of boxes have to follow those of their cells.
_MIN_CORRELATION: Final = 0.5
#: The share of the best agreement from which on the more usual kind is taken.
_SAME: Final = 0.99
#: Boxes may lie beyond the image, but none is that many times as large as it.
_MAX_SHARE: Final = 4.0
#: The outputs of models that are not detectors have fewer rows.
_MIN_ROWS: Final = 64

#: Description for users of the models whose outputs are known here.
KNOWN_KINDS: Final = (
    "MediaPipe's detectors of faces, palms and persons, SSD with six layers or a pyramid of features, "
    "EfficientDet, RetinaNet, detectors without anchors such as FCOS, and YOLO 3 to 11, 26 and X"
)


_Test: TypeAlias = Callable[[int], bool]


def find_raw_detections(
    model: Model, outputs: Sequence[Array], size: tuple[int, int], count: int
) -> tuple[str, list[Detection]] | None:
    """Returns the kind of a detector and its best boxes; None for other models.

    Args:
        model: the model.
        outputs: the outputs of a run.
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
            return found.name, best_boxes(found, count)
    candidates = [*_of_levels(values, size), *_of_pair(values, size)]
    return None if not candidates else _most_agreeing(candidates, count)


def _most_agreeing(candidates: Sequence[Boxes], count: int) -> tuple[str, list[Detection]]:
    """Returns the kind and the best boxes of the candidate whose best boxes agree most."""
    agreements = [agreement(each) for each in candidates]
    most = max(agreements)
    place = next(place for place, each in enumerate(agreements) if each >= _SAME * most)
    name = candidates[place].name
    if most == 0:
        others = ", ".join(dict.fromkeys(each.name for each in candidates if each.name != name))
        name = f"{name}, which is a guess, since no boxes for the same thing agree"
        name += f"; others with such shapes are {others}" if others else ""
    return name, best_boxes(candidates[place], count)


def _of_levels(values: Sequence[Array], size: tuple[int, int]) -> Iterator[Boxes]:
    """Yields what outputs may mean that are heads of grids."""
    levels = find_levels(values, size)
    return boxes_of_levels(levels, size) if levels else iter(())


def _of_pair(values: Sequence[Array], size: tuple[int, int]) -> Iterator[Boxes]:
    """Yields what an output for boxes and one for scores may mean."""
    pair = _pair(values, lambda columns: columns == _BOX, lambda columns: columns >= 1)
    if pair is None:
        return
    boxes, scores = pair
    yield from boxes_of_pair(boxes, scores, size)
    middles = _middles(size, len(boxes))
    if middles:
        name, corners = _most_plausible(boxes, _unit(boxes, size), middles)
        yield Boxes(f"YOLO with boxes as {name}, and scores", corners, probabilities(scores))


def _middles(size: tuple[int, int], count: int) -> list[Array]:
    """Returns the middles of as many cells of YOLO's grids, in the usual orders."""
    for strides in _YOLO_STRIDES:
        cells = [grid(size, stride) for stride in strides]
        number = sum(map(len, cells))
        if count == number:
            return [np.concatenate(cells)]
        if count == _YOLO_ANCHORS * number:
            each_in_a_row = [np.repeat(each, _YOLO_ANCHORS, axis=0) for each in cells]
            grid_by_grid = [np.tile(each, (_YOLO_ANCHORS, 1)) for each in cells]
            return [np.concatenate(each_in_a_row), np.concatenate(grid_by_grid)]
    return []


def _most_plausible(boxes: Array, unit: Array, middles: Sequence[Array]) -> tuple[str, Array]:
    """Returns what four numbers are of a box, and the corners.

    Boxes have positive sizes, are mostly small, and are near the cells that have them.

    Args:
        boxes: four numbers for each.
        unit: see `_unit`.
        middles: those of cells, in all orders that there may be.
    """
    turned = boxes[:, [1, 0, 3, 2]] / unit
    candidates = {
        "centre and size": corners_of(turned[:, :2], turned[:, 2:]),
        "left, top, right and bottom": turned,
        "top, left, bottom and right": boxes / unit,
    }

    def error(corners: Array) -> float:
        extents = corners[:, 2:] - corners[:, :2]
        centers = (corners[:, 2:] + corners[:, :2]) / 2
        distance = min(float(np.abs(centers - each).mean()) for each in middles)
        return distance + float(np.abs(extents).mean()) + float((extents < 0).mean())

    name = min(candidates, key=lambda each: error(candidates[each]))
    return name, candidates[name]


def is_like_a_detector(outputs: Sequence[Array]) -> bool:
    """Returns whether outputs for an image may be those of a detector with encoded boxes."""
    rows = [max(each.shape) for each in outputs if each.ndim == 3 and min(each.shape[1:]) >= _BOX]
    heads = [each.shape for each in outputs if each.ndim in (4, 5) and each.shape[1] == each.shape[2]]
    return any(each >= _MIN_ROWS for each in rows) or len(set(heads)) > 1


def _mediapipe(values: Sequence[Array], size: tuple[int, int]) -> Boxes | None:
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
    corners = corners_of(middle, codes[:, 3:1:-1] / (height, width))
    name = f"MediaPipe with layers of strides {strides}"
    return Boxes(name, corners, sigmoid(scores), _MEDIAPIPE_OVERLAP)


def _ssd(values: Sequence[Array], size: tuple[int, int]) -> Boxes | None:
    """Codes of boxes relative to anchors, and scores of classes after one that is not a class."""
    pair = _pair(values, lambda columns: columns == _BOX, lambda columns: columns > 1)
    if pair is None:
        return None
    codes, scores = pair
    anchors = ssd_anchors(size, len(codes))
    if anchors is None:
        return None
    sizes = anchors[:, 2:] * np.exp(np.minimum(codes[:, 2:] / _SIZE_SCALE, MAX_EXPONENT))
    middle = anchors[:, :2] + codes[:, :2] / _CENTER_SCALE * anchors[:, 2:]
    return Boxes("SSD with six layers", corners_of(middle, sizes), probabilities(scores)[:, 1:])


def _selected(values: Sequence[Array], size: tuple[int, int]) -> Boxes | None:
    """Rows of corners, score and class, of a YOLO that suppresses overlapping boxes itself."""
    if len(values) != 1 or values[0].ndim != 3 or values[0].shape[0] != 1:
        return None
    rows = values[0][0]
    if rows.shape[1] != _SELECTED_COLUMNS or not len(rows):
        return None
    kinds = rows[:, 5].astype(np.int64)
    if (kinds != rows[:, 5]).any() or kinds.min() < 0 or not are_probabilities(rows[:, 4]):
        return None
    corners = rows[:, [1, 0, 3, 2]] / _unit(rows[:, :_BOX], size)
    scores = np.zeros((len(rows), int(kinds.max()) + 1), np.float32)
    scores[np.arange(len(rows)), kinds] = rows[:, 4]
    return Boxes("YOLO that has selected its boxes", corners, scores, overlap=1.0)


def _yolo(values: Sequence[Array], size: tuple[int, int]) -> Boxes | None:
    """Rows or columns of a box and scores for each cell of some grids."""
    if len(values) != 1 or values[0].ndim != 3 or values[0].shape[0] != 1:
        return None
    for strides in _YOLO_STRIDES:
        if not any(length % max(strides) for length in size):
            found = _of_rows(values[0][0], size, strides)
            if found is not None:
                return found
    return None


def _of_rows(rows: Array, size: tuple[int, int], strides_of_grids: Sequence[int]) -> Boxes | None:
    cells = [grid(size, stride) for stride in strides_of_grids]
    centers = np.concatenate(cells)
    is_turned = rows.shape[1] == len(centers) != rows.shape[0]
    rows = rows.T if is_turned else rows
    if rows.shape[1] <= _BOX:
        return None
    if len(rows) == _YOLO_ANCHORS * len(centers):
        name, scores = "YOLO with three anchors in a cell", _with_objectness(rows)
    elif len(rows) != len(centers):
        return None
    elif is_turned:
        name, scores = "YOLO without anchors", probabilities(rows[:, _BOX:])
        if rows.shape[1] == _POSE_COLUMNS:
            scores = scores[:, :1]
    else:
        name, scores = "YOLO without anchors, with objectness", _with_objectness(rows)
    boxes = rows[:, :_BOX]
    if len(rows) == len(centers) and not _follows(boxes, centers):
        # The centres are counted from those of the cells, and the sizes are logarithms.
        name = f"{name}, whose boxes are relative to cells"
        strides = np.repeat(strides_of_grids, list(map(len, cells)))[:, None].astype(np.float32)
        places = centers[:, ::-1] * (size[1], size[0]) - strides / 2
        exponents = np.minimum(boxes[:, 2:], MAX_EXPONENT)
        boxes = np.concatenate([boxes[:, :2] * strides + places, np.exp(exponents) * strides], axis=1)
    unit = _unit(boxes, size)
    return Boxes(name, corners_of(boxes[:, 1::-1] / unit[:2], boxes[:, 3:1:-1] / unit[:2]), scores)


def _with_objectness(rows: Array) -> Array:
    """Returns the scores of classes, of rows that have first that of anything being there."""
    scores = probabilities(rows[:, _BOX:])
    # A model of one class has no further score.
    return scores[:, :1] * scores[:, 1:] if scores.shape[1] > 1 else scores


def _follows(boxes: Array, centers: Array) -> bool:
    """Returns whether the middle of boxes is that of their cells, more or less."""
    x = boxes[:, 0]
    return bool(np.ptp(x) > 0 and np.corrcoef(x, centers[:, 1])[0, 1] > _MIN_CORRELATION)


def _unit(boxes: Array, size: tuple[int, int]) -> Array:
    """Returns the divisors of y, x, y, x to get shares of the image: pixels are larger."""
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
    return max(found, key=lambda each: are_probabilities(each[1]), default=None)
