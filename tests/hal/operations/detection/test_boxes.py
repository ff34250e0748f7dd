import math
from typing import Any

import numpy as np
import pytest
from support.operations.boxes import (
    FLOAT16,
    FLOAT32,
    INT32,
    QUANT8,
    QUANT16,
    SIGNED,
    TYPES,
    coordinates,
    coordinates_out,
    data,
    iou,
    random_boxes,
    real,
    reals,
)
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate,
    evaluate_all,
    given,
    ints,
    level_of,
    scalars,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, UnknownValue

TRANSFORM, SELECT = OperationType.AXIS_ALIGNED_BBOX_TRANSFORM, OperationType.BOX_WITH_NMS_LIMIT
HARD, LINEAR, GAUSSIAN = range(3)


def transformed(box: Array, delta: Array, height: float, width: float) -> list[float]:
    x1, y1, x2, y2 = box
    dx, dy, dw, dh = delta
    x, y = (x1 + x2) / 2 + dx * (x2 - x1), (y1 + y2) / 2 + dy * (y2 - y1)
    w, h = (x2 - x1) * math.exp(dw), (y2 - y1) * math.exp(dh)
    return [
        min(max(corner, 0.0), edge)
        for corner, edge in (
            (x - w / 2, width),
            (y - h / 2, height),
            (x + w / 2, width),
            (y + h / 2, height),
        )
    ]


@sweep(("count", "classes"), [(0, 2), (1, 1), (7, 3)])
@sweep("operand_type", TYPES)
def test_transform(operand_type: OperandType, count: int, classes: int) -> None:
    generator = np.random.default_rng(count)
    boxes = coordinates(operand_type, random_boxes(generator, count))
    deltas = data(operand_type, generator.normal(0, 0.5, (count, 4 * classes)), 0.02)
    images = generator.integers(0, 3, count)
    sizes = generator.integers(10, 60, (3, 2)).astype(np.float64)
    inputs = [boxes, deltas, given(INT32, images), coordinates(operand_type, sizes)]
    result = evaluate(TRANSFORM, inputs, coordinates_out(operand_type))
    assert result.shape == (count, 4 * classes)
    steps = real(deltas).reshape(count, classes, 4)
    expected = [
        [value for step in steps[i] for value in transformed(real(boxes)[i], step, *sizes[images[i]])]
        for i in range(count)
    ]
    tolerance = {FLOAT32: 1e-4, FLOAT16: 0.04}.get(operand_type, 0.126)
    scale = 0.125 if operand_type in (QUANT8, SIGNED) else 1.0
    if count:
        np.testing.assert_allclose(result.astype(np.float64) * scale, expected, atol=tolerance)


@sweep(
    ("position", "value", "message"),
    [
        (0, np.zeros((2, 3)), "boxes .* has shape \\[2, 3\\]; \\[2, 4\\], four coordinates for each box"),
        (0, [[0, 0, 1, 1], [3, 0, 2, 1]], "boxes .*: box 1 is \\[3.0, 0.0, 2.0, 1.0\\]"),
        (0, [[0, 0, 1, np.nan], [0, 0, 2, 1]], "boxes .*: box 0 is"),
        (1, np.zeros((2, 7)), "deltas .* has shape \\[2, 7\\]; \\[2, 4\\]"),
        (1, np.zeros((3, 8)), "deltas .* has shape \\[3, 8\\]; \\[2, 8\\]"),
        (2, [0, 3], "images .*: element 1 is 3; an image from 0 to 2 is expected"),
        (2, [-1, 0], "images .*: element 0 is -1"),
        (2, [0], "images .* has shape \\[1\\]; \\[2\\], one image for each box"),
        (3, np.zeros((3, 3)), "image_sizes .* has shape \\[3, 3\\]; \\[3, 2\\]"),
    ],
)
def test_transform_refuses(position: int, value: Any, message: str) -> None:
    inputs = [given(FLOAT32, np.zeros((2, 4))), given(FLOAT32, np.zeros((2, 8))), ints(0, 1)]
    inputs.append(given(FLOAT32, np.ones((3, 2))))
    inputs[position] = given(INT32 if position == 2 else FLOAT32, value)
    with pytest.raises(BadData, match=message):
        evaluate(TRANSFORM, inputs, wanted(FLOAT32))


def test_transform_with_huge_deltas() -> None:
    boxes = given(FLOAT32, [[1, 1, 1, 5], [0, 0, 4, 4]])
    deltas = given(FLOAT32, [[0, 0, 1e4, 0], [1e38, 0, 1e3, -1e4]])
    result = evaluate(TRANSFORM, [boxes, deltas, ints(0, 0), given(FLOAT32, [[8, 9]])], wanted(FLOAT32))
    assert result.shape == (2, 4)


@sweep("operand_type", [QUANT8, SIGNED])
@sweep("position", [0, 3, 4])
def test_transform_refuses_scales(operand_type: OperandType, position: int) -> None:
    operands = [given(QUANT16, np.zeros((1, 4)), 0.125), given(operand_type, np.zeros((1, 4)), 0.1), ints(0)]
    operands.append(given(QUANT16, [[8, 8]], 0.125))
    output = wanted(QUANT16, 0.125)
    if position == 4:
        output = wanted(QUANT16, 0.125, 1)
    else:
        operands[position] = given(QUANT16, operands[position].value, 0.25)
    with pytest.raises(BadData, match=r"has scale .* and zero point .*; 0.125 and 0 are expected"):
        evaluate(TRANSFORM, operands, output)


def selected(
    scores: Array,
    boxes: Array,
    threshold: float,
    limit: int,
    kernel: int,
    iou_threshold: float,
    sigma: float,
    lowest: float,
) -> list[tuple[int, int, float]]:
    """Returns row, class and score of the boxes selected in one image, in the documented order."""
    found = []
    for index in range(1, scores.shape[1]):
        left = {row: scores[row, index] for row in range(len(scores)) if scores[row, index] > threshold}
        while left:
            best = max(left, key=lambda row: left[row])
            found.append((best, index, left.pop(best)))
            for row in list(left):
                overlap = iou(boxes[best, index], boxes[row, index])
                left[row] *= (
                    math.exp(-(overlap**2) / sigma)
                    if kernel == GAUSSIAN
                    else 1
                    if overlap < iou_threshold
                    else (0 if kernel == HARD else 1 - overlap)
                )
                if left[row] < lowest:
                    del left[row]
    found.sort(key=lambda each: -each[2])
    return sorted(found[: len(found) if limit < 0 else limit], key=lambda each: (each[1], -each[2]))


@sweep("limit", [-1, 0, 5])
@sweep("kernel", [HARD, LINEAR, GAUSSIAN])
@sweep("operand_type", TYPES)
def test_select(operand_type: OperandType, kernel: int, limit: int) -> None:
    generator = np.random.default_rng(10 * kernel + limit + 1)
    counts, classes = (6, 1, 9), 4
    total = sum(counts)
    # All scores differ, even if they are quantised, and overlaps differ from the threshold.
    scores = data(
        operand_type, generator.permutation(total * classes).reshape(total, classes) * 0.0125, 0.0125
    )
    boxes = coordinates(operand_type, random_boxes(generator, total, classes).reshape(total, -1))
    images = np.repeat((2, 0, 7), counts)
    settings = (0.31, limit, kernel, 0.34, 0.5, 0.2)
    numbers = reals(0.31, 0.34, 0.5, 0.2, operand_type=operand_type)
    inputs = [scores, boxes, given(INT32, images), numbers[0], *scalars(limit, kernel), *numbers[1:]]
    form = (scores.operand.scale, scores.operand.zero_point)
    results = evaluate_all(
        SELECT,
        inputs,
        wanted(operand_type, *form),
        coordinates_out(operand_type),
        wanted(INT32),
        wanted(INT32),
    )
    expected: list[tuple[int, int, float]] = []
    start = 0
    for count in counts:
        part = slice(start, start + count)
        found = selected(real(scores)[part], real(boxes).reshape(total, classes, 4)[part], *settings)
        expected += [(row + start, index, score) for row, index, score in found]
        start += count
    rows = np.array([row for row, _, _ in expected], int)
    indexes = np.array([index for _, index, _ in expected], int)
    quantized = boxes.value.reshape(total, classes, 4)  # type: ignore[union-attr]
    np.testing.assert_array_equal(results[1], quantized[rows, indexes].reshape(-1, 4))
    np.testing.assert_array_equal(results[2], indexes)
    np.testing.assert_array_equal(results[3], images[rows])
    got = (results[0].astype(np.float64) - form[1]) * (form[0] or 1)
    tolerance = {FLOAT32: 1e-5, FLOAT16: 1e-3}.get(operand_type, 0.0064)
    np.testing.assert_allclose(got, [score for _, _, score in expected], atol=tolerance)


def select_inputs(**changes: Any) -> list[Given]:
    values: dict[str, Any] = {
        "scores": given(FLOAT32, [[0.1, 0.9], [0.2, 0.8]]),
        "boxes": given(FLOAT32, [[0, 0, 1, 1, 0, 0, 4, 4], [0, 0, 1, 1, 0, 0, 4, 5]]),
        "images": ints(0, 0),
        "score_threshold": 0.3,
        "limit": -1,
        "kernel": HARD,
        "iou_threshold": 0.5,
        "sigma": 1.0,
        "nms_score_threshold": 0.1,
    }
    values.update(changes)
    return [each if isinstance(each, Given) else scalars(each)[0] for each in values.values()]


OUTPUTS = (wanted(FLOAT32), wanted(FLOAT32), wanted(INT32), wanted(INT32))


@sweep("operand_type", TYPES)
def test_select_nothing(operand_type: OperandType) -> None:
    for count in (0, 3):
        scores = data(operand_type, np.zeros((count, 2)), 0.1)
        numbers = reals(0.5, 0.5, 0.5, 0.5, operand_type=operand_type)
        inputs = [scores, coordinates(operand_type, np.zeros((count, 8))), given(INT32, np.zeros(count))]
        outputs = (
            wanted(operand_type, scores.operand.scale, scores.operand.zero_point),
            coordinates_out(operand_type),
            *OUTPUTS[2:],
        )
        results = evaluate_all(SELECT, [*inputs, numbers[0], *scalars(-1, HARD), *numbers[1:]], *outputs)
        assert [result.shape for result in results] == [(0,), (0, 4), (0,), (0,)]


def test_suppressed_boxes_are_kept_without_a_score_threshold() -> None:
    """The hard kernel sets scores to 0; only the score threshold removes boxes."""
    scores, *_ = evaluate_all(SELECT, select_inputs(nms_score_threshold=0.0), *OUTPUTS)
    np.testing.assert_array_equal(scores, np.array([0.9, 0], np.float32))
    scores, *_ = evaluate_all(SELECT, select_inputs(), *OUTPUTS)
    np.testing.assert_array_equal(scores, np.array([0.9], np.float32))


@sweep(
    ("changes", "message"),
    [
        ({"kernel": 3}, "kernel of BOX_WITH_NMS_LIMIT.* is 3; it must be from 0 to 2"),
        ({"kernel": -1}, "kernel .* is -1"),
        ({"kernel": GAUSSIAN, "sigma": 0.0}, "sigma .* is 0; it must be positive"),
        ({"scores": given(FLOAT32, np.zeros((2, 1)))}, "scores .* has 1 classes; at least 2"),
        ({"boxes": given(FLOAT32, np.zeros((2, 7)))}, "boxes .* has shape \\[2, 7\\]; \\[2, 8\\]"),
        ({"images": ints(0)}, "images .* has shape \\[1\\]; \\[2\\]"),
        (
            {"boxes": given(FLOAT32, np.tile([0, 0, 1, 1, 2, 0, 1, 1], (2, 1)))},
            "boxes .*: box 1 is \\[2.0, 0.0, 1.0, 1.0\\]",
        ),
    ],
)
def test_select_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate_all(SELECT, select_inputs(**changes), *OUTPUTS)


def test_select_refuses_scales() -> None:
    inputs = select_inputs(
        scores=given(QUANT8, [[1, 90], [2, 80]], 0.01), boxes=given(QUANT16, np.zeros((2, 8)), 0.125)
    )
    with pytest.raises(BadData, match=r"those of scores, 0.01 and 0, are expected"):
        evaluate_all(SELECT, inputs, wanted(QUANT8, 0.02), wanted(QUANT16, 0.125), *OUTPUTS[2:])
    with pytest.raises(BadData, match=r"boxes_out .* has scale 0.25 .*; 0.125 and 0 are expected"):
        evaluate_all(SELECT, inputs, wanted(QUANT8, 0.01), wanted(QUANT16, 0.25), *OUTPUTS[2:])


def test_output_shapes_are_unknown_without_values() -> None:
    inputs = select_inputs()
    inputs[0] = unknown(inputs[0])
    call = call_of(SELECT, inputs, *OUTPUTS)
    DEFINITIONS[SELECT].check(call)
    with pytest.raises(UnknownValue):
        DEFINITIONS[SELECT].shape(call)


def test_levels() -> None:
    assert level_of(SELECT, select_inputs(), *OUTPUTS) == FeatureLevel.LEVEL_3
    signed = select_inputs(
        scores=given(SIGNED, np.zeros((2, 2)), 0.1), boxes=given(QUANT16, np.zeros((2, 8)), 0.125)
    )
    outputs = (wanted(SIGNED, 0.1), wanted(QUANT16, 0.125), *OUTPUTS[2:])
    assert level_of(SELECT, signed, *outputs) == FeatureLevel.LEVEL_4


def test_refuses_mixed_types() -> None:
    with pytest.raises(BadData, match=r"boxes of BOX_WITH_NMS_LIMIT.* has type TENSOR_QUANT16_ASYMM"):
        evaluate_all(SELECT, select_inputs(boxes=given(QUANT16, np.zeros((2, 8)), 0.125)), *OUTPUTS)
