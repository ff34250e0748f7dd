"""Detectors whose outputs are places relative to anchors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

from neurald.hal.model.types import Lifetime, Model, Operand, OperandType, Subgraph
from neurald.service.tensors.anchors import mediapipe_anchors, ssd_anchors
from neurald.service.tensors.detector_options import DetectorOptions, detector_options
from neurald.service.tensors.findings import find_raw_detections

#: Top, left, bottom, right.
BOX = (0.2, 0.3, 0.6, 0.9)
CENTRE_Y, CENTRE_X, HEIGHT, WIDTH = 0.4, 0.6, 0.4, 0.6


def detector(size: tuple[int, int], *shapes: tuple[int, ...]) -> Model:
    operands = tuple(
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=shape, lifetime=lifetime)
        for shape, lifetime in [
            ((1, *size, 3), Lifetime.SUBGRAPH_INPUT),
            *((shape, Lifetime.SUBGRAPH_OUTPUT) for shape in shapes),
        ]
    )
    return Model(
        main=Subgraph(operands=operands, operations=(), inputs=(0,), outputs=tuple(range(1, len(operands))))
    )


def found(
    size: tuple[int, int],
    outputs: Sequence[Any],
    labels: Sequence[str] | None = None,
    options: DetectorOptions | None = None,
) -> list[dict[str, Any]] | None:
    model = detector(size, *(each.shape for each in outputs))
    result = find_raw_detections(
        model, [np.asarray(each, np.float32) for each in outputs], labels, 2, options
    )
    return None if result is None else result[0]


def assert_box(detections: list[dict[str, Any]] | None, number: int, label: str | None) -> dict[str, Any]:
    """Asserts that the best detection has the box, and that the next one is another box."""
    assert detections is not None
    best, following = detections
    sides = ("top", "left", "bottom", "right")
    assert [best[side] for side in sides] == pytest.approx(BOX, abs=1e-5)
    assert (best["class"], best["label"]) == (number, label)
    assert best["score"] > 0.9 > following["score"]
    return best


@pytest.mark.parametrize(
    ("size", "boxes", "points"),
    [(128, 896, 6), (192, 2304, 6), (192, 2016, 7), (224, 2254, 4), (256, 2944, 7)],
)
def test_detectors_of_mediapipe(size: int, boxes: int, points: int) -> None:
    anchors = mediapipe_anchors((size, size), boxes)
    assert anchors is not None
    places, scores = np.zeros((1, boxes, 4 + 2 * points)), np.full((1, boxes, 1), -200.0)
    # A second one with nearly the same box, and one elsewhere.
    for number, score in ((700, 5.0), (701, 4.0), (3, 1.0)):
        y, x = anchors.boxes[number, :2]
        places[0, number, :4] = (CENTRE_X - x) * size, (CENTRE_Y - y) * size, WIDTH * size, HEIGHT * size
        places[0, number, 4:6] = (0.5 - x) * size, (0.25 - y) * size
        scores[0, number] = score
    places[0, 3, :4] = 0, 0, 1, 1
    best = assert_box(found((size, size), [scores, places]), 0, None)
    assert len(best["keypoints"]) == points
    assert (best["keypoints"][0]["y"], best["keypoints"][0]["x"]) == pytest.approx((0.25, 0.5))
    assert best["keypoints"][0]["name"] == ("right eye" if points == 6 else "point 0")


def test_ssd() -> None:
    anchors = ssd_anchors((300, 300), 1917)
    assert anchors is not None
    # Those of a cell of the first grid, and the last box of all.
    np.testing.assert_allclose(
        anchors.boxes[:3],
        [
            [1 / 38, 1 / 38, side / ratio, side * ratio]
            for side, ratio in ((0.1, 1), (0.2, 2**0.5), (0.2, 0.5**0.5))
        ],
        rtol=1e-6,
    )
    np.testing.assert_allclose(anchors.boxes[-1], [0.5, 0.5, 0.974679, 0.974679], rtol=1e-5)
    y, x, height, width = anchors.boxes[900]
    places, scores = np.zeros((1, 1917, 4)), np.zeros((1, 1917, 4))
    places[0, 900] = (
        (CENTRE_Y - y) / height * 10,
        (CENTRE_X - x) / width * 10,
        np.log(HEIGHT / height) * 5,
        np.log(WIDTH / width) * 5,
    )
    # The first class stands for no object.
    scores[0, :, 0], scores[0, 900, 2] = 0.99, 0.95
    scores = np.concatenate([scores, scores[..., 1:2]], -1)
    for labels in (["cat", "dog", "bird", "fish"], ["none", "cat", "dog", "bird", "fish"]):
        assert_box(found((300, 300), [places, scores], labels), 1, "dog")
    logits = np.log(np.clip(scores, 1e-3, 1) / (1.001 - np.clip(scores, 1e-3, 1)))
    assert_box(found((300, 300), [logits, places]), 1, None)


def test_yolo() -> None:
    size, cells = (64, 96), 8 * 12 + 4 * 6 + 2 * 3
    raw = np.zeros((1, cells, 7))
    # Cell 2, 3 of the second grid, of 16 pixels.
    raw[0, 96 + 2 * 6 + 3] = [
        CENTRE_X * 96 / 16 - 3,
        CENTRE_Y * 64 / 16 - 2,
        np.log(WIDTH * 96 / 16),
        np.log(HEIGHT * 64 / 16),
        0.98,
        0,
        1,
    ]
    assert_box(found(size, [raw], ["cat", "dog"]), 1, "dog")
    for pixels in (1, np.array([96, 64, 96, 64])):
        row = [*(np.array([CENTRE_X, CENTRE_Y, WIDTH, HEIGHT]) * pixels), 0.98, 0, 1]
        computed = np.zeros((1, 3 * cells, 7))
        computed[0, 50] = row
        assert_box(found(size, [computed], ["cat", "dog"]), 1, "dog")
        without = np.zeros((1, 6, cells))
        without[0, :, 50] = [*row[:4], 0, 0.95]
        assert_box(found(size, [without]), 1, None)


def test_other_models_have_no_boxes() -> None:
    size = (128, 128)
    places, scores = np.zeros((1, 896, 16)), np.zeros((1, 896, 1))
    for outputs in (
        [places],
        [places, scores[:, :895]],
        [places[:, :895], scores[:, :895]],
        [places[..., :15], scores],
        [places[..., :4], np.zeros((1, 896, 4))],
        [places[..., :4], np.zeros((1, 896, 9))],
        [places[0], scores[0]],
        [places * np.nan, scores],
        [places, scores, scores],
        [np.zeros((1, 336, 9))],
    ):
        assert found(size, outputs, ["a"] * 3) is None
    assert found((0, 128), [places, scores]) is None


def metadata(anchors: Sequence[tuple[float, ...]], *, exponential: bool) -> bytes:
    """Returns the metadata of a detector: centres x and y, width and height of anchors."""
    inner = flatbuffers.Builder()

    def table(*fields: tuple[int, str, Any]) -> int:
        inner.StartObject(12)
        for number, kind, value in fields:
            getattr(inner, f"Prepend{kind}Slot")(number, value, 0)
        return int(inner.EndObject())

    def vector(items: Sequence[int]) -> int:
        inner.StartVector(4, len(items), 4)
        for each in reversed(items):
            inner.PrependUOffsetTRelative(each)
        return int(inner.EndVector())

    rows = [table(*((n, "Float32", value) for n, value in enumerate(each))) for each in anchors]
    schema = table((0, "UOffsetTRelative", vector(rows)))
    options = table((0, "UOffsetTRelative", schema))
    decoding = table(
        *((number, "Float32", scale) for number, scale in ((6, 10.0), (7, 20.0), (8, 5.0), (9, 4.0))),
        (10, "Bool", exponential),
    )
    root = table((1, "UOffsetTRelative", options), (2, "UOffsetTRelative", decoding))
    inner.Finish(root, file_identifier=b"V001")
    return wrapped(wrapped(bytes(inner.Output()), b"M001"), b"TFL3")


def wrapped(content: bytes, identifier: bytes) -> bytes:
    """Returns TFLite's metadata with a custom part, or a model file with metadata."""
    outer = flatbuffers.Builder()
    data = outer.CreateByteVector(content)
    is_model = identifier == b"TFL3"
    name = outer.CreateString("TFLITE_METADATA" if is_model else "DETECTOR_METADATA")

    def one(start: int) -> int:
        outer.StartVector(4, 1, 4)
        outer.PrependUOffsetTRelative(start)
        return int(outer.EndVector())

    outer.StartObject(2)
    if is_model:
        outer.PrependUOffsetTRelativeSlot(0, data, 0)
        buffers = one(int(outer.EndObject()))
        outer.StartObject(2)
        outer.PrependUOffsetTRelativeSlot(0, name, 0)
        entries = one(int(outer.EndObject()))
        fields = ((4, buffers), (6, entries))
    else:
        outer.PrependUOffsetTRelativeSlot(0, name, 0)
        outer.PrependUOffsetTRelativeSlot(1, data, 0)
        custom = one(int(outer.EndObject()))
        outer.StartObject(10)
        outer.PrependUOffsetTRelativeSlot(9, custom, 0)
        fields = ((3, one(int(outer.EndObject()))),)
    outer.StartObject(8)
    for number, value in fields:
        outer.PrependUOffsetTRelativeSlot(number, value, 0)
    outer.Finish(outer.EndObject(), file_identifier=identifier)
    return bytes(outer.Output())


@pytest.mark.parametrize("exponential", [False, True])
def test_anchors_of_the_file(tmp_path: Path, exponential: bool) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(metadata([(0.5, 0.5, 0.2, 0.4), (0.1, 0.1, 0.1, 0.1)], exponential=exponential))
    options = detector_options(path)
    assert options is not None
    assert options.scales == (20, 10, 4, 5)
    width, height = (np.log(3), 0.0) if exponential else (3, 1)
    places = np.array([[[-0.25 * 20, 0.5 * 10, height * 4, width * 5], [0, 0, 0, 0]]])
    scores = np.array([[[0.0, 0.95], [0.5, 0.0]]])
    assert_box(found((32, 32), [places, scores], None, options), 1, None)
    assert found((32, 32), [places[:, :1], scores[:, :1]], None, options) is None


def test_damaged_metadata(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    sound = metadata([(0.5, 0.5, 0.2, 0.4)], exponential=True)
    rng = np.random.default_rng(0)
    for number in range(300):
        damaged = bytearray(sound[: len(sound) - number % 7])
        for place in rng.integers(0, len(damaged), 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        options = detector_options(path)
        assert options is None or np.isfinite(options.anchors.boxes).all()
    assert detector_options(tmp_path / "missing") is None
