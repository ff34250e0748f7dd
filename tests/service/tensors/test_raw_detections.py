"""Boxes that are planted in the outputs of each kind of detector are found again."""

import numpy as np
import pytest
from support.models.outputs import model_of
from support.models.small import add_model

from neurald.service.tensors.anchors import grid, mediapipe_anchors, ssd_anchors
from neurald.service.tensors.arrays import Array
from neurald.service.tensors.raw_detections import find_raw_detections, is_like_a_detector

pytestmark = pytest.mark.quick

SIZE = (96, 128)
#: Class, score, and the box as top, left, bottom and right.
PLANTED = (
    (1, 0.9, (0.125, 0.25, 0.375, 0.75)),
    (0, 0.75, (0.5, 0.5, 0.75, 0.875)),
    (2, 0.5, (0.375, 0.125, 0.625, 0.25)),
)
CLASSES = 3


def assert_found(size: tuple[int, int], name: str, *outputs: Array) -> None:
    found = find_raw_detections(model_of(*outputs), outputs, size, len(PLANTED))
    assert found is not None
    assert found[0] == name
    for each, (kind, score, box) in zip(found[1], PLANTED, strict=True):
        assert each.kind == kind
        assert each.score == pytest.approx(score, abs=1e-5)
        np.testing.assert_allclose(each.box, box, atol=1e-5)


def cells() -> tuple[Array, Array]:
    """Returns the centres of the cells of YOLO, and the strides."""
    grids = [grid(SIZE, stride) for stride in (8, 16, 32)]
    strides = np.repeat([8, 16, 32], [len(each) for each in grids])
    return np.concatenate(grids), strides


def yolo(anchors: int = 1) -> tuple[Array, Array]:
    """Returns centre x, y, width and height for each cell as shares of the image, and scores.

    Next to the planted boxes there are worse ones that overlap with them.
    """
    centers, _ = cells()
    boxes = np.concatenate([centers[:, ::-1], np.full_like(centers, 0.05)], axis=1)
    scores = np.full((len(boxes), CLASSES), 0.001, np.float32)
    for kind, score, (top, left, bottom, right) in PLANTED:
        middle = np.array([(top + bottom) / 2, (left + right) / 2])
        order = np.argsort(np.abs(centers - middle).sum(1), kind="stable")
        places = [place for place in order.tolist() if scores[place].max() < 0.01][:3]
        for worse, place in enumerate(places):
            boxes[place] = *middle[::-1] + worse * 0.002, right - left, bottom - top
            scores[place, kind] = score - worse * 0.1
    return np.tile(boxes, (anchors, 1)), np.tile(scores, (anchors, 1))


@pytest.mark.parametrize("unit", [1, (128, 96, 128, 96)])
def test_yolo_with_and_without_anchors(unit: int | tuple[int, ...]) -> None:
    boxes, scores = yolo()
    columns = np.concatenate([boxes * unit, scores], axis=1).T
    assert_found(SIZE, "YOLO without anchors", columns[None].astype(np.float32))
    # The score that anything is there counts, too.
    with_objects = np.concatenate([boxes * unit, np.sqrt(scores.max(1, keepdims=True)), scores], axis=1)
    with_objects[:, 5:] /= with_objects[:, 4:5]
    name = "YOLO without anchors, with objectness"
    assert_found(SIZE, name, with_objects[None].astype(np.float32))
    three = np.tile(with_objects, (3, 1))
    assert_found(SIZE, "YOLO with three anchors in a cell", three[None].astype(np.float32))


def test_yolo_whose_boxes_are_relative_to_cells() -> None:
    boxes, scores = yolo()
    centers, strides = cells()
    pixels = boxes * (128, 96, 128, 96)
    corners = centers[:, ::-1] * (128, 96) - strides[:, None] / 2
    codes = np.concatenate(
        [(pixels[:, :2] - corners) / strides[:, None], np.log(pixels[:, 2:] / strides[:, None])], axis=1
    )
    rows = np.concatenate([codes, np.ones((len(codes), 1)), scores], axis=1)[None].astype(np.float32)
    assert_found(SIZE, "YOLO without anchors, with objectness, whose boxes are relative to cells", rows)


def test_yolo_that_has_selected_its_boxes() -> None:
    rows = np.zeros((1, 300, 6), np.float32)
    for place, (kind, score, (top, left, bottom, right)) in enumerate(PLANTED):
        rows[0, 7 + place] = left, top, right, bottom, score, kind
    assert_found(SIZE, "YOLO that has selected its boxes", rows)
    rows[..., :4] *= (128, 96, 128, 96)
    assert_found(SIZE, "YOLO that has selected its boxes", rows)
    rows[0, 0, 5] = 0.5
    assert find_raw_detections(model_of(rows), [rows], SIZE, 3) is None


@pytest.mark.parametrize("are_logits", [False, True])
@pytest.mark.parametrize("are_turned", [False, True])
@pytest.mark.parametrize("classes", [CLASSES, CLASSES + 3])
def test_ssd(are_logits: bool, are_turned: bool, classes: int) -> None:
    if are_logits and are_turned and classes == CLASSES:
        pytest.skip("nothing tells four scores from four numbers of a box")
    size = (320, 320)
    anchors = ssd_anchors(size, 2034)
    assert anchors is not None
    codes, scores = np.zeros((1, 2034, 4), np.float32), np.full((1, 2034, classes + 1), 1e-4, np.float32)
    for place, (kind, score, (top, left, bottom, right)) in enumerate(PLANTED):
        y, x, height, width = anchors[100 * place]
        codes[0, 100 * place] = (
            ((top + bottom) / 2 - y) / height * 10,
            ((left + right) / 2 - x) / width * 10,
            np.log((bottom - top) / height) * 5,
            np.log((right - left) / width) * 5,
        )
        scores[0, 100 * place, kind + 1] = score
    if are_logits:
        scores = np.log(scores / (1 - scores))
    assert_found(size, "SSD with six layers", *((scores, codes) if are_turned else (codes, scores)))


def test_mediapipe() -> None:
    size = (128, 128)
    found = mediapipe_anchors(size, 896)
    assert found is not None
    codes, scores = np.zeros((1, 896, 16), np.float32), np.full((1, 896, 1), -90, np.float32)
    top, left, bottom, right = PLANTED[0][2]
    y, x = found[0][300]
    codes[0, 300, :4] = np.array(
        [(left + right) / 2 - x, (top + bottom) / 2 - y, right - left, bottom - top]
    ) * (128, 128, 128, 128)
    scores[0, 300] = 2
    boxes = find_raw_detections(model_of(codes, scores), [codes, scores], size, 1)
    assert boxes is not None
    assert boxes[0] == "MediaPipe with layers of strides 8, 16, 16, 16"
    assert boxes[1][0].score == pytest.approx(1 / (1 + np.exp(-2)))
    np.testing.assert_allclose(boxes[1][0].box, PLANTED[0][2], atol=1e-6)


def test_other_models_are_no_detectors_or_of_an_unknown_kind() -> None:
    for shapes, is_like in (
        ([(1, 10)], False),
        ([(1, 16, 4)], False),
        ([(1, 1000, 4), (1, 1000, 5)], True),
        ([(1, 7000, 85)], True),
        ([(1, 84, 7000)], True),
        ([(1, 13, 13, 7), (1, 26, 26, 3)], True),
        ([(1, 64, 64, 1)], False),
        ([(1, 5, 4)] * 3, False),
    ):
        outputs = [np.zeros(shape, np.float32) for shape in shapes]
        assert find_raw_detections(model_of(*outputs), outputs, (416, 416), 5) is None
        assert is_like_a_detector(outputs) == is_like, shapes
    texts = [np.full((1, 3549, 85), b"", object)]
    assert find_raw_detections(add_model((2,)), texts, (416, 416), 5) is None


def test_hostile_values() -> None:
    for value in (np.nan, np.inf, -np.inf, 3e38, -3e38):
        rows = np.full((1, 3549, 85), value, np.float32)
        codes, scores = np.full((1, 2034, 4), value, np.float32), np.full((1, 2034, 91), value, np.float32)
        with np.errstate(all="ignore"):
            for size, outputs in (((416, 416), [rows]), ((320, 320), [codes, scores])):
                assert find_raw_detections(model_of(*outputs), outputs, size, 5) is not None
