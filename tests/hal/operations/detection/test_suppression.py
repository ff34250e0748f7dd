import numpy as np
from support.sweeps import sweep

from neurald.hal.operations.detection.suppression import overlaps, soft_suppress, suppress
from neurald.hal.operations.machinery.call import Array


def random_boxes(generator: np.random.Generator, count: int) -> Array:
    """Returns boxes on a coarse grid: some are equal, some touch, and some are empty."""
    corners = generator.integers(0, 8, (count, 2, 2)).astype(np.float32)
    return np.sort(corners, axis=1).reshape(count, 4)


def iou(first: Array, second: Array) -> float:
    """Counts the unit squares of both boxes."""
    x1, y1, x2, y2 = first.astype(int)
    one = {(x, y) for x in range(x1, x2) for y in range(y1, y2)}
    x1, y1, x2, y2 = second.astype(int)
    other = {(x, y) for x in range(x1, x2) for y in range(y1, y2)}
    return len(one & other) / len(one | other) if one | other else 0.0


def test_overlaps() -> None:
    boxes = random_boxes(np.random.default_rng(0), 40)
    for box in boxes:
        expected = [iou(box, other) for other in boxes]
        np.testing.assert_allclose(overlaps(box, boxes), expected, rtol=1e-6)


def test_overlaps_of_nothing() -> None:
    assert overlaps(np.ones(4, np.float32), np.empty((0, 4), np.float32)).shape == (0,)


@sweep("limit", [None, 0, 1, 3, 100])
@sweep("threshold", [0.0, 0.2, 0.5, 1.0])
@sweep("count", [0, 1, 25, 150])
def test_hard_suppression(count: int, threshold: float, limit: int | None) -> None:
    generator = np.random.default_rng(count)
    boxes = random_boxes(generator, count)
    scores = generator.integers(0, 10, count).astype(np.float32)
    expected: list[int] = []
    for index in sorted(range(count), key=lambda i: (-scores[i], i)):
        if len(expected) == (count if limit is None else limit):
            break
        if all(iou(boxes[index], boxes[other]) < threshold for other in expected):
            expected.append(index)
    assert suppress(boxes, scores, threshold, limit).tolist() == expected


@sweep("limit", [None, 0, 4])
@sweep("count", [0, 1, 20])
def test_soft_suppression(count: int, limit: int | None) -> None:
    generator = np.random.default_rng(count)
    boxes, scores = random_boxes(generator, count), generator.random(count).astype(np.float32)
    left = {index: float(score) for index, score in enumerate(scores)}
    expected: list[tuple[int, float]] = []
    while left and len(expected) < (count if limit is None else limit):
        best = max(left, key=lambda i: left[i])
        expected.append((best, left.pop(best)))
        for index in list(left):
            left[index] *= 1 - iou(boxes[best], boxes[index])
            if left[index] < 0.2:
                del left[index]
    before = scores.copy()
    kept, lowered = soft_suppress(boxes, scores, lambda overlap: 1 - overlap, 0.2, limit)
    assert kept.tolist() == [index for index, _ in expected]
    np.testing.assert_allclose(lowered, [score for _, score in expected], rtol=1e-5)
    np.testing.assert_array_equal(scores, before)
