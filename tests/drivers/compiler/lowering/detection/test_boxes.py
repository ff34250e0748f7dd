import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.operations.single_operation import FLOAT_TYPES, QUANT8_TYPES, given, ints, stored_values, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

TRANSFORM = OperationType.AXIS_ALIGNED_BBOX_TRANSFORM
BOX16 = OperandType.TENSOR_QUANT16_ASYMM
BOXES = np.array([[10, 20, 40, 50], [0, 0, 5, 5], [7, 7, 7, 7], [60, 10, 64, 99]], np.float32)
SIZES = np.array([[100, 64], [30, 48]], np.float32)
ALL = (0, 1, 2, 3)
generator = np.random.default_rng(14)


@sweep("classes", [1, 3])
def test_transform(classes: int) -> None:
    images = ints(0, 1, 1, 0)
    for kind in FLOAT_TYPES:
        deltas = given(kind, generator.normal(0, 1, (4, 4 * classes)))
        inputs = [given(kind, BOXES), deltas, images, given(kind, SIZES)]
        expect_same(TRANSFORM, inputs, wanted(kind), data=ALL, compare=close)
    for kind in QUANT8_TYPES:
        deltas = given(kind, stored_values(generator, kind, (4, 4 * classes)), 0.02, 7)
        inputs = [given(BOX16, BOXES * 8, 0.125), deltas, images, given(BOX16, SIZES * 8, 0.125)]
        expect_same(TRANSFORM, inputs, wanted(BOX16, 0.125), data=ALL, compare=close)


@sweep(
    ("box", "image", "message"),
    [((5, 0, 4, 1), 0, "out of order"), ((0, 0, 1, 1), 2, "no such"), ((0, 0, 1, 1), -1, "no such")],
)
def test_invalid_arguments_fail(box: tuple[float, ...], image: int, message: str) -> None:
    kind = OperandType.TENSOR_FLOAT32
    inputs = [given(kind, [box]), given(kind, np.zeros((1, 4))), ints(image), given(kind, SIZES)]
    with pytest.raises(RequirementFailed, match=message):
        lowered_all(TRANSFORM, inputs, wanted(kind), data=ALL)
