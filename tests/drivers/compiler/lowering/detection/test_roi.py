import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.operations.boxes import real_scalars
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
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

ALIGN, POOL = OperationType.ROI_ALIGN, OperationType.ROI_POOLING
FLOAT, BOX16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT16_ASYMM
generator = np.random.default_rng(9)


def _boxes(count: int, width: float, height: float) -> Array:
    corners = np.sort(generator.uniform(0, 1, (count, 2, 2)), axis=1) * (width, height)
    corners[:1] = np.array([[0, 0], [width, height]])
    return corners.reshape(count, 4)


def _arguments(
    kind: OperandType,
    source: Given,
    boxes: Given,
    images: Array,
    size: tuple[int, int],
    *more: int,
    nchw: bool,
) -> list[Given]:
    strides = real_scalars(kind, 2.0, 4.0)
    return [source, boxes, ints(*images), *scalars(*size), *strides, *scalars(*more, nchw)]


@sweep("size", [(1, 1), (3, 2), (9, 7)])
@sweep("nchw", [False, True])
@sweep("samples", [(2, 3), (0, 1), (0, 0)])
def test_align(samples: tuple[int, int], nchw: bool, size: tuple[int, int]) -> None:
    shape, count = ((2, 3, 8, 6) if nchw else (2, 8, 6, 3)), 5
    images = generator.integers(0, 2, count)
    for kind in FLOAT_TYPES:
        source = given(kind, generator.normal(0, 1, shape))
        boxes = given(kind, _boxes(count, 24, 16))
        inputs = _arguments(kind, source, boxes, images, size, *samples, nchw=nchw)
        expect_same(ALIGN, inputs, wanted(kind), data=(0, 1, 2), compare=close)
    for kind in QUANT8_TYPES:
        source = given(kind, stored_values(generator, kind, shape), 0.1, 7)
        boxes = given(BOX16, _boxes(count, 24, 16) * 8, 0.125)
        inputs = _arguments(kind, source, boxes, images, size, *samples, nchw=nchw)
        expect_same(ALIGN, inputs, wanted(kind, 0.2, 9), data=(0, 1, 2), compare=close)


@sweep("size", [(1, 1), (3, 2), (12, 7)])
@sweep("nchw", [False, True])
def test_pool(nchw: bool, size: tuple[int, int]) -> None:
    shape, count = ((2, 3, 8, 6) if nchw else (2, 8, 6, 3)), 5
    images = generator.integers(0, 2, count)
    for kind in FLOAT_TYPES:
        source = given(kind, generator.normal(0, 1, shape))
        inputs = _arguments(kind, source, given(kind, _boxes(count, 24, 16)), images, size, nchw=nchw)
        expect_same(POOL, inputs, wanted(kind), data=(0, 1, 2))
    for kind in QUANT8_TYPES:
        source = given(kind, stored_values(generator, kind, shape), 0.1, 7)
        boxes = given(BOX16, _boxes(count, 24, 16) * 8, 0.125)
        inputs = _arguments(kind, source, boxes, images, size, nchw=nchw)
        expect_same(POOL, inputs, wanted(kind, 0.1, 7), data=(0, 1, 2))


@sweep(
    ("box", "image", "message"),
    [
        ((3, 0, 2, 4), 0, "corners out of order"),
        ((0, 0, 25, 4), 0, "leaves its image"),
        ((-1, 0, 2, 4), 0, "leaves its image"),
        ((np.nan, 0, 2, 4), 0, "corners out of order"),
        ((0, 0, 2, 4), 2, "no such image"),
        ((0, 0, 2, 4), -1, "no such image"),
    ],
)
def test_wrong_boxes_fail(box: tuple[float, ...], image: int, message: str) -> None:
    source = given(FLOAT, np.zeros((2, 8, 6, 3)))
    for operation, more in ((ALIGN, (2, 2)), (POOL, ())):
        boxes, images = given(FLOAT, [box]), np.array([image])
        inputs = _arguments(FLOAT, source, boxes, images, (2, 2), *more, nchw=False)
        with pytest.raises(RequirementFailed, match=message):
            lowered_all(operation, inputs, wanted(FLOAT), data=(0, 1, 2))


def test_no_boxes() -> None:
    source, boxes = given(FLOAT, np.zeros((1, 8, 6, 3))), given(FLOAT, np.zeros((0, 4)))
    inputs = _arguments(FLOAT, source, boxes, np.zeros(0, np.int32), (2, 2), nchw=False)
    expect_same(POOL, inputs, wanted(FLOAT), data=(0, 1, 2))
