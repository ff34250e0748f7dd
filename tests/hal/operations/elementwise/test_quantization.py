import math
from fractions import Fraction

import numpy as np
import pytest
from support.operations.exact import away_from_zero, cut, multiplier, times
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    evaluate,
    given,
    level_of,
    stored_values,
    wanted,
    zero_points,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType

QUANTIZE, DEQUANTIZE, REQUANTIZE = (
    OperationType.QUANTIZE,
    OperationType.DEQUANTIZE,
    OperationType.TFLITE_QUANTIZE,
)
STORED_TYPES = (*QUANT8_TYPES, OperandType.TENSOR_QUANT16_SYMM)
SHAPES = [(), (300,), (3, 5, 7), (2, 1, 3, 1, 5), (0, 4)]


@sweep("shape", SHAPES)
@sweep("quantized", QUANT8_TYPES)
@sweep("real", FLOAT_TYPES)
def test_quantize(real: OperandType, quantized: OperandType, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(12).normal(0, 10, shape).astype(real.dtype)
    scale = 0.0625
    for zero_point in zero_points(quantized):
        result = evaluate(QUANTIZE, [given(real, values)], wanted(quantized, scale, zero_point))
        for value, after in zip(values.ravel().tolist(), result.ravel().tolist(), strict=True):
            rounded = away_from_zero(Fraction(value) / Fraction(scale)) + zero_point
            assert after == cut(rounded, quantized.dtype.name)


def test_nan_is_quantized_to_zero() -> None:
    values = [np.nan, np.inf, -np.inf, 3e38]
    result = evaluate(
        QUANTIZE,
        [given(OperandType.TENSOR_FLOAT32, values)],
        wanted(OperandType.TENSOR_QUANT8_ASYMM, 1e-3, 7),
    )
    assert result.tolist() == [7, 255, 0, 255]


def test_quantize_rounds_just_below_a_half_down() -> None:
    below = np.nextafter(np.float32(0.5), np.float32(0))
    result = evaluate(
        QUANTIZE,
        [given(OperandType.TENSOR_FLOAT32, [below, 0.5, -below, -0.5])],
        wanted(OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 1.0, 0),
    )
    assert result.tolist() == [0, 1, 0, -1]


@sweep("shape", [(), (300,), (3, 5, 7), (2, 1, 3, 5), (0, 4)])
@sweep("quantized", [*QUANT8_TYPES, OperandType.TENSOR_QUANT8_SYMM])
@sweep("real", FLOAT_TYPES)
def test_dequantize(real: OperandType, quantized: OperandType, shape: tuple[int, ...]) -> None:
    values = stored_values(np.random.default_rng(13), quantized, shape)
    points = [0] if quantized is OperandType.TENSOR_QUANT8_SYMM else zero_points(quantized)
    for zero_point in points:
        result = evaluate(DEQUANTIZE, [given(quantized, values, 0.037, zero_point)], wanted(real))
        exact = [(value - zero_point) * 0.037 for value in values.ravel().tolist()]
        np.testing.assert_allclose(result.ravel(), exact, rtol=float(np.finfo(real.dtype.name).eps))


@sweep("dimension", [0, 1, 2])
@sweep("real", FLOAT_TYPES)
def test_dequantize_per_channel(real: OperandType, dimension: int) -> None:
    quantized = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    values = stored_values(np.random.default_rng(14), quantized, (3, 4, 5))
    scales = tuple(0.5 / (index + 1) for index in range(values.shape[dimension]))
    data = given(quantized, values, channel_quant=ChannelQuant(dimension=dimension, scales=scales))
    result = evaluate(DEQUANTIZE, [data], wanted(real))
    for index in np.ndindex(values.shape):
        exact = float(values[index]) * scales[index[dimension]]
        assert math.isclose(result[index], exact, rel_tol=float(np.finfo(real.dtype.name).eps))


@sweep("ratio", [1.0, 0.37, 0.004, 3.1, 300.0])
@sweep("after", STORED_TYPES)
@sweep("before", STORED_TYPES)
def test_requantize(before: OperandType, after: OperandType, ratio: float) -> None:
    values = stored_values(np.random.default_rng(15), before, (2, 3, 41))
    limits = np.iinfo(after.dtype.name)
    old = 0 if before is OperandType.TENSOR_QUANT16_SYMM else np.iinfo(before.dtype.name).min + 90
    new = 0 if after is OperandType.TENSOR_QUANT16_SYMM else limits.min + 140
    result = evaluate(REQUANTIZE, [given(before, values, 0.25 * ratio, old)], wanted(after, 0.25, new))
    scaled = [times(value - old, *multiplier(0.25 * ratio / 0.25)) for value in values.ravel().tolist()]
    assert result.ravel().tolist() == [cut(value + new, after.dtype.name) for value in scaled]


def test_requantize_between_signed_and_unsigned_keeps_every_value() -> None:
    values = np.arange(256)
    signed = evaluate(
        REQUANTIZE,
        [given(OperandType.TENSOR_QUANT8_ASYMM, values, 0.1, 128)],
        wanted(OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 0.1, 0),
    )
    assert signed.tolist() == list(range(-128, 128))


def test_levels() -> None:
    float32, float16 = (wanted(real, rank=1) for real in FLOAT_TYPES)
    unsigned, signed = (given(quantized, [1], 1.0) for quantized in QUANT8_TYPES)
    symmetric = given(OperandType.TENSOR_QUANT8_SYMM, [1], 1.0)
    assert level_of(DEQUANTIZE, [unsigned], float32) == FeatureLevel.LEVEL_1
    assert level_of(DEQUANTIZE, [unsigned], float16) == FeatureLevel.LEVEL_3
    assert level_of(DEQUANTIZE, [symmetric], float32) == FeatureLevel.LEVEL_3
    assert level_of(DEQUANTIZE, [signed], float32) == FeatureLevel.LEVEL_4
    for real in FLOAT_TYPES:
        for quantized, level in zip(QUANT8_TYPES, (FeatureLevel.LEVEL_3, FeatureLevel.LEVEL_4), strict=True):
            assert level_of(QUANTIZE, [given(real, [1])], wanted(quantized, 1.0, rank=1)) == level


def test_refuses_types() -> None:
    with pytest.raises(BadData, match=r"operand 0 .input of QUANTIZE. has type TENSOR_INT32; TENSOR_FLOAT32"):
        evaluate(
            QUANTIZE, [given(OperandType.TENSOR_INT32, [1])], wanted(OperandType.TENSOR_QUANT8_ASYMM, 1.0)
        )
    with pytest.raises(BadData, match=r"operand 1 .output of DEQUANTIZE. has type TENSOR_INT32"):
        evaluate(
            DEQUANTIZE, [given(OperandType.TENSOR_QUANT8_ASYMM, [1], 1.0)], wanted(OperandType.TENSOR_INT32)
        )
    with pytest.raises(BadData, match=r"rank 5; a rank from 0 to 4"):
        evaluate(
            DEQUANTIZE,
            [given(OperandType.TENSOR_QUANT8_ASYMM, np.zeros((1, 1, 1, 1, 1)), 1.0)],
            wanted(OperandType.TENSOR_FLOAT32),
        )
