"""Boxes planted in the heads of each kind of detector are found again, with the kind's name.

The numbers are made here by the formulas of the projects that train such detectors.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support.models.outputs import model_of

from neurald.service.tensors.arrays import Array
from neurald.service.tensors.raw_detections import find_raw_detections

pytestmark = pytest.mark.quick

HEIGHT, WIDTH = SIZE = (128, 192)
CLASSES = 5
#: Class, score, and the box as top, left, bottom and right in pixels.
PLANTED = ((3, 0.9, (16, 20, 64, 90)), (1, 0.8, (60, 110, 120, 180)))
#: How many cells or anchors see each of them.
SEEN_BY = 4


def logit(score: float) -> float:
    return math.log(score / (1 - score))


def planted(places: Array) -> list[tuple[int, int, float, tuple[int, ...]]]:
    """Returns places near each box, as rows of y and x, with class, score and box."""
    found: list[tuple[int, int, float, tuple[int, ...]]] = []
    for kind, score, box in PLANTED:
        middle = np.array([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2])
        near = np.argsort(np.abs(places - middle).sum(1), kind="stable")[:SEEN_BY]
        found += [(int(place), kind, score - 0.01 * worse, box) for worse, place in enumerate(near)]
    return found


def assert_found(name: str, outputs: Sequence[Array]) -> None:
    outputs = [each.astype(np.float32) for each in outputs]
    found = find_raw_detections(model_of(*outputs), outputs, SIZE, len(PLANTED))
    assert found is not None
    assert found[0] == name
    for each, (kind, score, box) in zip(found[1], PLANTED, strict=True):
        assert each.kind == kind
        assert each.score == pytest.approx(score, abs=1e-4)
        np.testing.assert_allclose(each.box, np.array(box) / (*SIZE, *SIZE), atol=1e-4)


def cells(strides: Sequence[int]) -> Array:
    """Returns row, column and stride of all cells."""
    return np.array(
        [
            (row, column, stride)
            for stride in strides
            for row in range(HEIGHT // stride)
            for column in range(WIDTH // stride)
        ],
        np.float64,
    )


def as_heads(rows: Array, strides: Sequence[int], anchors: int = 1) -> list[Array]:
    """Returns the rows of all cells, one after the other, as one image for each stride."""
    heads, begin = [], 0
    for stride in strides:
        height, width = HEIGHT // stride, WIDTH // stride
        end = begin + height * width * anchors
        heads.append(rows[begin:end].reshape(1, height, width, -1))
        begin = end
    return heads


Encode = Callable[[Array, Array, Array, tuple[int, ...]], Sequence[float]]


def efficient(y: Array, anchor: Array, _: Array, box: tuple[int, ...]) -> Sequence[float]:
    top, left, bottom, right = box
    height, width = anchor
    return (
        ((top + bottom) / 2 - y[0]) / height,
        ((left + right) / 2 - y[1]) / width,
        math.log((bottom - top) / height),
        math.log((right - left) / width),
    )


def keras(y: Array, anchor: Array, _: Array, box: tuple[int, ...]) -> Sequence[float]:
    dy, dx, dh, dw = efficient(y, anchor, _, box)
    return dx / 0.1, dy / 0.1, dw / 0.2, dh / 0.2


def torch(y: Array, anchor: Array, _: Array, box: tuple[int, ...]) -> Sequence[float]:
    dy, dx, dh, dw = efficient(y, anchor, _, box)
    return dx, dy, dw, dh


def corners(y: Array, anchor: Array, _: Array, box: tuple[int, ...]) -> Sequence[float]:
    height, width = anchor
    top, left, bottom, right = box
    return (
        (left - y[1] + width / 2) / width / 0.2,
        (top - y[0] + height / 2) / height / 0.2,
        (right - y[1] - width / 2) / width / 0.2,
        (bottom - y[0] - height / 2) / height / 0.2,
    )


def ssd(y: Array, anchor: Array, _: Array, box: tuple[int, ...]) -> Sequence[float]:
    dy, dx, dh, dw = efficient(y, anchor, _, box)
    return dy * 10, dx * 10, dh * 5, dw * 5


def octaves(size: float, aspects: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [
        (size * 2 ** (octave / 3) * y, size * 2 ** (octave / 3) * x)
        for octave in range(3)
        for y, x in aspects
    ]


def by_ratio(ratios: Sequence[float]) -> list[tuple[float, float]]:
    """Returns heights and widths by their ratio, and the scales of a ratio one after another."""
    return [
        (4 * 2 ** (octave / 3) * math.sqrt(ratio), 4 * 2 ** (octave / 3) / math.sqrt(ratio))
        for ratio in ratios
        for octave in range(3)
    ]


PYRAMIDS: dict[str, tuple[list[tuple[float, float]], float, Encode]] = {
    "EfficientDet-Lite": (octaves(3, ((1, 1), (0.7, 1.4), (1.4, 0.7))), 0.5, efficient),
    "EfficientDet": (octaves(4, ((1, 1), (0.7, 1.4), (1.4, 0.7))), 0.5, efficient),
    # TensorFlow's ratios are width over height.
    "TensorFlow's RetinaNet": (
        octaves(4, [(ratio**-0.5, ratio**0.5) for ratio in (0.5, 1, 2)]),
        0.5,
        efficient,
    ),
    "Keras' RetinaNet": (by_ratio((2, 1, 0.5)), 0.5, keras),
    "torchvision's RetinaNet": (by_ratio((0.5, 1, 2)), 0.0, torch),
    "RetinaNet with corners": (by_ratio((0.5, 1, 2)), 0.5, corners),
    "SSD with a pyramid of features": (
        [
            (4 * scale / math.sqrt(ratio), 4 * scale * math.sqrt(ratio))
            for ratio in (1, 2, 0.5)
            for scale in (1, math.sqrt(2))
        ],
        0.5,
        ssd,
    ),
}


def pyramid(name: str, strides: Sequence[int]) -> tuple[Array, Array]:
    """Returns codes and the logits of scores for all anchors."""
    shapes, offset, encode = PYRAMIDS[name]
    all_cells = cells(strides)
    centers = np.repeat((all_cells[:, :2] + offset) * all_cells[:, 2:], len(shapes), axis=0)
    extents = (all_cells[:, 2, None, None] * np.array(shapes)).reshape(-1, 2)
    codes = np.zeros((len(centers), 4))
    scores = np.full((len(centers), CLASSES), logit(0.001))
    # Anchors of different cells, scales and shapes, not only the nearest ones.
    for start in range(0, len(shapes), 2):
        for place, kind, score, box in planted(centers[start :: len(shapes)]):
            anchor = place * len(shapes) + start
            codes[anchor] = encode(centers[anchor], extents[anchor], extents[anchor], box)
            scores[anchor, kind] = logit(score - 0.02 * start)
    return codes, scores


@pytest.mark.parametrize("name", PYRAMIDS)
def test_pyramids_of_features(name: str) -> None:
    strides = (8, 16, 32, 64)
    codes, scores = pyramid(name, strides)
    anchors = len(PYRAMIDS[name][0])
    heads = [as_heads(each, strides, anchors) for each in (scores, codes)]
    assert_found(name, [*heads[0], *heads[1]])
    assert_found(name, [head for pair in zip(heads[1][::-1], heads[0][::-1], strict=True) for head in pair])
    assert_found(name, [codes[None], scores[None]])
    assert_found(name, [1 / (1 + np.exp(-scores[None])), codes[None]])


V3 = ((10, 13), (16, 30), (33, 23), (30, 61), (62, 45), (59, 119), (116, 90), (156, 198), (373, 326))
V4 = ((12, 16), (19, 36), (40, 28), (36, 75), (76, 55), (72, 146), (142, 110), (192, 243), (459, 401))
TINY = ((10, 14), (23, 27), (37, 58), (81, 82), (135, 169), (344, 319))
P6 = (
    *((19, 27), (44, 40), (38, 94), (96, 68), (86, 152), (180, 137)),
    *((140, 301), (303, 264), (238, 542), (436, 615), (739, 380), (925, 792)),
)


@pytest.mark.parametrize(
    ("name", "strides", "anchors", "are_squares"),
    [
        ("YOLO 3", (8, 16, 32), V3, False),
        ("YOLO 4", (8, 16, 32), V4, False),
        ("YOLO 5", (8, 16, 32), V3, True),
        ("YOLO 7", (8, 16, 32), V4, True),
        ("YOLO 3 tiny", (16, 32), TINY, False),
        ("YOLO 4 tiny", (16, 32), (*TINY[1:4], *TINY[3:]), False),
        ("YOLO 5 with four grids", (8, 16, 32, 64), P6, True),
    ],
)
def test_yolo_with_anchors(
    name: str, strides: Sequence[int], anchors: Sequence[tuple[int, int]], are_squares: bool
) -> None:
    all_cells = cells(strides)
    sizes = np.concatenate(
        [
            np.tile(np.array(anchors[3 * place : 3 * place + 3]), (int((all_cells[:, 2] == stride).sum()), 1))
            for place, stride in enumerate(strides)
        ]
    )
    all_cells = np.repeat(all_cells, 3, axis=0)
    rows = np.full((len(all_cells), 5 + CLASSES), logit(0.001))
    rows[:, :4] = -1
    for kind, score, (top, left, bottom, right) in PLANTED:
        y, x = (top + bottom) / 2, (left + right) / 2
        seen = 0
        for place, ((row, column, stride), (width, height)) in enumerate(zip(all_cells, sizes, strict=True)):
            shares = np.array([x / stride - column, y / stride - row])
            extents = np.array([(right - left) / width, (bottom - top) / height])
            if are_squares:
                codes = np.concatenate([(shares + 0.5) / 2, np.sqrt(extents) / 2])
                if codes.min() <= 0.01 or codes.max() >= 0.99:
                    continue
                codes = np.log(codes / (1 - codes))
            elif shares.min() > 0.01 and shares.max() < 0.99:
                codes = np.concatenate([np.log(shares / (1 - shares)), np.log(extents)])
            else:
                continue
            rows[place, :4] = codes
            rows[place, 4] = logit(math.sqrt(score - 0.01 * seen))
            rows[place, 5 + kind] = logit(math.sqrt(score - 0.01 * seen))
            seen += 1
        assert seen > 2
    heads = as_heads(rows, strides, 3)
    assert_found(f"{name} with heads", heads)
    split = [each.reshape(*each.shape[:3], 3, -1) for each in heads]
    assert_found(f"{name} with heads", split)
    assert_found(f"{name} with heads", [each.transpose(0, 3, 1, 2, 4) for each in split][::-1])
    assert_found(f"{name} with heads", [each.transpose(0, 3, 4, 1, 2) for each in split])
    assert_found(f"{name} with heads", [each.transpose(0, 3, 1, 2) for each in heads])


def by_cell(
    encode: Callable[[float, float, float, tuple[int, ...]], Sequence[float] | Array], strides: Sequence[int]
) -> tuple[Array, Array]:
    """Returns codes and logits of scores for the cells that are nearest to the planted boxes."""
    all_cells = cells(strides)
    middles = (all_cells[:, :2] + 0.5) * all_cells[:, 2:]
    codes = None
    scores = np.full((len(all_cells), CLASSES), logit(0.001))
    for place, kind, score, box in planted(middles):
        row, column, stride = all_cells[place]
        values = encode(row, column, stride, box)
        codes = np.zeros((len(all_cells), len(values))) if codes is None else codes
        codes[place] = values
        scores[place, kind] = logit(score)
    assert codes is not None
    return codes, scores


def sides(row: float, column: float, stride: float, box: tuple[int, ...]) -> Array:
    top, left, bottom, right = box
    y, x = (row + 0.5) * stride, (column + 0.5) * stride
    return np.array([x - left, y - top, right - x, bottom - y])


def test_yolo_without_anchors() -> None:
    def encode(row: float, column: float, stride: float, box: tuple[int, ...]) -> Array:
        values = np.full((4, 16), -20.0)
        for side, distance in enumerate(sides(row, column, stride, box) / stride):
            below = int(distance)
            values[side, below] = math.log(max(below + 1 - distance, 1e-9))
            values[side, below + 1] = math.log(max(distance - below, 1e-9))
        return values.reshape(-1)

    strides = (8, 16, 32)
    codes, scores = by_cell(encode, strides)
    heads = as_heads(np.concatenate([codes, scores], axis=1), strides)
    assert_found("YOLO 8 to 11 with heads", heads)
    assert_found("YOLO 8 to 11 with heads", [each.transpose(0, 3, 1, 2) for each in heads])
    apart = [*as_heads(codes, strides), *as_heads(scores, strides)]
    assert_found("YOLO 8 to 11 with heads", apart)


def test_yolo_x() -> None:
    def encode(row: float, column: float, stride: float, box: tuple[int, ...]) -> Sequence[float]:
        top, left, bottom, right = box
        return (
            (left + right) / 2 / stride - column,
            (top + bottom) / 2 / stride - row,
            math.log((right - left) / stride),
            math.log((bottom - top) / stride),
        )

    strides = (8, 16, 32)
    codes, scores = by_cell(encode, strides)
    something = np.full((len(codes), 1), 20.0)
    together = np.concatenate([codes, something, scores], axis=1)
    assert_found("YOLO X with heads", as_heads(together, strides))
    parts = [as_heads(each, strides) for each in (codes, something, scores)]
    assert_found("YOLO X with heads", [head for level in zip(*parts, strict=True) for head in level])


@pytest.mark.parametrize(
    ("name", "encode"),
    [
        ("distances in cells", lambda row, column, stride, box: sides(row, column, stride, box) / stride),
        ("distances in pixels", sides),
        (
            "logarithms of distances in pixels",
            lambda row, column, stride, box: np.log(sides(row, column, stride, box)),
        ),
    ],
)
def test_distances(name: str, encode: Callable[[float, float, float, tuple[int, ...]], Array]) -> None:
    strides = (8, 16, 32)
    codes, scores = by_cell(encode, strides)
    heads = [*as_heads(scores, strides), *as_heads(codes, strides)]
    assert_found(f"a detector without anchors, {name}", heads)


@pytest.mark.parametrize(
    "name", ["centre and size", "left, top, right and bottom", "top, left, bottom and right"]
)
@pytest.mark.parametrize("unit", [1, WIDTH])
def test_boxes_and_scores_apart(name: str, unit: int) -> None:
    strides = (8, 16, 32)
    all_cells = cells(strides)
    middles = (all_cells[:, :2] + 0.5) * all_cells[:, 2:]
    boxes = np.concatenate([middles - 6, middles + 10], axis=1)
    scores = np.full((len(boxes), CLASSES), 0.001)
    for place, kind, score, box in planted(middles):
        boxes[place], scores[place, kind] = box, score
    if unit == 1:
        boxes /= (*SIZE, *SIZE)
    top, left, bottom, right = boxes.T
    ordered = {
        "centre and size": ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top),
        "left, top, right and bottom": (left, top, right, bottom),
        "top, left, bottom and right": (top, left, bottom, right),
    }[name]
    codes = np.stack(ordered, axis=1)
    assert_found(f"YOLO with boxes as {name}, and scores", [codes[None], scores[None]])
    each_three_times = [np.repeat(each, 3, axis=0)[None] for each in (codes, scores)]
    assert_found(f"YOLO with boxes as {name}, and scores", each_three_times)


def test_without_boxes_that_agree_the_kind_is_a_guess() -> None:
    strides = (8, 16, 32, 64)
    codes, scores = pyramid("EfficientDet-Lite", strides)
    outputs = [np.zeros_like(codes)[None], np.full_like(scores, logit(0.01))[None]]
    found = find_raw_detections(model_of(*outputs), outputs, SIZE, 3)
    assert found is not None
    assert "which is a guess, since no boxes for the same thing agree; others with such shapes" in found[0]
    assert "RetinaNet" in found[0]
