import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.operations.boxes import coordinates, coordinates_out, data, random_boxes, reals
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    given,
    ints,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.drivers.compiler.ir.builder import Unsupported
from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

TRANSFORM, SELECT = OperationType.AXIS_ALIGNED_BBOX_TRANSFORM, OperationType.BOX_WITH_NMS_LIMIT
INT32 = OperandType.TENSOR_INT32
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


def _selection(
    kind: OperandType,
    rows: int,
    classes: int,
    images: int,
    *,
    limit: int = -1,
    kernel: int = 0,
    sigma: float = 0.5,
) -> list[Given]:
    scores = generator.integers(0, 40, (rows, classes)) / 64
    owners = np.sort(generator.integers(0, images, rows))
    return [
        data(kind, scores, 1 / 64),
        coordinates(kind, random_boxes(generator, rows, classes).reshape(rows, 4 * classes)),
        given(INT32, owners),
        *reals(0.125, operand_type=kind),
        *scalars(limit, kernel),
        *reals(0.375, sigma, 0.25, operand_type=kind),
    ]


@sweep("kernel", [0, 1, 2])
@sweep("kind", (*FLOAT_TYPES, *QUANT8_TYPES))
def test_selection(kind: OperandType, kernel: int) -> None:
    for rows, classes, images, limit in ((1, 2, 1, -1), (20, 3, 4, -1), (30, 5, 2, 4), (9, 2, 9, 1)):
        inputs = _selection(kind, rows, classes, images, limit=limit, kernel=kernel)
        operand = inputs[0].operand
        outputs = (
            wanted(kind, operand.scale, operand.zero_point),
            coordinates_out(kind),
            wanted(INT32),
            wanted(INT32),
        )
        expect_same(SELECT, inputs, *outputs, data=(0, 1, 2), compare=close)


def test_selections_that_are_refused() -> None:
    kind = OperandType.TENSOR_FLOAT32
    outputs = (wanted(kind), wanted(kind), wanted(INT32), wanted(INT32))
    with pytest.raises(Unsupported, match="none may be selected"):
        lowered_all(SELECT, _selection(kind, 3, 2, 1, limit=0), *outputs, data=(0, 1, 2))
    with pytest.raises(BadData, match="must be positive"):
        lowered_all(SELECT, _selection(kind, 3, 2, 1, kernel=2, sigma=0), *outputs, data=(0, 1, 2))
    inputs = _selection(kind, 1, 2, 1)
    inputs[1] = given(kind, [[0, 0, 1, 1, 2, 0, 1, 1]])
    with pytest.raises(RequirementFailed, match="out of order"):
        lowered_all(SELECT, inputs, *outputs, data=(0, 1, 2))
