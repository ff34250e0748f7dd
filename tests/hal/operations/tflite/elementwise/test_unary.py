from collections.abc import Callable

import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import evaluate, given, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)
INT8, INT16 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
INT64 = OperandType.TENSOR_INT64

FUNCTIONS: dict[OperationType, Callable[[Array], Array]] = {
    OperationType.TFLITE_ABS: np.abs,
    OperationType.TFLITE_CEIL: np.ceil,
    OperationType.TFLITE_COS: np.cos,
    OperationType.TFLITE_EXP: np.exp,
    OperationType.TFLITE_FLOOR: np.floor,
    OperationType.TFLITE_LOG: np.log,
    OperationType.TFLITE_NEG: np.negative,
    OperationType.TFLITE_ROUND: np.round,
    OperationType.TFLITE_RSQRT: lambda x: 1 / np.sqrt(x),
    OperationType.TFLITE_SIGN: np.sign,
    OperationType.TFLITE_SQRT: np.sqrt,
    OperationType.TFLITE_SQUARE: np.square,
}
#: Functions that are undefined for negative numbers.
POSITIVE = (OperationType.TFLITE_LOG, OperationType.TFLITE_RSQRT, OperationType.TFLITE_SQRT)


@sweep("operation", FUNCTIONS)
@sweep("operand_type", FLOATS)
@sweep("shape", [(), (0, 2), (7,), (2, 1, 3, 1, 2, 2)])
def test_floats(operation: OperationType, operand_type: OperandType, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).uniform(0.5 if operation in POSITIVE else -5, 5, shape)
    x = given(operand_type, values)
    result = evaluate(operation, [x], wanted(operand_type))
    expected = FUNCTIONS[operation](value(x).astype(np.float64))
    tolerance = 1e-6 if operand_type is FLOATS[0] else 2e-3
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def test_ties_are_rounded_to_even_numbers() -> None:
    x = given(FLOATS[0], [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    result = evaluate(OperationType.TFLITE_ROUND, [x], wanted(FLOATS[0]))
    assert result.tolist() == [-2, -2, 0, 0, 2, 2]


@sweep("operation", [OperationType.TFLITE_ABS, OperationType.TFLITE_NEG])
def test_integers(operation: OperationType) -> None:
    x = given(INT64, [-(2**40), 0, 5])
    expected = FUNCTIONS[operation](value(x))
    np.testing.assert_array_equal(evaluate(operation, [x], wanted(INT64)), expected)


def test_raw_numbers_are_negated() -> None:
    x = given(INT8, [-128, 0, 100], 0.5, 3)
    assert evaluate(OperationType.TFLITE_NEG, [x], wanted(INT8, 0.5, 3)).tolist() == [-128, 0, -100]


@sweep(
    "operation",
    [
        OperationType.TFLITE_ABS,
        OperationType.TFLITE_EXP,
        OperationType.TFLITE_LOG,
        OperationType.TFLITE_RSQRT,
        OperationType.TFLITE_SQRT,
    ],
)
@sweep("operand_type", [INT8, INT16])
def test_quantized_values(operation: OperationType, operand_type: OperandType) -> None:
    """Results are within a step; 16-bit tables need arguments away from poles, results in range."""
    zero, result_zero = (-100, -20) if operand_type is INT8 else (0, 0)
    scale = 0.05 if operand_type is INT8 else 2.0**-13
    result_scale = {OperationType.TFLITE_EXP: 0.5}.get(operation, 0.04) / (1 if operand_type is INT8 else 256)
    limits = np.iinfo(operand_type.dtype.name)
    lowest = zero + round(1.0 / scale) if operation in POSITIVE else limits.min
    x = given(operand_type, np.arange(lowest, limits.max + 1), scale, zero)
    result = evaluate(operation, [x], wanted(operand_type, result_scale, result_zero)).astype(float)
    real = FUNCTIONS[operation]((value(x).astype(float) - zero) * scale)
    expected = np.clip(real / result_scale + result_zero, limits.min, limits.max)
    # Results between the 513 entries of a 16-bit table are less accurate.
    steps = 1.01 if operand_type is INT8 or operation is OperationType.TFLITE_ABS else 8.0
    assert np.abs(result - expected).max() <= steps


@sweep("operation", [OperationType.TFLITE_RSQRT, OperationType.TFLITE_SQRT])
@sweep("operand_type", [INT8, INT16])
def test_roots_of_negative_numbers(operation: OperationType, operand_type: OperandType) -> None:
    with pytest.raises(BadData, match=r"the square root of -0\.5"):
        evaluate(operation, [given(operand_type, [-1, 3], 0.5)], wanted(operand_type, 0.5))


def test_poles() -> None:
    x = given(INT8, [0], 0.5)
    assert evaluate(OperationType.TFLITE_RSQRT, [x], wanted(INT8, 0.5)).tolist() == [127]
    assert evaluate(OperationType.TFLITE_LOG, [x], wanted(INT8, 0.5)).tolist() == [-128]


def test_quantized_roots_are_truncated() -> None:
    x = given(INT8, [0, 3, 4, 8], 1.0)
    assert evaluate(OperationType.TFLITE_SQRT, [x], wanted(INT8, 1.0, 5)).tolist() == [5, 6, 7, 7]
