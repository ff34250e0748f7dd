import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    given,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

KEYPOINT = OperationType.HEATMAP_MAX_KEYPOINT
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
