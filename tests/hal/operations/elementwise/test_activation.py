import math

import numpy as np
import pytest
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    call_of,
    evaluate,
    given,
    level_of,
    stored_values,
    unknown,
    wanted,
    zero_points,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import UnknownValue

LIMITS = {
    OperationType.RELU: (0.0, math.inf),
    OperationType.RELU1: (-1.0, 1.0),
    OperationType.RELU6: (0.0, 6.0),
}
CURVES = {
    OperationType.LOGISTIC: lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    OperationType.TANH: math.tanh,
}
FIXED = {
    (OperationType.LOGISTIC, OperandType.TENSOR_QUANT8_ASYMM): (1 / 256, 0),
    (OperationType.LOGISTIC, OperandType.TENSOR_QUANT8_ASYMM_SIGNED): (1 / 256, -128),
    (OperationType.TANH, OperandType.TENSOR_QUANT8_ASYMM): (1 / 128, 128),
    (OperationType.TANH, OperandType.TENSOR_QUANT8_ASYMM_SIGNED): (1 / 128, 0),
}
SHAPES = [(), (7,), (3, 5), (2, 3, 1, 5), (0, 3)]


@sweep("shape", SHAPES)
@sweep("operand_type", FLOAT_TYPES)
@sweep("operation", LIMITS)
def test_clamps_floats(operation: OperationType, operand_type: OperandType, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).normal(0, 4, shape).astype(operand_type.dtype)
    low, high = LIMITS[operation]
    result = evaluate(operation, [given(operand_type, values)], wanted(operand_type))
    expected = [min(max(value, low), high) for value in values.ravel().tolist()]
    assert result.ravel().tolist() == expected


@sweep("scale", [0.02, 0.25, 3.0])
@sweep("operand_type", QUANT8_TYPES)
@sweep("operation", LIMITS)
def test_clamps_quantized_values(operation: OperationType, operand_type: OperandType, scale: float) -> None:
    values = stored_values(np.random.default_rng(2), operand_type, (300,))
    low, high = LIMITS[operation]
    for zero_point in zero_points(operand_type):
        result = evaluate(
            operation,
            [given(operand_type, values, scale, zero_point)],
            wanted(operand_type, scale, zero_point),
        )
        for before, after in zip(values.tolist(), result.tolist(), strict=True):
            real = min(max((before - zero_point) * scale, low), high)
            # A limit between two quantised values becomes the nearest one.
            assert abs((after - zero_point) * scale - real) <= scale / 2 + 1e-6
            if low < (before - zero_point) * scale < high and abs(real - high) > scale:
                assert after == before


@sweep("scale", [1e-320, 1e-45, 1e-39])
def test_limits_beyond_the_quantized_range(scale: float) -> None:
    operand_type = OperandType.TENSOR_QUANT8_ASYMM
    data = given(operand_type, [0, 3, 255], scale, 3)
    result = evaluate(OperationType.RELU6, [data], wanted(operand_type, scale, 3))
    assert result.tolist() == [3, 3, 255]


@sweep("shape", SHAPES)
@sweep("operand_type", FLOAT_TYPES)
@sweep("operation", CURVES)
def test_curves_of_floats(
    operation: OperationType, operand_type: OperandType, shape: tuple[int, ...]
) -> None:
    values = np.random.default_rng(3).normal(0, 3, shape).astype(operand_type.dtype)
    result = evaluate(operation, [given(operand_type, values)], wanted(operand_type))
    expected = [CURVES[operation](value) for value in values.ravel().tolist()]
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    np.testing.assert_allclose(result.ravel(), expected, rtol=4 * rounding, atol=1e-7)


@sweep("operation", CURVES)
def test_curves_far_from_zero(operation: OperationType) -> None:
    values = [-1e30, -200.0, 200.0, 1e30]
    result = evaluate(
        operation,
        [given(OperandType.TENSOR_FLOAT32, values)],
        wanted(OperandType.TENSOR_FLOAT32),
    )
    lowest = 0.0 if operation is OperationType.LOGISTIC else -1.0
    np.testing.assert_allclose(result, [lowest, lowest, 1, 1], atol=1e-30)


@sweep(("operation", "operand_type"), FIXED)
def test_curves_of_quantized_values(operation: OperationType, operand_type: OperandType) -> None:
    limits = np.iinfo(operand_type.dtype.name)
    scale, zero_point = FIXED[operation, operand_type]
    values = np.arange(limits.min, limits.max + 1).reshape(2, 128)
    for input_zero_point in zero_points(operand_type):
        result = evaluate(
            operation,
            [given(operand_type, values, 0.043, input_zero_point)],
            wanted(operand_type, scale, zero_point),
        )
        for before, after in zip(values.ravel().tolist(), result.ravel().tolist(), strict=True):
            exact = CURVES[operation]((before - input_zero_point) * 0.043) / scale + zero_point
            assert abs(after - min(max(exact, limits.min), limits.max)) <= 0.5 + 1e-9


@sweep("operation", LIMITS)
def test_clamping_keeps_scale_and_zero_point(operation: OperationType) -> None:
    data = given(OperandType.TENSOR_QUANT8_ASYMM, [1, 2], 0.5, 3)
    with pytest.raises(BadData, match=r"operand 1 \(output of RELU.*0\.25.*0\.5 and 3, are expected"):
        evaluate(operation, [data], wanted(OperandType.TENSOR_QUANT8_ASYMM, 0.25, 3))
    with pytest.raises(BadData, match=r"zero point 4"):
        evaluate(operation, [data], wanted(OperandType.TENSOR_QUANT8_ASYMM, 0.5, 4))


@sweep(("operation", "operand_type"), FIXED)
def test_curves_have_a_fixed_output_scale(operation: OperationType, operand_type: OperandType) -> None:
    scale, zero_point = FIXED[operation, operand_type]
    data = given(operand_type, [1, 2], 0.5, 3)
    for wrong in ((scale * 2, zero_point), (scale, zero_point + 1)):
        with pytest.raises(BadData, match=f"{scale:g} and {zero_point} are expected"):
            evaluate(operation, [data], wanted(operand_type, *wrong))


def test_scales_are_compared_as_float32() -> None:
    operand_type = OperandType.TENSOR_QUANT8_ASYMM
    data = given(operand_type, [1, 200], 0.1, 3)
    result = evaluate(OperationType.RELU, [data], wanted(operand_type, float(np.float32(0.1)), 3))
    assert result.tolist() == [3, 200]


def test_levels() -> None:
    def level(operation: OperationType, operand_type: OperandType) -> FeatureLevel:
        scale = 1.0 if operand_type in QUANT8_TYPES else 0.0
        return level_of(operation, [given(operand_type, [1], scale)], wanted(operand_type, scale, rank=1))

    for operation in (*LIMITS, *CURVES):
        quant8 = FeatureLevel.LEVEL_3 if operation is OperationType.TANH else FeatureLevel.LEVEL_1
        assert level(operation, OperandType.TENSOR_FLOAT32) == FeatureLevel.LEVEL_1
        assert level(operation, OperandType.TENSOR_FLOAT16) == FeatureLevel.LEVEL_3
        assert level(operation, OperandType.TENSOR_QUANT8_ASYMM) == quant8
        assert level(operation, OperandType.TENSOR_QUANT8_ASYMM_SIGNED) == FeatureLevel.LEVEL_4


def test_the_shape_is_unknown_without_the_input() -> None:
    data = unknown(given(OperandType.TENSOR_FLOAT32, [1.0]))
    call = call_of(OperationType.RELU, [data], wanted(OperandType.TENSOR_FLOAT32))
    with pytest.raises(UnknownValue):
        DEFINITIONS[OperationType.RELU].shape(call)
