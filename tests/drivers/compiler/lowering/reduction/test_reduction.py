import math

import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    given,
    ints,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

AXES = ((), (0,), (-1,), (1, 1, -2), (0, 1, 2), (2, -3))
FOLDS = (
    OperationType.REDUCE_MAX,
    OperationType.REDUCE_MIN,
    OperationType.REDUCE_PROD,
    OperationType.REDUCE_SUM,
    OperationType.MEAN,
)
generator = np.random.default_rng(1)


def _flag(operation: OperationType, keep: bool) -> bool | int:
    return int(keep) if operation in (OperationType.MEAN, OperationType.TFLITE_MEAN) else keep


@sweep("keep", [False, True])
@sweep("axes", AXES)
@sweep("operation", FOLDS)
def test_floats(operation: OperationType, axes: tuple[int, ...], keep: bool) -> None:
    for kind in FLOAT_TYPES:
        values = generator.uniform(0.5, 1.5, (3, 5, 7))
        inputs = [given(kind, values), ints(*axes), *scalars(_flag(operation, keep))]
        expect_same(operation, inputs, wanted(kind), compare=close)


@sweep("kind", QUANT8_TYPES)
@sweep("axes", AXES)
def test_quantized_values(kind: OperandType, axes: tuple[int, ...]) -> None:
    source = given(kind, stored_values(generator, kind, (3, 5, 7)), 0.3, 7)
    expect_same(OperationType.MEAN, [source, ints(*axes), *scalars(1)], wanted(kind, 0.3, 7))
    for operation in (OperationType.REDUCE_MAX, OperationType.REDUCE_MIN):
        expect_same(operation, [source, ints(*axes), *scalars(False)], wanted(kind, 0.3, 7))


@sweep("operation", [OperationType.REDUCE_ALL, OperationType.REDUCE_ANY])
@sweep("axes", AXES)
def test_booleans(operation: OperationType, axes: tuple[int, ...]) -> None:
    kind = OperandType.TENSOR_BOOL8
    values = generator.integers(0, 2, (3, 2, 4)).astype(bool)
    expect_same(operation, [given(kind, values), ints(*axes), *scalars(False)], wanted(kind))


@sweep("operation", FOLDS[:4])
@sweep("shape", [(0, 3), (3, 0), (0, 0)])
def test_no_elements(operation: OperationType, shape: tuple[int, ...]) -> None:
    kind = OperandType.TENSOR_FLOAT32
    inputs = [given(kind, np.zeros(shape)), ints(1), *scalars(False)]
    expect_same(operation, inputs, wanted(kind))


def test_a_scalar() -> None:
    kind = OperandType.TENSOR_FLOAT32
    expect_same(OperationType.REDUCE_SUM, [given(kind, 3.5), ints(), *scalars(False)], wanted(kind))
    expect_same(OperationType.TFLITE_SUM, [given(kind, 3.5), ints(0), *scalars(False)], wanted(kind))


def test_nan() -> None:
    kind = OperandType.TENSOR_FLOAT32
    values = np.array([[1, math.nan, 3], [math.inf, 2, -math.inf], [-math.inf] * 3])
    for operation in (
        OperationType.REDUCE_MAX,
        OperationType.TFLITE_REDUCE_MAX,
        OperationType.TFLITE_REDUCE_MIN,
    ):
        expect_same(operation, [given(kind, values), ints(1), *scalars(False)], wanted(kind))


@sweep("count", [70_001, 300_001])
@sweep("offset", [-30000, 0, 30000])
@sweep("scale", [0.3, 0.0011, 250.0])
def test_means_whose_sums_may_exceed_32_bits(count: int, offset: int, scale: float) -> None:
    kind = OperandType.TENSOR_QUANT16_SYMM
    values = np.clip(generator.integers(-9000, 9000, (2, count)) + offset, -32768, 32767)
    inputs = [given(kind, values.astype(np.int16), 0.3), ints(1), *scalars(1)]
    expect_same(OperationType.TFLITE_MEAN, inputs, wanted(kind, scale))


@sweep("factor", [2.0**15, 2.0**16, 2.0**30, 2.0**40])
@sweep("count", [70_001, 1 << 17])
def test_such_means_that_are_multiplied(count: int, factor: float) -> None:
    kind = OperandType.TENSOR_QUANT16_SYMM
    values = np.zeros((4, count), np.int16)
    values[0, ::10_000], values[1], values[2] = 1, 32767, -32768
    values[3, 0], values[3, 1] = 1, -3
    inputs = [given(kind, values, factor), ints(1), *scalars(1)]
    expect_same(OperationType.TFLITE_MEAN, inputs, wanted(kind, 1.0))
