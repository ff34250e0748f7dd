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

AXES = ((), (0,), (-1,), (1, 1, -2), (0, 1, 2))
FOLDS = (
    OperationType.TFLITE_REDUCE_MAX,
    OperationType.TFLITE_REDUCE_MIN,
    OperationType.TFLITE_REDUCE_PROD,
    OperationType.TFLITE_SUM,
)
WHOLE = (OperandType.TENSOR_INT32, OperandType.TENSOR_INT64)
STORED = (*QUANT8_TYPES, OperandType.TENSOR_QUANT16_SYMM)
generator = np.random.default_rng(2)


@sweep("axes", AXES)
@sweep("kind", WHOLE)
def test_integers(kind: OperandType, axes: tuple[int, ...]) -> None:
    limits = np.iinfo(kind.dtype.name)
    values = given(kind, generator.integers(limits.min, limits.max, (3, 4, 5)))
    for operation in FOLDS:
        expect_same(operation, [values, ints(*axes), *scalars(True)], wanted(kind))
    small = given(kind, generator.integers(-1000, 1000, (3, 4, 5)))
    expect_same(OperationType.TFLITE_MEAN, [small, ints(*axes), *scalars(0)], wanted(kind))


@sweep("axes", AXES)
@sweep("operation", FOLDS)
def test_booleans(operation: OperationType, axes: tuple[int, ...]) -> None:
    kind = OperandType.TENSOR_BOOL8
    values = given(kind, generator.integers(0, 2, (3, 2, 4)).astype(bool))
    expect_same(operation, [values, ints(*axes), *scalars(False)], wanted(kind))


@sweep("axes", AXES)
@sweep("kind", STORED)
def test_quantized_values(kind: OperandType, axes: tuple[int, ...]) -> None:
    zero_point = 0 if kind is OperandType.TENSOR_QUANT16_SYMM else 9
    source = given(kind, stored_values(generator, kind, (3, 4, 5)), 0.02, zero_point)
    for scale in (0.02, 0.7):
        output = wanted(kind, scale, 0 if zero_point == 0 else 40)
        inputs = [source, ints(*axes)]
        expect_same(OperationType.TFLITE_MEAN, [*inputs, *scalars(0)], output)
        expect_same(OperationType.TFLITE_SUM, [*inputs, *scalars(False)], output)
        expect_same(OperationType.TFLITE_REDUCE_PROD, [*inputs, *scalars(False)], output)


@sweep("kind", STORED)
@sweep("count", [16, 60, 70])
def test_quantized_products_that_overflow(kind: OperandType, count: int) -> None:
    zero_point = 0 if kind is OperandType.TENSOR_QUANT16_SYMM else 9
    source = given(kind, stored_values(generator, kind, (4, count)), 0.25, zero_point)
    output = wanted(kind, 0.25, zero_point)
    expect_same(OperationType.TFLITE_REDUCE_PROD, [source, ints(1), *scalars(False)], output)


def test_mean_of_no_elements() -> None:
    for kind in (OperandType.TENSOR_FLOAT32, *WHOLE, *STORED):
        values = given(kind, np.zeros((3, 0)), 1.0 if kind in STORED else 0.0)
        output = wanted(kind, 1.0 if kind in STORED else 0.0)
        expect_same(OperationType.TFLITE_MEAN, [values, ints(1), *scalars(0)], output)


@sweep("exclusive", [False, True])
@sweep("reverse", [False, True])
@sweep("length", [0, 1, 7, 64, 65, 100, 130])
def test_cumulative_sums(length: int, reverse: bool, exclusive: bool) -> None:
    for kind in (*FLOAT_TYPES, *WHOLE):
        for shape, axis in (((2, length, 3), 1), ((2, length), -1)):
            values = given(kind, generator.integers(-3, 4, shape))
            inputs = [values, ints(axis), *scalars(exclusive, reverse)]
            expect_same(OperationType.TFLITE_CUMSUM, inputs, wanted(kind), compare=close)
