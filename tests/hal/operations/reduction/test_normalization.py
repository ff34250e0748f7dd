import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.operations.exact import away_from_zero
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    evaluate,
    given,
    level_of,
    scalars,
    stored_values,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array

L2, LOCAL = OperationType.L2_NORMALIZATION, OperationType.LOCAL_RESPONSE_NORMALIZATION
INSTANCE, LOG_SOFTMAX = OperationType.INSTANCE_NORMALIZATION, OperationType.LOG_SOFTMAX
FLOAT32, FLOAT16 = FLOAT_TYPES
QUANT8, SIGNED = QUANT8_TYPES
#: Shape and axis.
ALONG = [
    ((5,), 0),
    ((3, 4), -1),
    ((2, 5, 3), 1),
    ((2, 3, 4, 5), -4),
    ((2, 3, 4, 5), 3),
    ((3, 1, 2, 1), 1),
    ((0, 3), 1),
    ((2, 0), -1),
]


def real_scalars(operand_type: OperandType, *values: float) -> tuple[Given, ...]:
    scalar_type = OperandType.FLOAT16 if operand_type is FLOAT16 else OperandType.FLOAT32
    return tuple(given(scalar_type, value) for value in values)


def along(values: Array, axis: int, function: Any) -> Array:
    """Applies a function of lists of Python numbers to each line along an axis."""
    result = np.empty(values.shape)
    lines, results = np.moveaxis(values, axis, -1), np.moveaxis(result, axis, -1)
    for index in np.ndindex(lines.shape[:-1] if values.size else (0,)):
        results[index] = function([float(value) for value in lines[index]])
    return result


def close(result: Array, expected: Array, operand_type: OperandType) -> None:
    rounding = 2.0**-10 if operand_type is FLOAT16 else 2e-6
    np.testing.assert_allclose(result, expected, rtol=rounding, atol=rounding / 10)


def unit(line: list[float]) -> list[float]:
    norm = max(math.sqrt(math.fsum(x * x for x in line)), 1e-6)
    return [x / norm for x in line]


@sweep(("shape", "axis"), ALONG)
@sweep("operand_type", FLOAT_TYPES)
def test_l2(operand_type: OperandType, shape: tuple[int, ...], axis: int) -> None:
    values = np.random.default_rng(1).normal(0, 3, shape).astype(operand_type.dtype)
    values[:1] = 0
    result = evaluate(L2, [given(operand_type, values), *scalars(axis)], wanted(operand_type))
    close(result, along(values, axis, unit), operand_type)
    if axis == -1:
        default = evaluate(L2, [given(operand_type, values)], wanted(operand_type))
        np.testing.assert_array_equal(default, result)


@sweep(("shape", "axis"), ALONG)
@sweep("operand_type", QUANT8_TYPES)
def test_l2_of_quantized_values(operand_type: OperandType, shape: tuple[int, ...], axis: int) -> None:
    values = stored_values(np.random.default_rng(2), operand_type, shape)
    low, center = (0, 128) if operand_type is QUANT8 else (-128, 0)
    zero_point = low + 93
    values[:1] = zero_point

    def normalize(line: list[float]) -> list[int]:
        norm = math.sqrt(sum((x - zero_point) ** 2 for x in line)) or 1
        quantized = [away_from_zero(Fraction(128 * (x - zero_point) / norm)) + center for x in line]
        return [min(max(x, low), low + 255) for x in quantized]

    result = evaluate(
        L2,
        [given(operand_type, values, 0.3, zero_point), *scalars(axis)],
        wanted(operand_type, 1 / 128, center),
    )
    np.testing.assert_array_equal(result, along(values, axis, normalize))


@sweep(
    ("operand_type", "scale", "zero_point"),
    [(QUANT8, 1 / 128, 0), (QUANT8, 0.1, 128), (SIGNED, 1 / 128, 128 - 256), (SIGNED, 1 / 256, 0)],
)
def test_l2_refuses_scales(operand_type: OperandType, scale: float, zero_point: int) -> None:
    with pytest.raises(BadData, match=r"output .*; 0.0078125 and .* are expected"):
        evaluate(L2, [given(operand_type, [[1, 2]], 0.5)], wanted(operand_type, scale, zero_point))


@sweep("radius", [0, 1, 3, 2**31 - 1])
@sweep(("shape", "axis"), ALONG)
@sweep("operand_type", FLOAT_TYPES)
def test_local_response(operand_type: OperandType, shape: tuple[int, ...], axis: int, radius: int) -> None:
    values = np.random.default_rng(3).normal(0, 3, shape).astype(operand_type.dtype)
    numbers = real_scalars(operand_type, 1.5, 0.25, 0.5)

    def normalize(line: list[float]) -> list[float]:
        return [
            x / (1.5 + 0.25 * math.fsum(y * y for j, y in enumerate(line) if abs(i - j) <= radius)) ** 0.5
            for i, x in enumerate(line)
        ]

    inputs = [given(operand_type, values), *scalars(radius), *numbers]
    result = evaluate(LOCAL, [*inputs, *scalars(axis)], wanted(operand_type))
    close(result, along(values, axis, normalize), operand_type)
    if axis == -1:
        np.testing.assert_array_equal(evaluate(LOCAL, inputs, wanted(operand_type)), result)


def test_a_huge_element_does_not_affect_other_windows() -> None:
    inputs = [given(FLOAT32, [[1e15, 1.0, 2.0, 3.0]]), *scalars(1), *real_scalars(FLOAT32, 1.0, 1.0, 1.0)]
    result = evaluate(LOCAL, inputs, wanted(FLOAT32))
    np.testing.assert_allclose(result[0, 2:], [2 / 15, 3 / 14], rtol=1e-6)


def test_local_response_refuses_a_negative_radius() -> None:
    inputs = [given(FLOAT32, [[1.0]]), *scalars(-1), *real_scalars(FLOAT32, 1.0, 1.0, 1.0)]
    with pytest.raises(
        BadData, match=r"radius of LOCAL_RESPONSE_NORMALIZATION.* is -1; it must be at least 0"
    ):
        evaluate(LOCAL, inputs, wanted(FLOAT32))


@sweep("nchw", [False, True])
@sweep("shape", [(1, 2, 3, 1), (3, 4, 5, 2), (2, 1, 1, 3), (0, 2, 2, 1), (1, 0, 2, 1)])
@sweep("operand_type", FLOAT_TYPES)
def test_instance(operand_type: OperandType, shape: tuple[int, ...], nchw: bool) -> None:
    values = np.random.default_rng(4).normal(2, 3, shape).astype(operand_type.dtype)
    gamma, beta, epsilon = 1.5, -0.25, 0.125
    data = given(operand_type, np.moveaxis(values, 3, 1) if nchw else values)
    inputs = [data, *real_scalars(operand_type, gamma, beta, epsilon), *scalars(nchw)]
    result = evaluate(INSTANCE, inputs, wanted(operand_type))
    result = np.moveaxis(result, 1, 3) if nchw else result
    for image, channel in np.ndindex(shape[0], shape[3]):
        plane = [float(value) for value in values[image, :, :, channel].ravel()]
        mean = math.fsum(plane) / max(1, len(plane))
        variance = math.fsum((x - mean) ** 2 for x in plane) / max(1, len(plane))
        expected = [(x - mean) * gamma / math.sqrt(variance + epsilon) + beta for x in plane]
        close(result[image, :, :, channel].ravel(), np.array(expected), operand_type)


@sweep("beta", [1.0, 0.5, 4.0])
@sweep(("shape", "axis"), [*ALONG, ((2, 1, 2, 3, 2), 3)])
@sweep("operand_type", FLOAT_TYPES)
def test_log_softmax(operand_type: OperandType, shape: tuple[int, ...], axis: int, beta: float) -> None:
    values = np.random.default_rng(5).normal(0, 3, shape).astype(operand_type.dtype)

    def normalize(line: list[float]) -> list[float]:
        total = math.log(math.fsum(math.exp(x * beta) for x in line))
        return [x * beta - total for x in line]

    inputs = [given(operand_type, values), *real_scalars(operand_type, beta), *scalars(axis)]
    result = evaluate(LOG_SOFTMAX, inputs, wanted(operand_type))
    rounding = 2e-3 if operand_type is FLOAT16 else 1e-5
    np.testing.assert_allclose(result, along(values, axis, normalize), rtol=rounding, atol=rounding)


def test_log_softmax_of_large_logits() -> None:
    inputs = [given(FLOAT32, [1e4, 1e4, -1e30]), *scalars(1.0, 0)]
    result = evaluate(LOG_SOFTMAX, inputs, wanted(FLOAT32))
    np.testing.assert_allclose(result, [-math.log(2), -math.log(2), -1e30], rtol=1e-6)


@sweep("beta", [0.0, -1.0, math.inf, math.nan])
def test_log_softmax_refuses_beta(beta: float) -> None:
    with pytest.raises(BadData, match=r"beta of LOG_SOFTMAX.*; it must be positive and finite"):
        evaluate(LOG_SOFTMAX, [given(FLOAT32, [1.0]), *scalars(beta, 0)], wanted(FLOAT32))


@sweep("axis", [-3, 2])
@sweep(
    ("operation", "numbers"),
    [(L2, ()), (LOCAL, (*scalars(1), *real_scalars(FLOAT32, 1.0, 1.0, 1.0))), (LOG_SOFTMAX, scalars(1.0))],
)
def test_refuses_axes(operation: OperationType, numbers: tuple[Given, ...], axis: int) -> None:
    inputs = [given(FLOAT32, np.zeros((2, 3))), *numbers, *scalars(axis)]
    with pytest.raises(BadData, match=rf"axis of .* is {axis}; an axis of rank 2, from -2 to 1"):
        evaluate(operation, inputs, wanted(FLOAT32))


def test_levels() -> None:
    image, plane = given(FLOAT32, np.zeros((1, 2, 2, 1))), given(FLOAT32, np.zeros((2, 2)))
    numbers = (*scalars(1), *real_scalars(FLOAT32, 1.0, 1.0, 1.0))
    output = wanted(FLOAT32, rank=4)
    for operation, rest in ((L2, ()), (LOCAL, numbers)):
        assert level_of(operation, [image, *rest], output) == FeatureLevel.LEVEL_1
        assert level_of(operation, [image, *rest, *scalars(1)], output) == FeatureLevel.LEVEL_3
        assert level_of(operation, [plane, *rest], output) == FeatureLevel.LEVEL_3
        assert level_of(operation, [unknown(image), *rest], output) == FeatureLevel.LEVEL_3
    assert level_of(LOG_SOFTMAX, [image, *scalars(1.0, 0)], output) == FeatureLevel.LEVEL_3
    for operand_type, level in ((QUANT8, FeatureLevel.LEVEL_3), (SIGNED, FeatureLevel.LEVEL_4)):
        quantized = given(operand_type, np.zeros((1, 2, 2, 1)), 1.0)
        assert level_of(L2, [quantized], wanted(operand_type, 1 / 128)) == level


def test_refuses_ranks_and_counts() -> None:
    with pytest.raises(BadData, match=r"input of L2_NORMALIZATION.* has rank 5; a rank from 1 to 4"):
        evaluate(L2, [given(FLOAT32, np.zeros((1, 1, 1, 1, 1)))], wanted(FLOAT32))
    with pytest.raises(BadData, match=r"LOG_SOFTMAX has 2 inputs and 1 output; 3 inputs"):
        evaluate(LOG_SOFTMAX, [given(FLOAT32, [1.0]), *scalars(1.0)], wanted(FLOAT32))
