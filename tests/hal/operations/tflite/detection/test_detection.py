from typing import Any

import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate_all, given, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

FLOAT32, QUANT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM
DETECTION = OperationType.TFLITE_DETECTION_POSTPROCESS
SETTINGS: dict[str, Any] = {
    "detections": 6,
    "classes_per_detection": 1,
    "detections_per_class": 100,
    "classes": 3,
    "per_class": False,
    "score_threshold": 0.3,
    "iou_threshold": 0.4,
    "scale_y": 10.0,
    "scale_x": 9.0,
    "scale_height": 5.0,
    "scale_width": 4.0,
}


def evaluate(boxes: Given, scores: Given, anchors: Given, **changes: Any) -> tuple[Array, ...]:
    settings = scalars(*{**SETTINGS, **changes}.values())
    return evaluate_all(DETECTION, (boxes, scores, anchors, *settings), *[wanted(FLOAT32)] * 4)


def real_boxes(codes: Array, anchors: Array) -> Array:
    centers = codes[:, :2] / (10, 9) * anchors[:, 2:] + anchors[:, :2]
    half_extents = np.exp(codes[:, 2:] / (5, 4)) * anchors[:, 2:] / 2
    return np.concatenate((centers - half_extents, centers + half_extents), axis=1)


def iou(first: Array, second: Array) -> float:
    sides = np.minimum(first[2:], second[2:]) - np.maximum(first[:2], second[:2])
    shared = float(np.maximum(sides, 0).prod())
    areas = [float((box[2:] - box[:2]).prod()) for box in (first, second)]
    return shared / (sum(areas) - shared)


def suppress(boxes: Array, scores: Array, limit: int) -> list[int]:
    kept: list[int] = []
    for index in sorted(np.flatnonzero(scores >= 0.3), key=lambda i: -scores[i]):
        if len(kept) < limit and all(iou(boxes[index], boxes[other]) <= 0.4 for other in kept):
            kept.append(int(index))
    return kept


def data(classes: int, anchors: int = 40, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((1, anchors, 4)).astype(np.float32),
        rng.random((1, anchors, classes)).astype(np.float32),
        rng.random((anchors, 4)).astype(np.float32),
    )


@sweep("background", [0, 1])
@sweep("width", [1, 2, 5])
def test_suppression_of_all_classes_together(background: int, width: int) -> None:
    codes, scores, anchors = data(3 + background)
    boxes, kinds = real_boxes(codes[0], anchors), scores[0][:, background:]
    kept = suppress(boxes, kinds.max(axis=1), 6)
    outputs = evaluate(*(given(FLOAT32, v) for v in (codes, scores, anchors)), classes_per_detection=width)
    assert outputs[3].tolist() == [len(kept)]
    count = min(width, 3)
    for position, anchor in enumerate(kept):
        part = slice(position * width, position * width + count)
        best = np.argsort(-kinds[anchor])[:count]
        np.testing.assert_allclose(outputs[0][0, part], np.tile(boxes[anchor], (count, 1)), atol=1e-5)
        assert outputs[1][0, part].tolist() == best.tolist()
        np.testing.assert_array_equal(outputs[2][0, part], kinds[anchor, best])
    assert not outputs[2][0, len(kept) * width :].any()


@sweep("limit", [2, 100])
def test_suppression_in_each_class(limit: int) -> None:
    codes, scores, anchors = data(4, seed=1)
    boxes = real_boxes(codes[0], anchors)
    found = [
        (float(scores[0, anchor, kind + 1]), kind, anchor)
        for kind in range(3)
        for anchor in suppress(boxes, scores[0, :, kind + 1], limit)
    ]
    found = sorted(found, reverse=True)[:6]
    outputs = evaluate(
        *(given(FLOAT32, v) for v in (codes, scores, anchors)), per_class=True, detections_per_class=limit
    )
    assert outputs[3].tolist() == [len(found)]
    assert outputs[1][0, : len(found)].tolist() == [kind for _, kind, _ in found]
    np.testing.assert_array_equal(
        outputs[2][0, : len(found)], np.array([score for score, _, _ in found], np.float32)
    )
    np.testing.assert_allclose(outputs[0][0, : len(found)], boxes[[a for _, _, a in found]], atol=1e-5)


def test_quantised_inputs() -> None:
    rng = np.random.default_rng(2)
    quantized = [rng.integers(10, 250, shape) for shape in ((1, 30, 4), (1, 30, 4), (30, 4))]
    scales, points = (0.03, 1 / 256, 0.004), (120, 0, 3)
    quantised = [given(QUANT8, v, s, z) for v, s, z in zip(quantized, scales, points, strict=True)]
    plain = [
        given(FLOAT32, np.float32(s) * (v - z).astype(np.float32))
        for v, s, z in zip(quantized, scales, points, strict=True)
    ]
    for ours, expected in zip(evaluate(*quantised), evaluate(*plain), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_no_anchors() -> None:
    empty = (given(FLOAT32, np.zeros(shape)) for shape in ((1, 0, 4), (1, 0, 4), (0, 4)))
    assert [output.any() for output in evaluate(*empty)] == [False] * 4


@sweep(
    "changes",
    [
        {"detections": 0},
        {"classes_per_detection": -1},
        {"detections_per_class": 0, "per_class": True},
        {"classes": 2},
        {"iou_threshold": 0.0},
        {"iou_threshold": 1.5},
        {"iou_threshold": float("nan")},
        {"scale_x": 0.0},
        {"detections": 2**30, "classes_per_detection": 2**30},
    ],
)
def test_refuses_settings(changes: dict[str, Any]) -> None:
    with pytest.raises(BadData):
        evaluate(*(given(FLOAT32, v) for v in data(4)), **changes)


def test_a_limit_for_each_class_only_matters_where_classes_are_apart() -> None:
    values = [given(FLOAT32, v) for v in data(4)]
    for limit in (0, -1):
        found = evaluate(*values, detections_per_class=limit, per_class=False)
        for ours, expected in zip(found, evaluate(*values, per_class=False), strict=True):
            np.testing.assert_array_equal(ours, expected)


def test_refuses_shapes() -> None:
    codes, scores, anchors = data(4)
    for values in ((codes[..., :3], scores, anchors), (codes, scores, anchors[:5])):
        with pytest.raises(BadData):
            evaluate(*(given(FLOAT32, v) for v in values))
    with pytest.raises(BadData, match="2 images; 1 is expected"):
        evaluate(*(given(FLOAT32, v) for v in (codes.repeat(2, 0), scores.repeat(2, 0), anchors)))
