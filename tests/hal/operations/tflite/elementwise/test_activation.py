import math
from collections.abc import Callable

import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import Given, evaluate, given, scalars, stored_values, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

FLOAT32, FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
UINT8, INT8 = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
INT16 = OperandType.TENSOR_QUANT16_SYMM
SHAPES = [(), (0, 3), (7,), (2, 1, 3, 1, 2)]

CLAMPS = {
    OperationType.TFLITE_RELU: (0.0, math.inf),
    OperationType.TFLITE_RELU6: (0.0, 6.0),
    OperationType.TFLITE_RELU_N1_TO_1: (-1.0, 1.0),
    OperationType.TFLITE_RELU_0_TO_1: (0.0, 1.0),
}


def gelu(x: Array) -> Array:
    return np.array([0.5 * n * (1 + math.erf(n / math.sqrt(2))) for n in x.flat]).reshape(x.shape)


def gelu_by_tanh(x: Array) -> Array:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)))


CURVES: list[tuple[OperationType, tuple[Given, ...], Callable[[Array], Array]]] = [
    (OperationType.TFLITE_LOGISTIC, (), lambda x: 1 / (1 + np.exp(-x))),
    (OperationType.TFLITE_TANH, (), np.tanh),
    (OperationType.TFLITE_ELU, scalars(1.0), lambda x: np.where(x < 0, np.expm1(x), x)),
    (OperationType.TFLITE_GELU, scalars(False), gelu),
    (OperationType.TFLITE_GELU, scalars(True), gelu_by_tanh),
    (OperationType.TFLITE_LEAKY_RELU, scalars(0.25), lambda x: np.where(x < 0, x * 0.25, x)),
    (OperationType.TFLITE_LEAKY_RELU, scalars(-0.5), lambda x: np.where(x < 0, x * -0.5, x)),
]


@sweep("operation", CLAMPS)
@sweep("operand_type", [FLOAT32, FLOAT16])
@sweep("shape", SHAPES)
def test_clamps(operation: OperationType, operand_type: OperandType, shape: tuple[int, ...]) -> None:
    x = given(operand_type, np.random.default_rng(0).uniform(-9, 9, shape))
    expected = np.clip(value(x), *CLAMPS[operation])
    np.testing.assert_array_equal(evaluate(operation, [x], wanted(operand_type)), expected)


@sweep("operation", CLAMPS)
@sweep(("operand_type", "zeros"), [(UINT8, (100, 30)), (INT8, (3, -8)), (INT16, (0, 0))])
def test_clamps_to_another_scale(
    operation: OperationType, operand_type: OperandType, zeros: tuple[int, int]
) -> None:
    limits = np.iinfo(operand_type.dtype.name)
    x = given(operand_type, np.arange(limits.min, limits.max + 1), 0.25, zeros[0])
    result = evaluate(operation, [x], wanted(operand_type, 0.1, zeros[1])).astype(float)
    real = np.clip((value(x).astype(float) - zeros[0]) * 0.25, *CLAMPS[operation])
    expected = np.clip(real / 0.1 + zeros[1], limits.min, limits.max)
    assert np.abs(result - expected).max() <= 0.51


@sweep(("operation", "more", "function"), CURVES)
@sweep("shape", SHAPES)
def test_curves(
    operation: OperationType,
    more: tuple[Given, ...],
    function: Callable[[Array], Array],
    shape: tuple[int, ...],
) -> None:
    x = given(FLOAT32, np.random.default_rng(0).normal(size=shape) * 3)
    result = evaluate(operation, [x, *more], wanted(FLOAT32))
    np.testing.assert_allclose(result, function(value(x).astype(np.float64)), rtol=1e-5, atol=1e-6)


@sweep(("operation", "more", "function"), CURVES)
@sweep(("operand_type", "zeros"), [(UINT8, (100, 30)), (INT8, (3, -8))])
def test_curves_of_quantized_values(
    operation: OperationType,
    more: tuple[Given, ...],
    function: Callable[[Array], Array],
    operand_type: OperandType,
    zeros: tuple[int, int],
) -> None:
    limits = np.iinfo(operand_type.dtype.name)
    x = given(operand_type, np.arange(limits.min, limits.max + 1), 0.05, zeros[0])
    result = evaluate(operation, [x, *more], wanted(operand_type, 0.03, zeros[1])).astype(float)
    real = function((value(x).astype(np.float64) - zeros[0]) * 0.05)
    expected = np.clip(real / 0.03 + zeros[1], limits.min, limits.max)
    assert np.abs(result - expected).max() <= 1


@sweep(("operation", "function"), [(o, f) for o, more, f in CURVES if not more])
@sweep("scale", [2.0**-12, 2.0**-11, 0.0003, 0.01, 3.0, 1e-6])
def test_16_bit_curves(operation: OperationType, function: Callable[[Array], Array], scale: float) -> None:
    x = given(INT16, np.arange(-(2**15), 2**15), scale)
    result = evaluate(operation, [x], wanted(INT16, 2.0**-15)).astype(float)
    with np.errstate(over="ignore"):
        real = function(value(x).astype(np.float64) * scale)
    assert np.abs(result - np.clip(real * 2**15, -(2**15), 2**15 - 1)).max() <= 8


@sweep("operation", [OperationType.TFLITE_LOGISTIC, OperationType.TFLITE_TANH])
def test_16_bit_curves_have_a_fixed_scale(operation: OperationType) -> None:
    with pytest.raises(BadData, match=r"3\.05176e-05 is expected"):
        evaluate(operation, [given(INT16, [1], 0.5)], wanted(INT16, 0.5))


def test_refuses_a_slope_of_nan() -> None:
    with pytest.raises(BadData, match="it must be finite"):
        evaluate(OperationType.TFLITE_LEAKY_RELU, [given(FLOAT32, [1]), *scalars(math.nan)], wanted(FLOAT32))


def test_8_bit_slopes_for_16_bit_inputs() -> None:
    generator = np.random.default_rng(0)
    x = given(INT16, stored_values(generator, INT16, (2, 1, 3, 1, 40)), 2.0**-9)
    slope = given(INT8, stored_values(generator, INT8, (3, 1, 40)), 2.0**-7, 3)
    result = evaluate(OperationType.TFLITE_PRELU, [x, slope], wanted(INT16, 2.0**-8)).astype(float)
    real = value(x) * 2.0**-9
    alpha = (value(slope).astype(float) - 3) * 2.0**-7
    expected = np.where(real < 0, real * alpha, real) * 2**8
    assert np.abs(result - np.clip(expected, -(2**15), 2**15 - 1)).max() <= 1
