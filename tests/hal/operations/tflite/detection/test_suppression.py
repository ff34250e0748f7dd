import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate_all, given, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

FLOAT32, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
V4, V5 = OperationType.TFLITE_NON_MAX_SUPPRESSION_V4, OperationType.TFLITE_NON_MAX_SUPPRESSION_V5


def iou(first: Array, second: Array) -> float:
    sides = [
        min(max(first[a], first[a + 2]), max(second[a], second[a + 2]))
        - max(min(first[a], first[a + 2]), min(second[a], second[a + 2]))
        for a in (0, 1)
    ]
    shared = max(sides[0], 0) * max(sides[1], 0)
    areas = [abs(box[2] - box[0]) * abs(box[3] - box[1]) for box in (first, second)]
    return float(shared / (sum(areas) - shared))


def greedy(
    boxes: Array, scores: Array, limit: int, threshold: float, lowest: float, sigma: float
) -> tuple[list[int], list[float]]:
    """Repeatedly selects the best box, and lowers or drops all others."""
    left = {index: float(score) for index, score in enumerate(scores) if score > lowest}
    indexes: list[int] = []
    found: list[float] = []
    while left and len(indexes) < limit:
        best = max(left, key=lambda index: left[index])
        indexes.append(best)
        found.append(left.pop(best))
        for index in list(left):
            overlap = iou(boxes[best], boxes[index])
            if sigma:
                left[index] *= np.exp(-0.5 * overlap**2 / sigma)
            if overlap >= threshold or left[index] <= lowest:
                del left[index]
    return indexes, found


def inputs(boxes: Array, scores: Array, limit: int, threshold: float, lowest: float) -> list[Given]:
    return [
        given(FLOAT32, boxes),
        given(FLOAT32, scores),
        given(INT32, limit),
        given(FLOAT32, threshold),
        given(FLOAT32, lowest),
    ]


def random_boxes(seed: int, count: int = 40) -> tuple[Array, Array]:
    """Returns boxes with corners in any order, and scores that all differ."""
    rng = np.random.default_rng(seed)
    return rng.random((count, 4)).astype(np.float32), rng.permutation(count).astype(np.float32) / count


@sweep("limit", [1, 7, 60])
@sweep("threshold", [0.2, 0.5, 1.0])
def test_hard_suppression(limit: int, threshold: float) -> None:
    boxes, scores = random_boxes(limit)
    expected, _ = greedy(boxes, scores, limit, threshold, 0.1, 0)
    indexes, count = evaluate_all(
        V4, inputs(boxes, scores, limit, threshold, 0.1), wanted(INT32), wanted(INT32)
    )
    assert count == len(expected)
    assert indexes.tolist() == expected + [0] * (limit - len(expected))


@sweep("sigma", [0.0, 0.1, 0.7])
@sweep("threshold", [0.4, 1.0])
def test_soft_suppression(sigma: float, threshold: float) -> None:
    boxes, scores = random_boxes(3)
    expected, lowered = greedy(boxes, scores, 25, threshold, 0.05, sigma)
    arguments = [*inputs(boxes, scores, 25, threshold, 0.05), given(FLOAT32, sigma)]
    indexes, found, count = evaluate_all(V5, arguments, wanted(INT32), wanted(FLOAT32), wanted(INT32))
    assert count == len(expected)
    assert indexes[: len(expected)].tolist() == expected
    np.testing.assert_allclose(found[: len(expected)], lowered, rtol=1e-5)
    assert not found[len(expected) :].any()


def test_a_box_without_area_is_selected_again() -> None:
    boxes = np.array([[0, 0, 1, 1], [0.5, 0.5, 0.5, 2]], np.float32)
    arguments = inputs(boxes, np.array([0.9, 0.8], np.float32), 4, 0.5, 0.0)
    indexes, count = evaluate_all(V4, arguments, wanted(INT32), wanted(INT32))
    assert indexes.tolist() == [0, 1, 0, 0]
    assert count == 2
    arguments = inputs(boxes, np.array([0.8, 0.9], np.float32), 4, 0.5, 0.0)
    indexes, count = evaluate_all(V4, arguments, wanted(INT32), wanted(INT32))
    assert indexes.tolist() == [1, 1, 0, 0]


@sweep(("count", "limit"), [(0, 3), (3, 0), (0, 0)])
def test_no_boxes_to_select(count: int, limit: int) -> None:
    arguments = inputs(np.zeros((count, 4)), np.zeros(count), limit, 0.5, 0.1)
    indexes, found = evaluate_all(V4, arguments, wanted(INT32), wanted(INT32))
    assert indexes.tolist() == [0] * limit
    assert found == 0


def test_refusals() -> None:
    boxes, scores = random_boxes(0)
    for arguments, message in (
        (inputs(boxes[:, :3], scores, 3, 0.5, 0.1), "corners"),
        (inputs(boxes, scores[:5], 3, 0.5, 0.1), "corners"),
        (inputs(boxes, scores, -1, 0.5, 0.1), "at least 0"),
        (inputs(boxes, scores, 2**30, 0.5, 0.1), "bytes"),
    ):
        with pytest.raises(BadData, match=message):
            evaluate_all(V4, arguments, wanted(INT32), wanted(INT32))
