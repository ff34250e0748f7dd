import ctypes
import math
from typing import Any

import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import Given, evaluate, given, ints, scalars, stored_values, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
UINT8, INT8 = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
INT16, BOOL = OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_BOOL8

MEAN, SUM, PROD = OperationType.TFLITE_MEAN, OperationType.TFLITE_SUM, OperationType.TFLITE_REDUCE_PROD
MAX, MIN = OperationType.TFLITE_REDUCE_MAX, OperationType.TFLITE_REDUCE_MIN
CUMSUM = OperationType.TFLITE_CUMSUM
FUNCTIONS: dict[OperationType, Any] = {MEAN: np.mean, SUM: np.sum, PROD: np.prod, MAX: np.max, MIN: np.min}

CASES = [
    ((), ()),
    ((), (0,)),
    ((5,), (0,)),
    ((2, 3, 4), (-1, 0)),
    ((2, 1, 3, 2, 2), (4, 1, -1)),
    ((2, 3), ()),
]


def arguments(x: Given, axes: tuple[int, ...], operation: OperationType, *, keep: bool) -> tuple[Given, ...]:
    return x, ints(*axes), *scalars(int(keep) if operation is MEAN else keep)


def resolved(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple({axis % len(shape) for axis in axes}) if shape else ()


@sweep("operation", FUNCTIONS)
@sweep("operand_type", [FLOAT32, INT32, INT64])
@sweep(("shape", "axes"), CASES)
@sweep("keep", [False, True])
def test_numbers(
    operation: OperationType, operand_type: OperandType, shape: Any, axes: Any, *, keep: bool
) -> None:
    x = given(operand_type, np.random.default_rng(0).integers(-4, 5, shape))
    result = evaluate(operation, arguments(x, axes, operation, keep=keep), wanted(operand_type))
    expected = FUNCTIONS[operation](value(x).astype(np.float64), axis=resolved(shape, axes), keepdims=keep)
    if operand_type is not FLOAT32:
        expected = np.trunc(expected)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@sweep("operation", [MEAN, SUM])
@sweep(("operand_type", "zeros"), [(UINT8, (130, 7)), (INT8, (3, -40)), (INT16, (0, 0))])
@sweep(("shape", "axes"), CASES)
def test_quantized_sums(
    operation: OperationType, operand_type: OperandType, zeros: tuple[int, int], shape: Any, axes: Any
) -> None:
    x = given(operand_type, stored_values(np.random.default_rng(0), operand_type, shape), 0.25, zeros[0])
    output = wanted(operand_type, 0.375, zeros[1])
    result = evaluate(operation, arguments(x, axes, operation, keep=False), output).astype(float)
    real = FUNCTIONS[operation]((value(x).astype(float) - zeros[0]) * 0.25, axis=resolved(shape, axes))
    limits = np.iinfo(operand_type.dtype.name)
    assert np.abs(result - np.clip(real / 0.375 + zeros[1], limits.min, limits.max)).max() <= 1


@sweep(("operand_type", "zeros"), [(INT8, (3, -40)), (INT16, (0, 0))])
def test_quantized_products(operand_type: OperandType, zeros: tuple[int, int]) -> None:
    x = given(operand_type, np.random.default_rng(0).integers(-20, 20, (3, 5, 2)), 0.125, zeros[0])
    output = wanted(operand_type, 0.25, zeros[1])
    result = evaluate(PROD, arguments(x, (0, 2), PROD, keep=False), output).astype(float)
    real = np.prod((value(x).astype(float) - zeros[0]) * 0.125, axis=(0, 2))
    limits = np.iinfo(operand_type.dtype.name)
    expected = np.clip(real / 0.25 + zeros[1], limits.min, limits.max)
    # Every step rounds.
    assert np.abs(result - expected).max() <= 2 + 0.02 * np.abs(real).max()


@sweep(("operand_type", "zero"), [(INT8, 2), (INT16, 0)])
@sweep("count", [4, 16, 80])
def test_quantized_products_that_overflow_keep_their_low_bits(
    operand_type: OperandType, zero: int, count: int
) -> None:
    scale = 0.25
    stored = np.random.default_rng(count).integers(-100, 101, (count, 50))
    output = wanted(operand_type, scale, zero)
    result = evaluate(
        PROD, arguments(given(operand_type, stored, scale, zero), (0,), PROD, keep=False), output
    )
    # TFLite's product of a 64-bit number with a multiplier of 15 bits is converted to 32 bits.
    mantissa, exponent = math.frexp(scale / scale ** (1 / count))
    multiplier, shift = (round(mantissa * 2**31) + 2**15) >> 16, 15 - exponent
    limits = np.iinfo(operand_type.dtype.name)
    overflows = False
    for column, found in zip((stored - zero).T.tolist(), result.tolist(), strict=True):
        product = column[0]
        for factor in [*column[1:], 1]:
            exact = (product * factor * multiplier + (1 << (shift - 1))) >> shift
            product = ctypes.c_int32(exact).value
            overflows |= product != exact
        assert found == min(max(product + zero, limits.min), limits.max)
    assert overflows == (count > 4)


def test_extremes_are_copied_unchanged() -> None:
    x = given(INT8, [[1, 5, -3]], 0.5, 2)
    assert evaluate(MAX, arguments(x, (1,), MAX, keep=False), wanted(INT8, 0.5, 2)).tolist() == [5]
    assert evaluate(MIN, arguments(x, (1,), MIN, keep=False), wanted(INT8, 0.25, 3)).tolist() == [-3]


@sweep("keep", [False, True])
def test_booleans(*, keep: bool) -> None:
    x = given(BOOL, np.random.default_rng(0).random((3, 2, 4)) < 0.5)
    functions: tuple[tuple[OperationType, Any], ...] = (
        (OperationType.TFLITE_REDUCE_ALL, np.all),
        (OperationType.TFLITE_REDUCE_ANY, np.any),
        (MAX, np.any),
        (PROD, np.all),
    )
    for operation, function in functions:
        result = evaluate(operation, arguments(x, (1, 2), operation, keep=keep), wanted(BOOL))
        np.testing.assert_array_equal(result, function(value(x), axis=(1, 2), keepdims=keep))


def test_reductions_of_no_elements() -> None:
    x = given(FLOAT32, np.zeros((2, 0)))
    assert np.isnan(evaluate(MEAN, arguments(x, (1,), MEAN, keep=False), wanted(FLOAT32))).all()
    assert evaluate(SUM, arguments(x, (1,), SUM, keep=False), wanted(FLOAT32)).tolist() == [0, 0]
    assert evaluate(PROD, arguments(x, (1,), PROD, keep=False), wanted(FLOAT32)).tolist() == [1, 1]
    for scale, zero_point, stored in ((1.0, 0, 1), (0.5, -3, -1), (0.001, 0, 127)):
        empty = given(INT8, np.zeros((2, 0), np.int8), scale, zero_point)
        one = wanted(INT8, scale, zero_point)
        found = evaluate(PROD, arguments(empty, (1,), PROD, keep=False), one)
        assert found.tolist() == [stored] * 2
    lowest = float(np.finfo(np.float32).min)
    assert evaluate(MAX, arguments(x, (1,), MAX, keep=False), wanted(FLOAT32)).tolist() == [lowest] * 2
    y = given(INT8, np.zeros((2, 0)), 0.5, 3)
    assert evaluate(MEAN, arguments(y, (1,), MEAN, keep=False), wanted(INT8, 0.25, 1)).tolist() == [0, 0]


@sweep("operand_type", [FLOAT32, INT32, INT64])
@sweep(("shape", "axis"), [((5,), 0), ((2, 3, 4), 1), ((2, 3, 4), -1), ((0, 2), 1), ((2, 0), 1)])
@sweep("exclusive", [False, True])
@sweep("reverse", [False, True])
def test_cumulative_sums(
    operand_type: OperandType, shape: Any, axis: int, *, exclusive: bool, reverse: bool
) -> None:
    x = given(operand_type, np.random.default_rng(0).integers(-9, 9, shape))
    result = evaluate(CUMSUM, [x, ints(axis), *scalars(exclusive, reverse)], wanted(operand_type))
    values = np.flip(value(x), axis) if reverse else value(x)
    expected = np.cumsum(values, axis) - (values if exclusive else 0)
    np.testing.assert_array_equal(result, np.flip(expected, axis) if reverse else expected)


@sweep("axis", [2, -3, 2**31 - 1])
def test_cumulative_sums_refuse_axes(axis: int) -> None:
    x = given(FLOAT32, np.zeros((2, 3)))
    with pytest.raises(BadData, match="one axis of rank 2 is expected"):
        evaluate(CUMSUM, [x, ints(axis), *scalars(False, False)], wanted(FLOAT32))
