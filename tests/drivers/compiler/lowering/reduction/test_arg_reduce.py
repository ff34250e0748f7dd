import numpy as np
from support.compiler.lowering_beside_reference import expect_same
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    given,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
EXTREMES = (OperationType.ARGMAX, OperationType.ARGMIN)
TFLITE_EXTREMES = (OperationType.TFLITE_ARG_MAX, OperationType.TFLITE_ARG_MIN)
generator = np.random.default_rng(7)


def _floats(shape: tuple[int, ...]) -> Array:
    """Returns floats with equal elements and NaN."""
    values = generator.integers(-3, 4, shape).astype(np.float32)
    values[generator.random(shape) < 0.03] = np.nan
    return values


@sweep("operation", [*EXTREMES, *TFLITE_EXTREMES])
@sweep("shape", [(1,), (9,), (4, 7), (0, 3), (3, 4, 5)])
def test_extremes(operation: OperationType, shape: tuple[int, ...]) -> None:
    for axis in range(-1, len(shape)):
        if not shape[axis]:
            continue
        for kind in FLOAT_TYPES:
            expect_same(operation, [given(kind, _floats(shape)), *scalars(axis)], wanted(INT32))
        for kind in QUANT8_TYPES:
            source = given(kind, stored_values(generator, kind, shape), 1.0)
            expect_same(operation, [source, *scalars(axis)], wanted(INT32))
        source = given(INT32, generator.integers(-3, 4, shape))
        expect_same(operation, [source, *scalars(axis)], wanted(INT32))


@sweep("operation", TFLITE_EXTREMES)
def test_extremes_of_other_types(operation: OperationType) -> None:
    for kind in (INT64, OperandType.TENSOR_UINT32, OperandType.TENSOR_FLOAT64, OperandType.TENSOR_BOOL8):
        source = given(kind, generator.integers(0, 2, (3, 5)))
        expect_same(operation, [source, *scalars(1)], wanted(INT64))


@sweep("shape", [(1,), (20,), (4, 9), (0, 3), (2, 3, 6)])
def test_top(shape: tuple[int, ...]) -> None:
    for k in (1, shape[-1] // 2 + 1, shape[-1]):
        for kind in (*FLOAT_TYPES, INT32):
            values = _floats(shape) if kind in FLOAT_TYPES else generator.integers(-3, 4, shape)
            inputs = [given(kind, values), *scalars(k)]
            for operation in (OperationType.TOPK_V2, OperationType.TFLITE_TOPK_V2):
                expect_same(operation, inputs, wanted(kind), wanted(INT32))
        for kind in QUANT8_TYPES:
            inputs = [given(kind, stored_values(generator, kind, shape), 0.5, 2), *scalars(k)]
            expect_same(OperationType.TOPK_V2, inputs, wanted(kind, 0.5, 2), wanted(INT32))
    none = [given(OperandType.TENSOR_BOOL8, np.ones(shape)), *scalars(0)]
    expect_same(OperationType.TFLITE_TOPK_V2, none, wanted(OperandType.TENSOR_BOOL8), wanted(INT64))


def test_top_of_long_rows() -> None:
    values = _floats((20_000,))
    kind = OperandType.TENSOR_FLOAT32
    expect_same(OperationType.TOPK_V2, [given(kind, values), *scalars(100)], wanted(kind), wanted(INT32))
