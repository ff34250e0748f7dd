from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.operations.exact import away_from_zero, cut, multiplier, times
from support.operations.random_tensors import value
from support.operations.single_operation import Given, evaluate, given, scalars, stored_values, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS, WIDER
from neurald.hal.operations.machinery.call import Array

pytestmark = pytest.mark.quick

FLOAT32, FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
INT32, INT64, UINT32 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64, OperandType.TENSOR_UINT32
UINT8, INT8 = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
INT16, COMPLEX = OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_COMPLEX64

ADD, SUB = OperationType.TFLITE_ADD, OperationType.TFLITE_SUB
MUL, DIV = OperationType.TFLITE_MUL, OperationType.TFLITE_DIV

SHAPES = [
    ((), (3,)),
    ((2, 3), (2, 3)),
    ((2, 1, 3, 1, 2), (4, 1, 5, 1)),
    ((0, 3), (1, 3)),
    ((1,) * 7, (2,) * 7),
]


def whole(operand_type: OperandType, *shape: int, low: int = -40, seed: int = 0) -> Given:
    generator = np.random.default_rng([seed, *shape])
    return given(operand_type, generator.integers(low, 41, shape), 1.0 if operand_type is INT8 else 0.0)


def quantized(operand_type: OperandType, scale: float, zero_point: int, *shape: int, seed: int = 0) -> Given:
    generator = np.random.default_rng([seed, *shape])
    return given(operand_type, stored_values(generator, operand_type, shape), scale, zero_point)


@sweep(("first", "second"), SHAPES)
@sweep(("operation", "function"), [(ADD, np.add), (SUB, np.subtract), (MUL, np.multiply)])
@sweep("operand_type", [INT32, INT64])
def test_integers(
    operation: OperationType, function: np.ufunc, operand_type: OperandType, first: Any, second: Any
) -> None:
    x, y = whole(operand_type, *first), whole(operand_type, *second, seed=1)
    for activation, low, high in ((0, None, None), (1, 0, None), (2, -1, 1), (3, 0, 6)):
        result = evaluate(operation, (x, y, *scalars(activation)), wanted(operand_type))
        expected = function(value(x), value(y))
        if activation:
            expected = np.clip(expected, low, high)
        np.testing.assert_array_equal(result, expected)


def test_integers_wrap_around() -> None:
    x = given(INT64, [2**63 - 1, -(2**63)])
    assert evaluate(ADD, (x, x, *scalars(0)), wanted(INT64)).tolist() == [-2, 0]
    y = given(UINT32, [2**31, 3])
    assert evaluate(MUL, (y, given(UINT32, 2), *scalars(3)), wanted(UINT32)).tolist() == [0, 6]


def test_complex_numbers() -> None:
    x, y = given(COMPLEX, [[1 + 2j], [3j]]), given(COMPLEX, [1j, -2])
    result = evaluate(MUL, (x, y, *scalars(0)), wanted(COMPLEX))
    np.testing.assert_array_equal(result, value(x) * value(y))
    with pytest.raises(BadData, match="COMPLEX64 takes NONE"):
        evaluate(MUL, (x, y, *scalars(1)), wanted(COMPLEX))


@sweep(("operation", "sign"), [(ADD, 1), (SUB, -1)])
@sweep(("operand_type", "shift"), [(UINT8, 20), (INT8, 20), (INT16, 15)])
def test_quantized_sums(operation: OperationType, sign: int, operand_type: OperandType, shift: int) -> None:
    zeros = (0, 0, 0) if operand_type is INT16 else (7, 100, 3)
    scales = (0.25, 0.09375, 0.3125)
    x = quantized(operand_type, scales[0], zeros[0], 2, 3, 1, 5, 2)
    y = quantized(operand_type, scales[1], zeros[1], 2, 1, 4, 1, 2, seed=1)
    result = evaluate(operation, (x, y, *scalars(0)), wanted(operand_type, scales[2], zeros[2]))
    a, b = np.broadcast_arrays(value(x).astype(int), value(y).astype(int))
    dtype = operand_type.dtype.name
    largest = 2 * max(scales[:2])
    for one, two, got in zip(a.flat, b.flat, result.flat, strict=True):
        first = times((int(one) - zeros[0]) << shift, *multiplier(scales[0] / largest))
        second = times((int(two) - zeros[1]) << shift, *multiplier(scales[1] / largest))
        total = times(first + sign * second, *multiplier(largest / (2**shift * scales[2])))
        assert got == cut(total + zeros[2], dtype)


@sweep(("scales", "shifts"), [((0.5, 0.25, 0.5), (0, 1)), ((0.125, 0.5, 0.5), (2, 0))])
@sweep(("operation", "sign"), [(ADD, 1), (SUB, -1)])
def test_16_bit_sums_with_power_of_two_scales(
    operation: OperationType, sign: int, scales: tuple[float, ...], shifts: tuple[int, int]
) -> None:
    x, y = quantized(INT16, scales[0], 0, 50), quantized(INT16, scales[1], 0, 50, seed=1)
    result = evaluate(operation, (x, y, *scalars(0, True)), wanted(INT16, scales[2]))
    for one, two, got in zip(value(x).tolist(), value(y).tolist(), result.tolist(), strict=True):
        first, second = (
            away_from_zero(Fraction(number, 2**bits)) for number, bits in zip((one, two), shifts, strict=True)
        )
        assert got == cut(first + sign * second, "int16")


@sweep("scales", [(0.5, 0.5, 0.25), (0.25, 0.25, 0.5)])
def test_refuses_power_of_two_scales(scales: tuple[float, ...]) -> None:
    x, y = quantized(INT16, scales[0], 0, 2), quantized(INT16, scales[1], 0, 2)
    with pytest.raises(BadData, match="the larger scale of the inputs"):
        evaluate(ADD, (x, y, *scalars(0, True)), wanted(INT16, scales[2]))


def test_16_bit_products() -> None:
    x, y = quantized(INT16, 0.5, 0, 4, 1, 5), quantized(INT16, 0.25, 0, 3, 1, seed=1)
    result = evaluate(MUL, (x, y, *scalars(0)), wanted(INT16, 2000.0))
    a, b = np.broadcast_arrays(value(x).astype(int), value(y).astype(int))
    expected = [
        cut(times(int(one) * int(two), *multiplier(0.125 / 2000)), "int16")
        for one, two in zip(a.flat, b.flat, strict=True)
    ]
    assert result.reshape(-1).tolist() == expected


def test_integer_quotients_are_truncated() -> None:
    x, y = given(INT32, [[7, -7, 6]]), given(INT32, [[2], [-2]])
    assert evaluate(DIV, (x, y, *scalars(0)), wanted(INT32)).tolist() == [[3, -3, 3], [-3, 3, -3]]


@sweep(("operand_type", "zeros"), [(UINT8, (128, 100, 3)), (INT8, (0, -5, 9)), (INT16, (0, 0, 0))])
def test_quantized_quotients(operand_type: OperandType, zeros: tuple[int, int, int]) -> None:
    x, y = quantized(operand_type, 0.5, zeros[0], 30, 1), quantized(operand_type, 0.25, zeros[1], 40, seed=1)
    divisor = value(y).astype(int) - zeros[1]
    y = given(operand_type, np.where(divisor == 0, zeros[1] + 3, value(y)), 0.25, zeros[1])
    result = evaluate(DIV, (x, y, *scalars(0)), wanted(operand_type, 0.125, zeros[2])).astype(int)
    real = 16 * (value(x).astype(float) - zeros[0]) / (value(y).astype(float) - zeros[1])
    limits = np.iinfo(operand_type.dtype.name)
    expected = np.clip(np.round(real) + zeros[2], limits.min, limits.max)
    assert np.abs(result - expected).max() <= 1


@sweep(
    ("operation", "operand_type"),
    [
        (DIV, INT32),
        (DIV, INT8),
        (OperationType.TFLITE_FLOOR_DIV, FLOAT32),
        (OperationType.TFLITE_FLOOR_DIV, INT16),
        (OperationType.TFLITE_FLOOR_MOD, INT64),
    ],
)
def test_refuses_divisors_of_zero(operation: OperationType, operand_type: OperandType) -> None:
    scale = 1.0 if operand_type in (INT8, INT16) else 0.0
    x, y = given(operand_type, [1, 2], scale), given(operand_type, [3, 0], scale)
    more = scalars(0) if operation is DIV else ()
    with pytest.raises(BadData, match="contains 0"):
        evaluate(operation, (x, y, *more), wanted(operand_type, scale))


@sweep(
    ("operation", "function"),
    [
        (OperationType.TFLITE_FLOOR_DIV, np.floor_divide),
        (OperationType.TFLITE_FLOOR_MOD, np.mod),
    ],
)
@sweep("operand_type", [FLOAT32, FLOAT16, INT32, INT64, INT8])
@sweep(("first", "second"), SHAPES)
def test_floored_division(
    operation: OperationType,
    function: Callable[[Array, Array], Array],
    operand_type: OperandType,
    first: Any,
    second: Any,
) -> None:
    x, y = whole(operand_type, *first), whole(operand_type, *second, low=1, seed=1)
    scale = x.operand.scale
    y = given(operand_type, value(y) * np.where(np.arange(value(y).size).reshape(second) % 2, 1, -1), scale)
    result = evaluate(operation, (x, y), wanted(operand_type, scale))
    np.testing.assert_array_equal(result, function(value(x), value(y)))


def test_powers() -> None:
    x, y = given(INT32, [[2], [-3], [10]]), given(INT32, [0, 3, 10])
    result = evaluate(OperationType.TFLITE_POW, (x, y), wanted(INT32))
    assert result.tolist() == [[1, 8, 1024], [1, -27, 59049], [1, 1000, 2**31 - 1]]
    with pytest.raises(BadData, match="has -1"):
        evaluate(OperationType.TFLITE_POW, (x, given(INT32, [-1])), wanted(INT32))


@sweep("operand_type", [FLOAT32, FLOAT16, OperandType.TENSOR_FLOAT64])
def test_angles(operand_type: OperandType) -> None:
    y, x = given(operand_type, [1.0, -1, 0, -0.0]), given(operand_type, [-1.0, 2, -1, -1])
    result = evaluate(OperationType.TFLITE_ATAN2, (y, x), wanted(operand_type))
    np.testing.assert_allclose(result, np.arctan2(value(y), value(x)), rtol=1e-3)


@sweep("operand_type", [FLOAT32, INT32])
@sweep("count", [1, 2, 5])
@sweep("shape", [(), (2, 3), (0,)])
def test_sums_of_many(operand_type: OperandType, count: int, shape: tuple[int, ...]) -> None:
    addends = [whole(operand_type, *shape, seed=seed) for seed in range(count)]
    result = evaluate(OperationType.TFLITE_ADD_N, addends, wanted(operand_type))
    np.testing.assert_array_equal(result, np.sum([value(x) for x in addends], axis=0))


def test_addends_of_different_shapes() -> None:
    with pytest.raises(BadData, match=r"\[3\]; \[2\] is expected"):
        evaluate(OperationType.TFLITE_ADD_N, [whole(FLOAT32, 2), whole(FLOAT32, 3)], wanted(FLOAT32))


def test_squared_differences() -> None:
    squared = OperationType.TFLITE_SQUARED_DIFFERENCE
    x, y = whole(INT32, 2, 1, 3), whole(INT32, 4, 1, seed=1)
    np.testing.assert_array_equal(evaluate(squared, (x, y), wanted(INT32)), (value(x) - value(y)) ** 2)
    a, b = quantized(INT8, 0.25, 3, 30, 1), quantized(INT8, 0.125, -9, 20, seed=1)
    result = evaluate(squared, (a, b), wanted(INT8, 10.0, -100)).astype(int)
    real = ((value(a).astype(float) - 3) * 0.25 - (value(b).astype(float) + 9) * 0.125) ** 2
    expected = np.clip(np.round(real / 10) - 100, -128, 127)
    assert np.abs(result - expected).max() <= 1


@sweep("operation", [ADD, SUB, MUL, DIV, OperationType.TFLITE_POW])
def test_widened_operations(operation: OperationType) -> None:
    widened = DEFINITIONS[operation].widens
    assert widened is not None
    assert widened.name == operation.name.removeprefix("TFLITE_")
    assert WIDER[widened].type is operation
