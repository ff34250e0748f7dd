import itertools
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
    to_nchw,
)
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate_all,
    given,
    level_of,
    scalars,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, UnknownValue

GENERATE, KEYPOINT = OperationType.GENERATE_PROPOSALS, OperationType.HEATMAP_MAX_KEYPOINT
ANCHORS = np.array([[-4, -6, 5, 6], [-8, -3, 9, 2], [-2, -2, 2, 2]])


def proposal_inputs(
    operand_type: OperandType,
    scores: Given,
    deltas: Given,
    sizes: Array,
    limits: tuple[int, int] = (-1, -1),
    *,
    nchw: bool = False,
    anchors: Array = ANCHORS,
) -> list[Given]:
    quantized = operand_type in (QUANT8, SIGNED)
    anchor_type = OperandType.TENSOR_QUANT16_SYMM if quantized else operand_type
    numbers = reals(8.0, 4.0, 0.4, 3.0, operand_type=operand_type)
    return [
        to_nchw(scores) if nchw else scores,
        to_nchw(deltas) if nchw else deltas,
        given(anchor_type, anchors * (8 if quantized else 1), 0.125 if quantized else 0.0),
        coordinates(operand_type, sizes),
        *numbers[:2],
        *scalars(*limits),
        *numbers[2:],
        *scalars(nchw),
    ]


def proposal_outputs(scores: Given) -> tuple[Operand, ...]:
    operand = scores.operand
    return (
        wanted(operand.type, operand.scale, operand.zero_point),
        coordinates_out(operand.type),
        wanted(INT32),
    )


def proposed(
    scores: Array, deltas: Array, size: Array, limits: tuple[int, int]
) -> list[tuple[float, list[float]]]:
    """Returns score and box of each proposal of one image."""
    height, width = size
    every = []
    for y, x, a in np.ndindex(scores.shape):
        x1, y1, x2, y2 = ANCHORS[a] + np.array([4 * x, 8 * y, 4 * x, 8 * y])
        dx, dy, dw, dh = deltas[y, x, 4 * a : 4 * a + 4]
        cx, cy = (x1 + x2) / 2 + dx * (x2 - x1), (y1 + y2) / 2 + dy * (y2 - y1)
        w, h = (x2 - x1) * np.exp(dw) / 2, (y2 - y1) * np.exp(dh) / 2
        xs, ys = np.clip([cx - w, cx + w], 0, width), np.clip([cy - h, cy + h], 0, height)
        every.append((float(scores[y, x, a]), [xs[0], ys[0], xs[1], ys[1]]))
    every.sort(key=lambda each: -each[0])
    if limits[0] > 0:
        every = every[: limits[0]]
    kept: list[tuple[float, list[float]]] = []
    for score, box in every:
        large = box[2] - box[0] > 3 and box[3] - box[1] > 3
        inside = (box[0] + box[2]) / 2 < width and (box[1] + box[3]) / 2 < height
        apart = all(iou(box, other) < 0.4 for _, other in kept)
        if large and inside and apart:
            kept.append((score, box))
    return kept[: limits[1]] if limits[1] > 0 else kept


@sweep("nchw", [False, True])
@sweep("limits", [(-1, -1), (0, 0), (20, 3), (1000, 1000)])
@sweep("operand_type", TYPES)
def test_proposals(operand_type: OperandType, limits: tuple[int, int], nchw: bool) -> None:
    generator = np.random.default_rng(6)
    shape = (2, 3, 5, len(ANCHORS))
    ranks = np.stack([generator.permutation(45).reshape(shape[1:]) for _ in range(2)])
    scores = data(operand_type, ranks / 64, 1 / 64)
    deltas = data(operand_type, generator.normal(0, 0.3, (*shape[:3], 12)), 1 / 64)
    sizes = np.array([[20.0, 30.0], [13.0, 24.0]])
    inputs = proposal_inputs(operand_type, scores, deltas, sizes, limits, nchw=nchw)
    results = evaluate_all(GENERATE, inputs, *proposal_outputs(scores))
    expected = [
        (image, score, box)
        for image in range(2)
        for score, box in proposed(real(scores)[image], real(deltas)[image], sizes[image], limits)
    ]
    images, values, boxes = ([each[i] for each in expected] for i in range(3))
    assert len(expected) >= 2
    np.testing.assert_array_equal(results[2], images)
    scale, zero_point = scores.operand.scale or 1, scores.operand.zero_point
    np.testing.assert_array_equal((results[0].astype(np.float64) - zero_point) * scale, values)
    tolerance = {FLOAT32: 1e-4, FLOAT16: 0.02}.get(operand_type, 0.0626)
    step = 0.125 if operand_type in (QUANT8, SIGNED) else 1.0
    np.testing.assert_allclose(results[1].astype(np.float64) * step, np.array(boxes), atol=tolerance)


@sweep("shape", [(0, 3, 5, 3), (2, 3, 5, 0), (1, 0, 5, 3), (1, 3, 5, 3)])
def test_no_proposals(shape: tuple[int, int, int, int]) -> None:
    scores = given(FLOAT32, np.zeros(shape))
    deltas = given(FLOAT32, np.full((*shape[:3], 4 * shape[3]), -9.0))
    inputs = proposal_inputs(
        FLOAT32, scores, deltas, np.full((shape[0], 2), 9.0), anchors=ANCHORS[: shape[3]]
    )
    results = evaluate_all(GENERATE, inputs, *proposal_outputs(scores))
    assert [result.shape for result in results] == [(0,), (0, 4), (0,)]


def small_inputs() -> list[Given]:
    scores, deltas = given(FLOAT32, np.ones((1, 2, 3, 3))), given(FLOAT32, np.zeros((1, 2, 3, 12)))
    return proposal_inputs(FLOAT32, scores, deltas, np.array([[20.0, 30.0]]))


@sweep(
    ("position", "value", "message"),
    [
        (1, np.zeros((1, 2, 3, 11)), r"deltas .* has shape \[1, 2, 3, 11\]; \[1, 2, 3, 12\]"),
        (2, np.zeros((2, 4)), r"anchors .* has shape \[2, 4\]; \[3, 4\]"),
        (
            2,
            np.array([[0, 0, 1, 1], [0, 2, 1, 1], [0, 0, 1, 1]]),
            r"anchors .*: box 1 is \[0.0, 2.0, 1.0, 1.0\]",
        ),
        (3, np.zeros((2, 2)), r"image_sizes .* has shape \[2, 2\]; \[1, 2\]"),
    ],
)
def test_proposals_refuse(position: int, value: Array, message: str) -> None:
    inputs = small_inputs()
    inputs[position] = given(FLOAT32, value)
    with pytest.raises(BadData, match=message):
        evaluate_all(GENERATE, inputs, *proposal_outputs(inputs[0]))


@sweep("operand_type", [QUANT8, SIGNED])
@sweep("position", [2, 3])
def test_proposals_refuse_scales(operand_type: OperandType, position: int) -> None:
    scores = data(operand_type, np.ones((1, 1, 1, 3)), 0.1)
    inputs = proposal_inputs(
        operand_type, scores, data(operand_type, np.zeros((1, 1, 1, 12)), 0.1), np.array([[20.0, 30.0]])
    )
    operand = inputs[position].operand
    inputs[position] = given(operand.type, inputs[position].value, 0.25)
    with pytest.raises(BadData, match=r"has scale 0.25 and zero point 0; 0.125 and 0 are expected"):
        evaluate_all(GENERATE, inputs, *proposal_outputs(scores))


def test_shapes_of_proposals_are_unknown_without_values() -> None:
    inputs = small_inputs()
    inputs[1] = unknown(inputs[1])
    with pytest.raises(UnknownValue):
        DEFINITIONS[GENERATE].shape(call_of(GENERATE, inputs, *proposal_outputs(inputs[0])))


def test_levels() -> None:
    inputs = small_inputs()
    assert level_of(GENERATE, inputs, *proposal_outputs(inputs[0])) == FeatureLevel.LEVEL_3
    with pytest.raises(BadData, match=r"10 inputs and 3 outputs; 11 inputs"):
        level_of(GENERATE, inputs[:-1], *proposal_outputs(inputs[0]))


def keypoint_of(heatmap: Array, box: Array, tolerance: float) -> tuple[float, list[float]]:
    """Returns score and coordinates of the highest point of one map."""
    size = len(heatmap)
    row, column = np.unravel_index(np.argmax(heatmap), heatmap.shape)
    padded = np.pad(heatmap, 1, mode="reflect")
    around = padded[row : row + 3, column : column + 3]
    gradient = np.array([(around[1, 2] - around[1, 0]) / 2, (around[2, 1] - around[0, 1]) / 2])
    mixed = (around[2, 2] - around[2, 0] - around[0, 2] + around[0, 0]) / 4
    hessian = np.array(
        [
            [around[1, 0] - 2 * around[1, 1] + around[1, 2], mixed],
            [mixed, around[0, 1] - 2 * around[1, 1] + around[2, 1]],
        ]
    )
    way, score = np.zeros(2), around[1, 1]
    if abs(np.linalg.det(hessian)) >= tolerance * (1 + hessian[0, 0] * hessian[1, 1]):
        way = -np.linalg.solve(hessian, gradient)
        way *= min(1.0, 1.5 / np.abs(way).max()) if way.any() else 1.0
        score = score + gradient @ way + way @ hessian @ way / 2
    point = (np.array([column, row]) + way + 0.5) / size
    return float(score), (box[:2] + point * (box[2:] - box[:2])).tolist()


@sweep("nchw", [False, True])
@sweep("shape", [(3, 2, 2, 2), (2, 5, 5, 3), (4, 7, 7, 1), (0, 4, 4, 2), (2, 3, 3, 0)])
@sweep("operand_type", TYPES)
def test_keypoints(operand_type: OperandType, shape: tuple[int, int, int, int], nchw: bool) -> None:
    generator = np.random.default_rng(shape[0] + shape[1])
    heatmap = data(operand_type, generator.normal(0, 1, shape), 1 / 32)
    boxes = coordinates(operand_type, random_boxes(generator, shape[0]))
    inputs = [to_nchw(heatmap) if nchw else heatmap, boxes, *scalars(nchw)]
    scale, zero_point = {QUANT8: (0.05, 30), SIGNED: (0.05, -98)}.get(operand_type, (0.0, 0))
    results = evaluate_all(
        KEYPOINT, inputs, wanted(operand_type, scale, zero_point), coordinates_out(operand_type)
    )
    tolerance = 1e-3 if operand_type is FLOAT16 else 1e-5
    error = {FLOAT32: 1e-3, FLOAT16: 0.03}.get(operand_type, 0.063)
    for box, keypoint in itertools.product(range(shape[0]), range(shape[3])):
        score, point = keypoint_of(real(heatmap)[box, :, :, keypoint], real(boxes)[box], tolerance)
        if scale:
            # The maximum of some quadratics exceeds the 8-bit range.
            low, high = np.iinfo(operand_type.dtype.name).min, np.iinfo(operand_type.dtype.name).max
            score = float(np.clip(score, (low - zero_point) * scale, (high - zero_point) * scale))
        got = (float(results[0][box, keypoint]) - zero_point) * (scale or 1)
        np.testing.assert_allclose(got, score, rtol=2e-3, atol=error)
        step = 0.125 if scale else 1.0
        low_point = np.maximum(point, 0) if scale else point
        np.testing.assert_allclose(results[1][box, keypoint] * step, low_point, atol=error)


def test_the_keypoint_of_a_flat_heatmap_is_its_first_element() -> None:
    inputs = [given(FLOAT32, np.ones((1, 4, 4, 1))), given(FLOAT32, [[0, 0, 8, 4]]), *scalars(False)]
    score, point = evaluate_all(KEYPOINT, inputs, wanted(FLOAT32), wanted(FLOAT32))
    assert score.tolist() == [[1.0]]
    assert point.tolist() == [[[1.0, 0.5]]]


@sweep(
    ("heatmap", "boxes", "message"),
    [
        ((1, 4, 5, 1), [[0, 0, 1, 1]], "heatmap .* has height 4 and width 5; the same, at least 2"),
        ((1, 1, 1, 1), [[0, 0, 1, 1]], "heatmap .* has height 1 and width 1"),
        ((2, 4, 4, 1), [[0, 0, 1, 1]], r"boxes .* has shape \[1, 4\]; \[2, 4\]"),
        ((1, 4, 4, 1), [[0, 0, 1, -1]], r"boxes .*: box 0 is \[0.0, 0.0, 1.0, -1.0\]"),
    ],
)
def test_keypoints_refuse(heatmap: tuple[int, ...], boxes: Any, message: str) -> None:
    inputs = [given(FLOAT32, np.zeros(heatmap)), given(FLOAT32, boxes), *scalars(False)]
    with pytest.raises(BadData, match=message):
        evaluate_all(KEYPOINT, inputs, wanted(FLOAT32), wanted(FLOAT32))


def test_keypoints_refuse_scales() -> None:
    inputs = [
        data(QUANT8, np.zeros((1, 4, 4, 1)), 0.1),
        given(QUANT16, [[0, 0, 1, 1]], 0.125),
        *scalars(False),
    ]
    with pytest.raises(BadData, match=r"keypoints_out .* has scale 0.25 and zero point 0"):
        evaluate_all(KEYPOINT, inputs, wanted(QUANT8, 0.1), wanted(QUANT16, 0.25))
