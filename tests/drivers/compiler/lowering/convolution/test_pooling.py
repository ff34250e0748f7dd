import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same
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

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

pytestmark = pytest.mark.quick

AVERAGE, MAXIMUM, NORM = (
    OperationType.AVERAGE_POOL_2D,
    OperationType.MAX_POOL_2D,
    OperationType.L2_POOL_2D,
)
#: Stride (width, height), window (width, height), activation.
WINDOWS = ((1, 1, 1, 1, 0), (2, 1, 3, 2, 1), (1, 2, 5, 9, 3), (3, 3, 2, 2, 2), (1, 1, 9, 9, 0))
PADDINGS = ((1,), (2,), (1, 0, 1, 1))
generator = np.random.default_rng(3)


def _inputs(source: Given, padding: tuple[int, ...], window: tuple[int, ...], nchw: bool) -> list[Given]:
    return [source, *scalars(*padding, *window, nchw)]


@sweep("padding", PADDINGS)
@sweep("window", WINDOWS)
@sweep("operation", [AVERAGE, MAXIMUM, NORM])
def test_floats(operation: OperationType, window: tuple[int, ...], padding: tuple[int, ...]) -> None:
    if len(padding) == 4 and min(window[2:4]) < 2:
        padding = (0, 0, 0, 0)
    for kind in FLOAT_TYPES:
        for nchw in (False, True):
            shape = (2, 3, 10, 11) if nchw else (2, 10, 11, 3)
            source = given(kind, generator.normal(0, 2, shape))
            expect_same(operation, _inputs(source, padding, window, nchw), wanted(kind), compare=close)


@sweep("padding", PADDINGS[:2])
@sweep("window", WINDOWS)
@sweep("operation", [AVERAGE, MAXIMUM])
def test_quantized_values(
    operation: OperationType, window: tuple[int, ...], padding: tuple[int, ...]
) -> None:
    for kind in QUANT8_TYPES:
        source = given(kind, stored_values(generator, kind, (1, 10, 11, 3)), 0.05, 8)
        expect_same(operation, _inputs(source, padding, window, False), wanted(kind, 0.05, 8))


def test_16_bit_values() -> None:
    kind = OperandType.TENSOR_QUANT16_SYMM
    source = given(kind, stored_values(generator, kind, (1, 10, 11, 3)), 0.05)
    for operation in (OperationType.TFLITE_AVERAGE_POOL_2D, OperationType.TFLITE_MAX_POOL_2D):
        expect_same(operation, _inputs(source, (1,), (2, 1, 5, 6, 1), False), wanted(kind, 0.05))


def test_no_images() -> None:
    kind = OperandType.TENSOR_FLOAT32
    source = given(kind, np.zeros((0, 5, 5, 2)))
    expect_same(AVERAGE, _inputs(source, (1,), (1, 1, 3, 3, 0), False), wanted(kind))


def test_infinite_elements() -> None:
    kind = OperandType.TENSOR_FLOAT32
    source = given(kind, np.full((1, 4, 4, 1), -np.inf))
    expect_same(MAXIMUM, _inputs(source, (1,), (1, 1, 3, 3, 0), False), wanted(kind))
