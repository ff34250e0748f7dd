from collections.abc import Callable

import numpy as np
import pytest
from support.operations.exact import cut, multiplier, times
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    evaluate,
    given,
    level_of,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType

MAXIMUM, MINIMUM, POW, PRELU, SELECT = (
    OperationType.MAXIMUM,
    OperationType.MINIMUM,
    OperationType.POW,
    OperationType.PRELU,
    OperationType.SELECT,
)
FLOAT32, INT32, BOOL8 = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_BOOL8,
)
EXTREMES: dict[OperationType, Callable[[float, float], float]] = {MAXIMUM: max, MINIMUM: min}
SHAPES = [((3, 5), (3, 5)), ((2, 3, 4, 5), (4, 1)), ((1, 3, 1), (2, 1, 4)), ((), (3,)), ((0, 3), (1, 3))]


@sweep(("first", "second"), SHAPES)
@sweep("operand_type", [*FLOAT_TYPES, INT32])
@sweep("operation", EXTREMES)
def test_extremes(
    operation: OperationType, operand_type: OperandType, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(32)
    left, right = (generator.normal(0, 9, shape).astype(operand_type.dtype) for shape in (first, second))
    result = evaluate(
        operation, [given(operand_type, left), given(operand_type, right)], wanted(operand_type)
    )
    expected = [EXTREMES[operation](a.item(), b.item()) for a, b in np.broadcast(left, right)]
    assert result.shape == np.broadcast_shapes(first, second)
    assert result.ravel().tolist() == expected


@sweep("operand_type", QUANT8_TYPES)
@sweep("operation", EXTREMES)
def test_extremes_of_quantized_values(operation: OperationType, operand_type: OperandType) -> None:
    generator = np.random.default_rng(33)
    limits = np.iinfo(operand_type.dtype.name)
    left, right = (stored_values(generator, operand_type, shape) for shape in ((50, 1), (7,)))
    forms = ((0.25, limits.min + 90), (0.7, limits.min + 140), (0.5, limits.min + 100))
    arguments = [given(operand_type, left, *forms[0]), given(operand_type, right, *forms[1])]
    result = evaluate(operation, arguments, wanted(operand_type, *forms[2]))
    for (a, b), after in zip(np.broadcast(left, right), result.ravel().tolist(), strict=True):
        real = EXTREMES[operation](*((int(v) - z) * s for v, (s, z) in zip((a, b), forms[:2], strict=True)))
        exact = real / forms[2][0] + forms[2][1]
        assert abs(after - min(max(exact, limits.min), limits.max)) <= 0.5 + 1e-6


def test_extremes_of_one_scale_are_exact() -> None:
    operand_type = QUANT8_TYPES[0]
    values = np.arange(256)
    arguments = [given(operand_type, values, 0.1, 77), given(operand_type, values[::-1], 0.1, 77)]
    result = evaluate(MAXIMUM, arguments, wanted(operand_type, 0.1, 77))
    assert result.tolist() == np.maximum(values, values[::-1]).tolist()


@sweep(("first", "second"), SHAPES)
@sweep("operand_type", FLOAT_TYPES)
def test_power(operand_type: OperandType, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    generator = np.random.default_rng(34)
    base = generator.uniform(0.1, 3, first).astype(operand_type.dtype)
    exponent = generator.uniform(-2, 3, second).astype(operand_type.dtype)
    result = evaluate(POW, [given(operand_type, base), given(operand_type, exponent)], wanted(operand_type))
    expected = [a.item() ** b.item() for a, b in np.broadcast(base, exponent)]
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    np.testing.assert_allclose(result.ravel(), expected, rtol=4 * rounding)


def test_power_of_negative_numbers() -> None:
    arguments = [given(FLOAT32, [-2.0, -2.0, 0.0]), given(FLOAT32, [3.0, 0.5, -1.0])]
    result = evaluate(POW, arguments, wanted(FLOAT32))
    assert result[0] == -8.0
    assert np.isnan(result[1])
    assert result[2] == np.inf


@sweep(("first", "second"), SHAPES)
@sweep("operand_type", FLOAT_TYPES)
def test_prelu(operand_type: OperandType, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    generator = np.random.default_rng(35)
    values, alpha = (generator.normal(size=shape).astype(operand_type.dtype) for shape in (first, second))
    result = evaluate(PRELU, [given(operand_type, values), given(operand_type, alpha)], wanted(operand_type))
    expected = [a.item() if a >= 0 else a.item() * b.item() for a, b in np.broadcast(values, alpha)]
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    np.testing.assert_allclose(result.ravel(), expected, rtol=rounding, atol=1e-30)


@sweep("operand_type", QUANT8_TYPES)
def test_prelu_of_quantized_values(operand_type: OperandType) -> None:
    generator = np.random.default_rng(36)
    lowest = np.iinfo(operand_type.dtype.name).min
    values, alpha = (stored_values(generator, operand_type, shape) for shape in ((40, 3), (3,)))
    (scale, zero), (slope, middle), (result_scale, result_zero) = forms = (
        (0.25, lowest + 90),
        (0.02, lowest + 140),
        (0.2, lowest + 100),
    )
    arguments = [given(operand_type, values, *forms[0]), given(operand_type, alpha, *forms[1])]
    result = evaluate(PRELU, arguments, wanted(operand_type, *forms[2]))
    expected = []
    for a, b in np.broadcast(values, alpha):
        real = int(a) - zero
        if real >= 0:
            value = times(real, *multiplier(scale / result_scale))
        else:
            value = times(real * (int(b) - middle), *multiplier(scale * slope / result_scale))
        expected.append(cut(value + result_zero, operand_type.dtype.name))
    assert result.ravel().tolist() == expected


@sweep("shape", [(), (5,), (2, 3, 1, 4), (0, 2)])
@sweep("operand_type", [*FLOAT_TYPES, INT32])
def test_select(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(37)
    condition = generator.random(shape) < 0.5
    left, right = (generator.normal(0, 9, shape).astype(operand_type.dtype) for _ in range(2))
    arguments = [given(BOOL8, condition), given(operand_type, left), given(operand_type, right)]
    result = evaluate(SELECT, arguments, wanted(operand_type))
    chosen = zip(condition.ravel().tolist(), left.ravel().tolist(), right.ravel().tolist(), strict=True)
    assert result.ravel().tolist() == [a if yes else b for yes, a, b in chosen]


@sweep("operand_type", QUANT8_TYPES)
def test_select_of_quantized_values(operand_type: OperandType) -> None:
    lowest = np.iinfo(operand_type.dtype.name).min
    arguments = [
        given(BOOL8, [True, False, True, False]),
        given(operand_type, np.array([10, 10, 200, 200]) + lowest, 0.5, lowest + 8),
        given(operand_type, np.array([20, 20, 255, 255]) + lowest, 2.0, lowest + 16),
    ]
    result = evaluate(SELECT, arguments, wanted(operand_type, 1.0, lowest + 100))
    assert (result.astype(int) - lowest).tolist() == [101, 108, 196, 255]


def test_levels() -> None:
    truth = given(BOOL8, [True])
    unsigned, signed = (given(operand_type, [1], 1.0) for operand_type in QUANT8_TYPES)
    for data, level in ((unsigned, FeatureLevel.LEVEL_3), (signed, FeatureLevel.LEVEL_4)):
        output = wanted(data.operand.type, 1.0, rank=1)
        for operation in (MAXIMUM, MINIMUM, PRELU):
            assert level_of(operation, [data, data], output) == level
        assert level_of(SELECT, [truth, data, data], output) == level


def test_refuses() -> None:
    truth, real = given(BOOL8, [True, False]), given(FLOAT32, [1.0, 2.0])
    with pytest.raises(
        BadData, match=r"operand 2 \(input2 of SELECT\) has shape \[1\]; that of the condition"
    ):
        evaluate(SELECT, [truth, real, given(FLOAT32, [1.0])], wanted(FLOAT32))
    with pytest.raises(BadData, match=r"PRELU cannot broadcast input \[2\], alpha \[3\]"):
        evaluate(PRELU, [real, given(FLOAT32, [1.0] * 3)], wanted(FLOAT32))
    with pytest.raises(BadData, match=r"operand 0 \(input1 of POW\) has type TENSOR_INT32"):
        evaluate(POW, [given(INT32, [1]), given(INT32, [1])], wanted(INT32))
    with pytest.raises(BadData, match=r"operand 0 \(condition of SELECT\) has type TENSOR_FLOAT32"):
        evaluate(SELECT, [real, real, real], wanted(FLOAT32))
