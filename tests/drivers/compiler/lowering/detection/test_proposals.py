import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.operations.boxes import coordinates, coordinates_out, data, reals
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    given,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

KEYPOINT, GENERATE = OperationType.HEATMAP_MAX_KEYPOINT, OperationType.GENERATE_PROPOSALS
BOX16 = OperandType.TENSOR_QUANT16_ASYMM
BOXES = np.array([[0, 0, 10, 20], [5, 6, 7, 8], [1, 2, 1, 2]], np.float32)
generator = np.random.default_rng(10)


@sweep("nchw", [False, True])
@sweep("size", [2, 5, 8])
def test_keypoints(size: int, nchw: bool) -> None:
    shape = (3, 4, size, size) if nchw else (3, size, size, 4)
    for kind in FLOAT_TYPES:
        # Integers, so that the quadratics are exact and never flatter than the tolerance.
        source = given(kind, generator.integers(-9, 9, shape))
        inputs = [source, given(kind, BOXES), *scalars(nchw)]
        expect_same(KEYPOINT, inputs, wanted(kind), wanted(kind), data=(0, 1), compare=close)
    for kind in QUANT8_TYPES:
        source = given(kind, stored_values(generator, kind, shape), 0.5, 3)
        inputs = [source, given(BOX16, BOXES * 8, 0.125), *scalars(nchw)]
        outputs = wanted(kind, 1.0, 3), wanted(BOX16, 0.125)
        expect_same(KEYPOINT, inputs, *outputs, data=(0, 1), compare=close)


def test_a_wrong_box_fails() -> None:
    kind = OperandType.TENSOR_FLOAT32
    inputs = [given(kind, np.zeros((1, 3, 3, 1))), given(kind, [[5, 0, 4, 1]]), *scalars(False)]
    with pytest.raises(RequirementFailed, match="corners out of order"):
        lowered_all(KEYPOINT, inputs, wanted(kind), wanted(kind), data=(0, 1))


def _proposals(
    kind: OperandType, shape: tuple[int, int, int, int], limits: tuple[int, int], *, nchw: bool
) -> list[Given]:
    images, height, width, anchors = shape
    scores = generator.integers(-9, 30, shape) / 64
    if kind in FLOAT_TYPES and scores.size > 9:
        scores[generator.random(shape) < 0.1] = np.nan
        scores[generator.random(shape) < 0.1] = -np.inf
        scores[generator.random(shape) < 0.1] = -0.0
    deltas = np.round(generator.normal(0, 0.3, (*shape[:3], 4 * anchors)) * 64) / 64
    corners = np.sort(generator.integers(-20, 20, (anchors, 2, 2)), axis=1).reshape(anchors, 4)
    maps = [np.moveaxis(each, 3, 1) if nchw else each for each in (scores, deltas)]
    if kind in QUANT8_TYPES:
        of_anchors = given(OperandType.TENSOR_QUANT16_SYMM, corners * 8, 0.125)
    else:
        of_anchors = given(kind, corners)
    return [
        *(data(kind, each, 1 / 64) for each in maps),
        of_anchors,
        coordinates(kind, np.array([[8.0 * height, 4.0 * width]] * images)),
        *reals(8.0, 4.0, operand_type=kind),
        *scalars(*limits),
        *reals(0.5, 3.0, operand_type=kind),
        *scalars(nchw),
    ]


@sweep("nchw", [False, True])
@sweep("limits", [(-1, -1), (0, 0), (20, 3), (1000, 1000), (1, 1)])
@sweep("kind", (*FLOAT_TYPES, *QUANT8_TYPES))
def test_proposals(kind: OperandType, limits: tuple[int, int], nchw: bool) -> None:
    for shape in ((1, 1, 1, 1), (3, 3, 5, 3), (1, 7, 9, 2)):
        inputs = _proposals(kind, shape, limits, nchw=nchw)
        operand = inputs[0].operand
        outputs = (
            wanted(kind, operand.scale, operand.zero_point),
            coordinates_out(kind),
            wanted(OperandType.TENSOR_INT32),
        )
        expect_same(GENERATE, inputs, *outputs, data=(0, 1, 2, 3), compare=close)
