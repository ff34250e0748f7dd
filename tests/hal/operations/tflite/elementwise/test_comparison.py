from typing import Any

import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import Given, evaluate, given, stored_values, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

BOOL, COMPLEX = OperandType.TENSOR_BOOL8, OperandType.TENSOR_COMPLEX64
INT8, INT16 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
PLAIN = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT64,
    OperandType.TENSOR_INT64,
    OperandType.TENSOR_UINT32,
)
COMPARISONS = {
    OperationType.TFLITE_EQUAL: np.equal,
    OperationType.TFLITE_NOT_EQUAL: np.not_equal,
    OperationType.TFLITE_LESS: np.less,
    OperationType.TFLITE_LESS_EQUAL: np.less_equal,
    OperationType.TFLITE_GREATER: np.greater,
    OperationType.TFLITE_GREATER_EQUAL: np.greater_equal,
}
SHAPES = [((), ()), ((2, 3), (3,)), ((2, 1, 3, 1, 2, 1), (4, 1, 5, 1, 2)), ((0, 2), (1, 1))]


def small(operand_type: OperandType, *shape: int, seed: int = 0) -> Given:
    return given(operand_type, np.random.default_rng([seed, *shape]).integers(0, 4, shape))


@sweep("operation", COMPARISONS)
@sweep("operand_type", PLAIN)
@sweep(("first", "second"), SHAPES)
def test_comparisons(operation: OperationType, operand_type: OperandType, first: Any, second: Any) -> None:
    x, y = small(operand_type, *first), small(operand_type, *second, seed=1)
    expected = COMPARISONS[operation](value(x), value(y))
    np.testing.assert_array_equal(evaluate(operation, (x, y), wanted(BOOL)), expected)


@sweep("operation", COMPARISONS)
def test_comparisons_of_quantized_values(operation: OperationType) -> None:
    """With power-of-two scales, 256 times the values are exact."""
    generator = np.random.default_rng(0)
    x = given(INT8, stored_values(generator, INT8, (40, 1)), 0.25, 3)
    y = given(INT8, stored_values(generator, INT8, (50,)), 0.5, -9)
    expected = COMPARISONS[operation]((value(x).astype(float) - 3) * 0.25, (value(y).astype(float) + 9) * 0.5)
    np.testing.assert_array_equal(evaluate(operation, (x, y), wanted(BOOL)), expected)


def test_small_scales_make_numbers_equal() -> None:
    x, y = given(INT8, [0, 1, 2, 127], 2**-10), given(INT8, [0, 0, 0, 0], 2**-10)
    assert evaluate(OperationType.TFLITE_EQUAL, (x, y), wanted(BOOL)).tolist() == [True, True, False, False]


def test_16_bit_scales_matter_for_equality_only() -> None:
    x, y = given(INT16, [2, 4], 0.5), given(INT16, [1, 1], 1.0)
    assert evaluate(OperationType.TFLITE_EQUAL, (x, y), wanted(BOOL)).tolist() == [True, False]
    assert evaluate(OperationType.TFLITE_LESS_EQUAL, (x, y), wanted(BOOL)).tolist() == [False, False]


@sweep("operand_type", PLAIN)
@sweep(("first", "second"), SHAPES)
def test_extremes(operand_type: OperandType, first: Any, second: Any) -> None:
    x, y = small(operand_type, *first), small(operand_type, *second, seed=1)
    for operation, function in (
        (OperationType.TFLITE_MAXIMUM, np.maximum),
        (OperationType.TFLITE_MINIMUM, np.minimum),
    ):
        result = evaluate(operation, (x, y), wanted(operand_type))
        np.testing.assert_array_equal(result, function(value(x), value(y)))


@sweep("operation", [OperationType.TFLITE_MAXIMUM, OperationType.TFLITE_MINIMUM])
def test_extremes_of_truth_values_and_of_no_complex_numbers(operation: OperationType) -> None:
    pairs = given(BOOL, [False, False, True, True]), given(BOOL, [False, True, False, True])
    is_largest = operation is OperationType.TFLITE_MAXIMUM
    expected = np.logical_or if is_largest else np.logical_and
    np.testing.assert_array_equal(evaluate(operation, pairs, wanted(BOOL)), expected(*map(value, pairs)))
    for shapes in (((0,), (0,)), ((2, 0, 3), (1, 3)), ((0, 1), ())):
        result = evaluate(operation, [small(COMPLEX, *shape) for shape in shapes], wanted(COMPLEX))
        assert result.dtype == np.complex64
        assert result.shape == np.broadcast_shapes(*shapes)
    with pytest.raises(BadData, match=r"shape \[2, 3\]; complex numbers have no order"):
        evaluate(operation, [small(COMPLEX, 2, 3), small(COMPLEX, 3)], wanted(COMPLEX))


def test_extremes_compare_raw_values() -> None:
    x, y = given(INT8, [1, -3], 0.5, 7), given(INT8, [0, 5], 2.0)
    result = evaluate(OperationType.TFLITE_MAXIMUM, (x, y), wanted(INT8, 0.25, 1))
    assert result.tolist() == [1, 5]


@sweep("operand_type", [*PLAIN, BOOL, COMPLEX])
@sweep("shape", [(), (5,), (2, 3, 1, 2, 1), (0, 3)])
def test_selection(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    x, y = small(operand_type, *shape), small(operand_type, *shape, seed=1)
    for chosen in {(), shape[:1], shape}:
        condition = given(BOOL, np.random.default_rng(0).random(chosen) < 0.5)
        result = evaluate(OperationType.TFLITE_SELECT, (condition, x, y), wanted(operand_type))
        choice = value(condition).reshape(chosen + (1,) * (len(shape) - len(chosen)))
        np.testing.assert_array_equal(result, np.where(choice, value(x), value(y)))


def test_refuses_selections() -> None:
    x, y, condition = small(PLAIN[0], 2, 3), small(PLAIN[0], 3), given(BOOL, [True] * 3)
    with pytest.raises(BadData, match="that of input1"):
        evaluate(OperationType.TFLITE_SELECT, (condition, x, y), wanted(PLAIN[0]))
    with pytest.raises(BadData, match=r"\[\], \[2\] or \[2, 3\] is expected"):
        evaluate(OperationType.TFLITE_SELECT, (condition, x, x), wanted(PLAIN[0]))
    with pytest.raises(BadData, match="cannot broadcast"):
        evaluate(OperationType.TFLITE_SELECT_V2, (given(BOOL, [True] * 4), x, y), wanted(PLAIN[0]))


def test_broadcasting_selection() -> None:
    condition = given(BOOL, np.random.default_rng(0).random((4, 1, 3)) < 0.5)
    x, y = small(INT8, 2, 1), small(INT8, seed=1)
    x, y = (given(INT8, value(z), 0.5) for z in (x, y))
    result = evaluate(OperationType.TFLITE_SELECT_V2, (condition, x, y), wanted(INT8, 0.5))
    np.testing.assert_array_equal(result, np.where(value(condition), value(x), value(y)))
