"""Meanings that the numbers of detectors' heads may have.

Shapes tell the number of anchors, but not how boxes are coded, of which there are several usual
ways. All are tried, and those in which the best boxes agree most is taken.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from neurald.service.tensors.arrays import Array
from neurald.service.tensors.boxes import Boxes, corners_of, exponential, probabilities
from neurald.service.tensors.levels import Level, grids

Size: TypeAlias = tuple[int, int]

#: Heads with boxes, a score that there is anything, and scores of classes.
_PARTS: Final = 3
#: A box, and the score that there is anything in it.
_BOX: Final = 4
_WITH_OBJECT: Final = 5
#: The strides of detectors with pyramids of features, whose boxes and scores are each one output.
_PYRAMIDS: Final = ((8, 16, 32, 64, 128), (16, 32, 64, 128), (8, 16, 32, 64), (8, 16, 32))
#: Bins of the distribution of each of YOLO's distances.
_BINS: Final = 16
_YOLO_ANCHORS: Final = 3
#: YOLO's anchors as width and height in pixels, three for each stride, by the strides of heads.
_V3: Final = ((10, 13), (16, 30), (33, 23), (30, 61), (62, 45), (59, 119), (116, 90), (156, 198), (373, 326))
_V4: Final = ((12, 16), (19, 36), (40, 28), (36, 75), (76, 55), (72, 146), (142, 110), (192, 243), (459, 401))
_TINY: Final = ((10, 14), (23, 27), (37, 58), (81, 82), (135, 169), (344, 319))
_TINY_V4: Final = ((23, 27), (37, 58), (81, 82), (81, 82), (135, 169), (344, 319))
_V5_P6: Final = (
    *((19, 27), (44, 40), (38, 94), (96, 68), (86, 152), (180, 137)),
    *((140, 301), (303, 264), (238, 542), (436, 615), (739, 380), (925, 792)),
)


class _Coding(Struct, frozen=True):
    """A way to code boxes relative to anchors of a pyramid.

    Attributes:
        name: the name of the kind of detector, for display.
        size: the size of an anchor in strides.
        shapes: height and width of each anchor of a cell, without the scale.
        scales: the scales of anchors, from one to below two.
        has_scales_first: whether all shapes of a scale follow each other.
        is_x_first: whether x comes before y, and width before height.
        center, extent: factors of the codes of centres and sizes.
        offset: the offset of the centre of a cell, in strides.
        has_corners: whether corners are coded, instead of centres and sizes.
    """

    name: str
    size: float
    shapes: tuple[tuple[float, float], ...]
    scales: tuple[float, ...]
    has_scales_first: bool = True
    is_x_first: bool = False
    center: float = 1.0
    extent: float = 1.0
    offset: float = 0.5
    has_corners: bool = False


def _ratios(*ratios: float) -> tuple[tuple[float, float], ...]:
    """Returns heights and widths of anchors of an area of 1 by height over width."""
    return tuple((math.sqrt(ratio), 1 / math.sqrt(ratio)) for ratio in ratios)


_THREE_SCALES: Final = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
_EFFICIENT: Final = ((1.0, 1.0), (0.7, 1.4), (1.4, 0.7))
_HALVES: Final = _ratios(0.5, 1.0, 2.0)
#: The most common one first.
_CODINGS: Final = (
    _Coding("EfficientDet-Lite", 3.0, _EFFICIENT, _THREE_SCALES),
    _Coding("EfficientDet", 4.0, _EFFICIENT, _THREE_SCALES),
    _Coding("TensorFlow's RetinaNet", 4.0, _ratios(2.0, 1.0, 0.5), _THREE_SCALES),
    _Coding(
        "Keras' RetinaNet",
        *(4.0, _ratios(2.0, 1.0, 0.5), _THREE_SCALES),
        has_scales_first=False,
        is_x_first=True,
        center=0.1,
        extent=0.2,
    ),
    _Coding(
        "torchvision's RetinaNet",
        *(4.0, _HALVES, _THREE_SCALES),
        has_scales_first=False,
        is_x_first=True,
        offset=0.0,
    ),
    _Coding(
        "RetinaNet with corners",
        *(4.0, _HALVES, _THREE_SCALES),
        has_scales_first=False,
        is_x_first=True,
        center=0.2,
        has_corners=True,
    ),
    _Coding(
        "SSD with a pyramid of features",
        *(4.0, _ratios(1.0, 0.5, 2.0), (1.0, math.sqrt(2))),
        has_scales_first=False,
        center=0.1,
        extent=0.2,
    ),
)


def boxes_of_levels(levels: Sequence[Level], size: Size) -> Iterator[Boxes]:
    """Yields what the heads of grids may mean, most usual first.

    Args:
        levels: the grids.
        size: height and width of the image.
    """
    widths = [head.shape[1] for head in levels[0].heads]
    if len(widths) == 1:
        yield from _combined(levels, size, widths[0])
        return
    split = _split(levels)
    if split is None:
        return
    boxes, objects, scores = split
    numbers = boxes[0].shape[1]
    if objects is not None:
        yield from _x(levels, size, boxes, objects, scores)
    elif numbers == _BOX:
        yield from _distances(levels, size, boxes, scores)
    elif numbers == _BOX * _BINS:
        yield _distributions(levels, size, boxes, scores)
    else:
        yield from _pyramid(
            [level.stride for level in levels],
            np.concatenate([each.reshape(-1, _BOX) for each in boxes]),
            np.concatenate(
                [each.reshape(len(each) * numbers // _BOX, -1) for each in scores],
            ),
            size,
        )


def boxes_of_pair(codes: Array, scores: Array, size: Size) -> Iterator[Boxes]:
    """Yields what codes and scores of all cells may mean, most usual first.

    Args:
        codes: the codes of boxes, with shape (boxes, 4).
        scores: the scores, with shape (boxes, classes).
        size: height and width of the image.
    """
    for strides in _PYRAMIDS:
        yield from _pyramid(strides, codes, scores, size)


def _split(levels: Sequence[Level]) -> tuple[list[Array], list[Array] | None, list[Array]] | None:
    """Returns the boxes of each level, the scores that anything is there, and classes' scores."""
    widths = [head.shape[1] for head in levels[0].heads]
    order = sorted(range(len(widths)), key=lambda place: widths[place])
    if len(widths) == _PARTS:
        boxes = next((place for place in order if widths[place] == _BOX), None)
        single = next((place for place in order if widths[place] == 1), None)
        if boxes is None or single is None:
            return None
        (scores,) = set(order) - {boxes, single}
        parts = [_by_width(level, widths) for level in levels]
        return (
            [part[boxes] for part in parts],
            [part[single] for part in parts],
            [part[scores] for part in parts],
        )
    parts = [_by_width(level, widths) for level in levels]
    fitting = [
        (boxes, 1 - boxes)
        for boxes in (0, 1)
        if widths[boxes] % _BOX == 0
        and (
            widths[boxes] in (_BOX, _BOX * _BINS)
            or (
                widths[boxes] // _BOX in _anchor_counts() and widths[1 - boxes] % (widths[boxes] // _BOX) == 0
            )
        )
    ]
    if not fitting:
        return None
    # Scores are the output with the logits that are small nearly everywhere.
    boxes, scores = min(fitting, key=lambda pair: float(np.mean(parts[0][pair[1]])))
    return [part[boxes] for part in parts], None, [part[scores] for part in parts]


def _by_width(level: Level, widths: Sequence[int]) -> list[Array]:
    """Returns the heads of a level in the order of those of the first one."""
    left = list(level.heads)
    found = []
    for width in widths:
        place = next(place for place, each in enumerate(left) if each.shape[1] == width)
        found.append(left.pop(place))
    return found


def _anchor_counts() -> set[int]:
    return {len(coding.shapes) * len(coding.scales) for coding in _CODINGS}


def _combined(levels: Sequence[Level], size: Size, numbers: int) -> Iterator[Boxes]:
    """Yields what heads with boxes and scores may mean."""
    rows = [level.heads[0] for level in levels]
    strides = tuple(level.stride for level in levels)
    if numbers % _YOLO_ANCHORS == 0 and numbers // _YOLO_ANCHORS > _WITH_OBJECT:
        for name, anchors, are_squares in _yolo_anchors(strides):
            parts = [each.reshape(-1, numbers // _YOLO_ANCHORS) for each in rows]
            yield _anchored(name, levels, size, parts, anchors, are_squares)
    if numbers > _BOX * _BINS:
        yield _distributions(
            levels,
            size,
            [each[:, : _BOX * _BINS] for each in rows],
            [each[:, _BOX * _BINS :] for each in rows],
        )
    if numbers > _WITH_OBJECT:
        boxes, objects, scores = (
            [each[:, begin:end] for each in rows]
            for begin, end in ((0, _BOX), (_BOX, _WITH_OBJECT), (_WITH_OBJECT, None))
        )
        yield from _x(levels, size, boxes, objects, scores)


def _yolo_anchors(
    strides: Sequence[int],
) -> Iterator[tuple[str, Sequence[tuple[int, int]], bool]]:
    """Yields names, anchors, and whether sizes are squares of sigmoids instead of exponentials."""
    if strides == (8, 16, 32):
        yield "YOLO 5", _V3, True
        yield "YOLO 3", _V3, False
        yield "YOLO 4", _V4, False
        yield "YOLO 7", _V4, True
    elif strides == (16, 32):
        yield "YOLO 3 tiny", _TINY, False
        yield "YOLO 4 tiny", _TINY_V4, False
    elif strides == (8, 16, 32, 64):
        yield "YOLO 5 with four grids", _V5_P6, True


def _anchored(
    name: str,
    levels: Sequence[Level],
    size: Size,
    parts: Sequence[Array],
    anchors: Sequence[tuple[int, int]],
    are_squares: bool,
) -> Boxes:
    """Decodes rows of a box, a score that anything is there, and scores: three anchors per cell."""
    corners, scores = [], []
    for place, (level, rows) in enumerate(zip(levels, parts, strict=True)):
        own = np.array(anchors[place * _YOLO_ANCHORS : (place + 1) * _YOLO_ANCHORS], np.float32)
        cells = np.repeat(_cells(size, level.stride), _YOLO_ANCHORS, axis=0)
        sizes = np.tile(own[:, ::-1], (len(cells) // _YOLO_ANCHORS, 1))
        shares = probabilities(rows[:, :2])[:, ::-1]
        if are_squares:
            middle = shares * 2 - 0.5
            extent = (2 * probabilities(rows[:, 2:_BOX])[:, ::-1]) ** 2 * sizes
        else:
            middle = shares
            extent = exponential(rows[:, 3:1:-1]) * sizes
        corners.append(corners_of((cells + middle) * level.stride, extent) / (*size, *size))
        scores.append(_with_object(rows[:, _BOX:]))
    return Boxes(f"{name} with heads", np.concatenate(corners), np.concatenate(scores))


def _with_object(rows: Array) -> Array:
    """Returns the scores of classes, of rows that have first that of anything being there."""
    scores = probabilities(rows)
    return scores[:, :1] * scores[:, 1:]


def _x(
    levels: Sequence[Level],
    size: Size,
    boxes: Sequence[Array],
    objects: Sequence[Array],
    scores: Sequence[Array],
) -> Iterator[Boxes]:
    """Yields boxes whose centres are relative to cells, and whose sizes are logarithms."""
    corners = []
    for level, rows in zip(levels, boxes, strict=True):
        middle = _cells(size, level.stride) + rows[:, 1::-1]
        corners.append(corners_of(middle, exponential(rows[:, 3:1:-1])) * level.stride / (*size, *size))
    values = np.concatenate([np.concatenate(each) for each in (objects, scores)], axis=1)
    yield Boxes("YOLO X with heads", np.concatenate(corners), _with_object(values))


def _distances(
    levels: Sequence[Level], size: Size, boxes: Sequence[Array], scores: Sequence[Array]
) -> Iterator[Boxes]:
    """Yields boxes by the distances of their sides from the middle of a cell."""
    values = probabilities(np.concatenate(list(scores)))
    for name, unit, convert in (
        ("distances in cells", None, np.asarray),
        ("distances in pixels", 1.0, np.asarray),
        ("logarithms of distances in pixels", 1.0, exponential),
    ):
        corners = [
            _sides(size, level.stride, np.asarray(convert(rows)) * (unit or level.stride))
            for level, rows in zip(levels, boxes, strict=True)
        ]
        yield Boxes(f"a detector without anchors, {name}", np.concatenate(corners), values)


def _distributions(
    levels: Sequence[Level], size: Size, boxes: Sequence[Array], scores: Sequence[Array]
) -> Boxes:
    """Decodes distances that are the means of distributions."""
    corners = []
    for level, rows in zip(levels, boxes, strict=True):
        values = rows.reshape(-1, _BOX, _BINS)
        powers = np.exp(values - values.max(-1, keepdims=True))
        means = (powers * np.arange(_BINS)).sum(-1) / powers.sum(-1)
        corners.append(_sides(size, level.stride, means * level.stride))
    return Boxes(
        "YOLO 8 to 11 with heads", np.concatenate(corners), probabilities(np.concatenate(list(scores)))
    )


def _sides(size: Size, stride: int, distances: Array) -> Array:
    """Returns boxes by the distances of left, top, right and bottom from the middle of a cell."""
    middle = (_cells(size, stride) + 0.5) * stride
    corners = np.concatenate([middle - distances[:, 1::-1], middle + distances[:, 3:1:-1]], axis=1)
    return np.asarray(corners / (*size, *size), np.float32)


def _cells(size: Size, stride: int) -> Array:
    """Returns row and column of the cells of a grid, row by row."""
    (found,) = [(rows, columns) for each, rows, columns in grids(size) if each == stride]
    return np.indices(found).reshape(2, -1).T.astype(np.float32)


def _pyramid(strides: Sequence[int], codes: Array, scores: Array, size: Size) -> Iterator[Boxes]:
    """Yields the boxes by all codings with as many anchors."""
    if len(codes) != len(scores):
        return
    values: Array | None = None
    for coding in _CODINGS:
        each = len(coding.shapes) * len(coding.scales)
        if len(codes) != each * sum(
            rows * columns for stride, rows, columns in grids(size) if stride in strides
        ):
            continue
        if values is None:
            values = probabilities(scores)
        yield Boxes(coding.name, _decoded(coding, strides, codes, size), values)


def _decoded(coding: _Coding, strides: Sequence[int], codes: Array, size: Size) -> Array:
    anchors = np.concatenate([_anchors(coding, stride, size) for stride in strides])
    centers, extents = anchors[:, :2], anchors[:, 2:]
    ordered = codes[:, [1, 0, 3, 2]] if coding.is_x_first else codes
    if coding.has_corners:
        corners = corners_of(centers, extents) + ordered * coding.center * np.tile(extents, 2)
    else:
        corners = corners_of(
            centers + ordered[:, :2] * coding.center * extents,
            exponential(ordered[:, 2:] * coding.extent) * extents,
        )
    return np.asarray(corners / (*size, *size), np.float32)


def _anchors(coding: _Coding, stride: int, size: Size) -> Array:
    """Returns centre y and x, height and width of the anchors of a grid, in pixels."""
    pairs = [
        (scale * height, scale * width)
        for scale, (height, width) in (
            ((scale, shape) for scale in coding.scales for shape in coding.shapes)
            if coding.has_scales_first
            else ((scale, shape) for shape in coding.shapes for scale in coding.scales)
        )
    ]
    centers = (_cells(size, stride) + coding.offset) * stride
    extents = np.array(pairs, np.float32) * coding.size * stride
    return np.concatenate(
        [np.repeat(centers, len(pairs), axis=0), np.tile(extents, (len(centers), 1))], axis=1
    ).astype(np.float32)
