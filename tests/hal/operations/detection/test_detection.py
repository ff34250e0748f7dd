import math
from typing import Any

import numpy as np
import pytest
from support.operations.boxes import FLOAT16, FLOAT32, INT32, iou, real, reals
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
from neurald.hal.operations.machinery.call import Array

DETECTION = OperationType.DETECTION_POSTPROCESSING
SCALES = (10.0, 5.0, 4.0, 2.0)


def outputs(operand_type: OperandType) -> tuple[Operand, ...]:
    return wanted(operand_type), wanted(operand_type), wanted(INT32), wanted(INT32)


def inputs(scores: Given, deltas: Given, anchors: Given, **changes: Any) -> list[Given]:
    values: dict[str, Any] = {
        "scale_y": SCALES[0],
        "scale_x": SCALES[1],
        "scale_height": SCALES[2],
        "scale_width": SCALES[3],
        "per_class": True,
        "detections": 3,
        "classes_per_detection": 1,
        "detections_per_class": 100,
        "score_threshold": 0.25,
        "iou_threshold": 0.3,
        "background": False,
    }
    values.update(changes)
    operand_type = scores.operand.type
    return [
        scores,
        deltas,
        anchors,
        *(
            reals(value, operand_type=operand_type)[0] if isinstance(value, float) else scalars(value)[0]
            for value in values.values()
        ),
    ]


def random_data(operand_type: OperandType, batches: int, anchors: int, classes: int) -> list[Given]:
    generator = np.random.default_rng(batches + anchors + classes)
    count = batches * anchors * classes
    scores = (generator.permutation(count) / count).reshape(batches, anchors, classes)
    deltas = generator.normal(0, 2, (batches, anchors, 6))
    positions = np.concatenate(
        (generator.uniform(0, 1, (anchors, 2)), generator.uniform(0.2, 0.7, (anchors, 2))), 1
    )
    return [given(operand_type, values) for values in (scores, deltas, positions)]


def decoded(delta: Array, anchor: Array) -> list[float]:
    y = anchor[0] + delta[0] / SCALES[0] * anchor[2]
    x = anchor[1] + delta[1] / SCALES[1] * anchor[3]
    h = anchor[2] * math.exp(delta[2] / SCALES[2])
    w = anchor[3] * math.exp(delta[3] / SCALES[3])
    return [y - h / 2, x - w / 2, y + h / 2, x + w / 2]


def suppressed(boxes: list[list[float]], ranked: list[int], limit: int) -> list[int]:
    kept: list[int] = []
    for index in ranked:
        if len(kept) < limit and all(iou(boxes[index], boxes[other]) < 0.3 for other in kept):
            kept.append(index)
    return kept


def per_class(scores: Array, boxes: list[list[float]], detections: int, most: int) -> list[tuple[int, int]]:
    """Returns the (anchor, class) of each detection."""
    found = []
    for index in range(1, scores.shape[1]):
        ranked = sorted(
            (a for a in range(len(scores)) if scores[a, index] > 0.25), key=lambda a: -scores[a, index]
        )
        found += [(anchor, index) for anchor in suppressed(boxes, ranked, most)]
    return sorted(found, key=lambda each: -scores[each])[:detections]


def per_anchor(scores: Array, boxes: list[list[float]], detections: int, most: int) -> list[tuple[int, int]]:
    best = scores[:, 1:].max(axis=1)
    ranked = sorted((a for a in range(len(scores)) if best[a] > 0.25), key=lambda a: -best[a])
    found = []
    for anchor in suppressed(boxes, ranked, detections):
        classes = sorted(range(1, scores.shape[1]), key=lambda c: -scores[anchor, c])
        found += [(anchor, index) for index in classes[:most]]
    return found


@sweep("background", [False, True])
@sweep("limits", [(1, 1), (4, 2), (9, 5), (50, 50)])
@sweep("by_class", [False, True])
@sweep("operand_type", [FLOAT32, FLOAT16])
def test_against_the_definition(
    operand_type: OperandType, by_class: bool, limits: tuple[int, int], background: bool
) -> None:
    data = random_data(operand_type, 2, 13, 4)
    detections, most = limits
    results = evaluate_all(
        DETECTION,
        inputs(
            *data,
            per_class=by_class,
            detections=detections,
            classes_per_detection=7 if by_class else most,
            detections_per_class=most if by_class else 0,
            background=background,
        ),
        *outputs(operand_type),
    )
    positions = detections if by_class else detections * most
    assert [result.shape for result in results] == [(2, positions), (2, positions, 4), (2, positions), (2,)]
    tolerance = 1e-5 if operand_type is FLOAT32 else 2e-3
    scores, deltas, anchors = (real(each) for each in data)
    for image in range(2):
        boxes = [decoded(delta, anchor) for delta, anchor in zip(deltas[image], anchors, strict=True)]
        found = (per_class if by_class else per_anchor)(scores[image], boxes, detections, most)
        count = len(found)
        assert 0 < count <= positions
        assert results[3][image] == count
        got = [result[image] for result in results[:3]]
        np.testing.assert_allclose(got[0][:count], [scores[image][each] for each in found], rtol=1e-3)
        np.testing.assert_allclose(got[1][:count], [boxes[a] for a, _ in found], atol=tolerance)
        assert got[2][:count].tolist() == [c - (0 if background else 1) for _, c in found]
        assert not any(part[count:].any() for part in got)


@sweep("by_class", [False, True])
@sweep(("batches", "anchors"), [(0, 3), (2, 0)])
def test_nothing_to_detect(batches: int, anchors: int, by_class: bool) -> None:
    data = random_data(FLOAT32, batches, anchors, 3)
    results = evaluate_all(DETECTION, inputs(*data, per_class=by_class), *outputs(FLOAT32))
    assert results[0].shape == (batches, 3)
    assert not any(result.any() for result in results)


@sweep(
    ("changes", "message"),
    [
        ({"scale_x": 0.0}, "scale_x of DETECTION_POSTPROCESSING.* is 0; it must be positive and finite"),
        ({"scale_height": math.nan}, "scale_height .* is nan"),
        ({"score_threshold": -0.5}, "score_threshold .* is -0.5; it must be at least 0"),
        ({"iou_threshold": math.nan}, "iou_threshold .* is nan"),
        ({"detections": 0}, "detections .* is 0; it must be at least 1"),
        ({"detections_per_class": 0}, "detections_per_class .* is 0; it must be at least 1"),
        ({"per_class": False, "classes_per_detection": -1}, "classes_per_detection .* is -1"),
        (
            {"per_class": False, "detections": 2**31 - 1, "classes_per_detection": 2**31 - 1},
            r"more than 2\^32 - 1 bytes",
        ),
    ],
)
def test_refuses_numbers(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate_all(DETECTION, inputs(*random_data(FLOAT32, 1, 4, 3), **changes), *outputs(FLOAT32))


@sweep(
    ("shapes", "message"),
    [
        (((1, 4, 1), (1, 4, 4), (4, 4)), "scores .* has 1 classes; at least 2"),
        (((1, 4, 2), (1, 4, 3), (4, 4)), r"deltas .* has shape \[1, 4, 3\]; \[1, 4, 4\]"),
        (((1, 4, 2), (2, 4, 4), (4, 4)), r"deltas .* has shape \[2, 4, 4\]; \[1, 4, 4\]"),
        (((1, 4, 2), (1, 4, 4), (4, 5)), r"anchors .* has shape \[4, 5\]; \[4, 4\]"),
    ],
)
def test_refuses_shapes(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    data = [given(FLOAT32, np.zeros(shape)) for shape in shapes]
    with pytest.raises(BadData, match=message):
        evaluate_all(DETECTION, inputs(*data), *outputs(FLOAT32))


def test_shapes_are_known_without_values() -> None:
    arguments = inputs(*random_data(FLOAT32, 2, 4, 3), per_class=False, classes_per_detection=2)
    call = call_of(DETECTION, arguments, *outputs(FLOAT32))
    assert DEFINITIONS[DETECTION].shape(call) == ((2, 6), (2, 6, 4), (2, 6), (2,))
    arguments[8] = unknown(arguments[8])
    DEFINITIONS[DETECTION].check(call_of(DETECTION, arguments, *outputs(FLOAT32)))


def test_levels() -> None:
    arguments = inputs(*random_data(FLOAT32, 1, 4, 3))
    assert level_of(DETECTION, arguments, *outputs(FLOAT32)) == FeatureLevel.LEVEL_3
