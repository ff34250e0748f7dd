import math
from typing import Any

import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import evaluate, given, scalars, stored_values, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

FLOAT32 = OperandType.TENSOR_FLOAT32
UINT8, INT8 = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
INT16 = OperandType.TENSOR_QUANT16_SYMM
SOFTMAX, LOG_SOFTMAX = OperationType.TFLITE_SOFTMAX, OperationType.TFLITE_LOG_SOFTMAX
L2_NORMALIZATION = OperationType.TFLITE_L2_NORMALIZATION
SHAPES = [(1,), (5,), (2, 3), (2, 1, 3, 2, 7), (0, 3), (2, 0)]


def softmax(x: Array, beta: float, axis: int) -> Array:
    powers = np.exp((x - x.max(axis=axis, keepdims=True, initial=-1e9)) * beta)
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


@sweep("shape", SHAPES)
@sweep("beta", [0.0, 0.5, 1.0])
@sweep("axis", [0, -1])
def test_floats(shape: tuple[int, ...], beta: float, axis: int) -> None:
    x = given(FLOAT32, np.random.default_rng(0).normal(size=shape) * 5)
    expected = softmax(value(x).astype(np.float64), beta, axis)
    result = evaluate(SOFTMAX, [x, *scalars(beta, axis)], wanted(FLOAT32))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)
    if beta:
        logarithms = evaluate(LOG_SOFTMAX, [x, *scalars(beta, axis)], wanted(FLOAT32))
        np.testing.assert_allclose(np.exp(logarithms), expected, rtol=1e-4, atol=1e-7)


@sweep(
    ("operand_type", "scale", "result", "steps"),
    [(UINT8, 0.05, (1 / 256, 0), 1), (INT8, 0.05, (1 / 256, -128), 1), (INT16, 0.0005, (2.0**-15, 0), 30)],
)
@sweep("shape", SHAPES)
def test_quantized_values(
    operand_type: OperandType, scale: float, result: Any, steps: int, shape: tuple[int, ...]
) -> None:
    x = given(operand_type, stored_values(np.random.default_rng(0), operand_type, shape), scale)
    got = evaluate(SOFTMAX, [x, *scalars(0.75)], wanted(operand_type, *result)).astype(float)
    limits = np.iinfo(operand_type.dtype.name)
    expected = np.clip(softmax(value(x) * scale, 0.75, -1) / result[0] + result[1], limits.min, limits.max)
    assert np.abs(got - expected).max(initial=0) <= steps


@sweep(("operand_type", "zero"), [(UINT8, 255), (INT8, 127)])
def test_quantized_logarithms(operand_type: OperandType, zero: int) -> None:
    x = given(operand_type, stored_values(np.random.default_rng(0), operand_type, (3, 2, 40)), 0.02)
    got = evaluate(LOG_SOFTMAX, [x, *scalars(1.0, -1)], wanted(operand_type, 1 / 16, zero)).astype(float)
    expected = np.log(softmax(value(x) * 0.02, 1, -1)) * 16 + zero
    assert np.abs(got - np.maximum(expected, zero - 255)).max() <= 1
    with pytest.raises(BadData, match=r"0\.0625 and"):
        evaluate(LOG_SOFTMAX, [x, *scalars(1.0, -1)], wanted(operand_type, 1 / 8, zero))


@sweep("beta", [-math.inf, math.inf, math.nan])
def test_refuses_beta(beta: float) -> None:
    with pytest.raises(BadData, match=r"beta .* it must be finite$"):
        evaluate(SOFTMAX, [given(FLOAT32, [1]), *scalars(beta)], wanted(FLOAT32))


def test_only_floats_have_a_negative_beta() -> None:
    result = evaluate(SOFTMAX, [given(FLOAT32, [1, 2, 4]), *scalars(-1.0)], wanted(FLOAT32))
    powers = np.exp([-1.0, -2.0, -4.0])
    np.testing.assert_allclose(result, powers / powers.sum(), rtol=1e-6)
    with pytest.raises(BadData, match="it must be finite and not negative"):
        evaluate(SOFTMAX, [given(INT16, [1], 0.5), *scalars(-1.0)], wanted(INT16, 2.0**-15))


def test_refuses_axes() -> None:
    with pytest.raises(BadData, match="axis"):
        evaluate(SOFTMAX, [given(FLOAT32, [1]), *scalars(1.0, 1)], wanted(FLOAT32))


def test_16_bit_outputs_have_a_fixed_scale() -> None:
    with pytest.raises(BadData, match=r"3\.05176e-05 is expected"):
        evaluate(SOFTMAX, [given(INT16, [1], 0.5), *scalars(1.0)], wanted(INT16, 2.0**-14))


@sweep(("operand_type", "zeros"), [(UINT8, (100, 128)), (INT8, (3, 0))])
@sweep("axis", [0, -1])
@sweep("shape", [(3,), (2, 1, 3, 2, 7), (0, 2), (2, 0)])
def test_normalization(
    operand_type: OperandType, zeros: tuple[int, int], axis: int, shape: tuple[int, ...]
) -> None:
    x = given(operand_type, stored_values(np.random.default_rng(0), operand_type, shape), 0.5, zeros[0])
    output = wanted(operand_type, 1 / 128, zeros[1])
    got = evaluate(L2_NORMALIZATION, [x, *scalars(axis)], output).astype(float)
    real = value(x).astype(float) - zeros[0]
    norm = np.maximum(np.sqrt(np.square(real).sum(axis=axis, keepdims=True)), 1)
    limits = np.iinfo(operand_type.dtype.name)
    expected = np.clip(real / norm * 128 + zeros[1], limits.min, limits.max)
    assert np.abs(got - expected).max(initial=0) <= 1
