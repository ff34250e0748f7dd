import math
from fractions import Fraction

import numpy as np
import pytest
from support.operations.exact import away_from_zero, cut, multiplier
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
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType

HARD_SWISH = OperationType.HARD_SWISH
#: Scales of input and output; the factor beside x is shifted left in the last pair only.
SCALES = [(0.003, 0.002), (0.02, 0.02), (0.05, 0.03), (0.15, 0.15), (1.7, 1.5)]


def hard_swish(x: float) -> float:
    return x * min(max(x + 3, 0), 6) / 6


def rounded(value: Fraction) -> int:
    """Returns the nearest integer, ties upwards."""
    return math.floor(value + Fraction(1, 2))


def fixed(x: int, scale: float, result_scale: float) -> int:
    """Computes TFLite's result for a quantised value, both without their zero points."""

    def multiplier16(real: float) -> tuple[int, int]:
        mantissa, exponent = multiplier(real)
        return min(rounded(Fraction(mantissa, 2**16)), 2**15 - 1), exponent

    precise = x * 128
    mantissa, exponent = multiplier16(scale / 128 / result_scale)
    scaled = rounded(Fraction(precise * mantissa, 2**15))
    factor_mantissa, shift = multiplier16(scale / 128 * 2**15 / 3)
    factor = cut(precise * 2 ** max(shift - 1, 0), "int16")
    factor = rounded(Fraction(factor * factor_mantissa, 2**15))
    factor = cut(factor * 2, "int16") if shift > 0 else away_from_zero(Fraction(factor, 2**-shift))
    product = Fraction((factor + 2**15) // 2 * scaled, 2**15)
    return away_from_zero(Fraction(math.trunc(product), 2**-exponent))


@sweep("shape", [(), (7,), (2, 3, 1, 5, 2), (0, 3)])
@sweep("operand_type", FLOAT_TYPES)
def test_floats(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(38).normal(0, 3, shape).astype(operand_type.dtype)
    result = evaluate(HARD_SWISH, [given(operand_type, values)], wanted(operand_type))
    expected = [hard_swish(value) for value in values.ravel().tolist()]
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    np.testing.assert_allclose(result.ravel(), expected, rtol=4 * rounding, atol=rounding)


@sweep(("scale", "result_scale"), SCALES)
@sweep("operand_type", QUANT8_TYPES)
def test_every_quantized_value(operand_type: OperandType, scale: float, result_scale: float) -> None:
    limits = np.iinfo(operand_type.dtype.name)
    values = np.arange(limits.min, limits.max + 1).reshape(16, 16)
    new = limits.min + 40
    for old in zero_points(operand_type):
        result = evaluate(
            HARD_SWISH, [given(operand_type, values, scale, old)], wanted(operand_type, result_scale, new)
        )
        for before, after in zip(values.ravel().tolist(), result.ravel().tolist(), strict=True):
            assert after == cut(fixed(before - old, scale, result_scale) + new, operand_type.dtype.name)
            exact = hard_swish((before - old) * scale) / result_scale + new
            assert abs(after - min(max(exact, limits.min), limits.max)) <= 1


@sweep("shape", [(), (3, 5), (2, 1, 3, 1, 2), (0, 4)])
def test_shapes_of_quantized_values(shape: tuple[int, ...]) -> None:
    operand_type = QUANT8_TYPES[1]
    values = stored_values(np.random.default_rng(39), operand_type, shape)
    result = evaluate(HARD_SWISH, [given(operand_type, values, 0.1, 5)], wanted(operand_type, 0.1, 5))
    expected = [cut(fixed(value - 5, 0.1, 0.1) + 5, "int8") for value in values.ravel().tolist()]
    assert result.ravel().tolist() == expected


def test_scales_far_apart_saturate() -> None:
    operand_type = QUANT8_TYPES[0]
    data = given(operand_type, [0, 99, 100, 101, 255], 1000.0, 100)
    result = evaluate(HARD_SWISH, [data], wanted(operand_type, 1e-6, 7))
    assert result.tolist() == [7, 7, 7, 255, 255]


def test_levels_and_types() -> None:
    for operand_type in (*FLOAT_TYPES, *QUANT8_TYPES):
        form = (1.0, 0) if operand_type in QUANT8_TYPES else (0.0, 0)
        data, output = given(operand_type, [1], *form), wanted(operand_type, *form, rank=1)
        assert level_of(HARD_SWISH, [data], output) == FeatureLevel.LEVEL_4
    whole = OperandType.TENSOR_INT32
    with pytest.raises(BadData, match=r"operand 0 \(input of HARD_SWISH\) has type TENSOR_INT32"):
        evaluate(HARD_SWISH, [given(whole, [1])], wanted(whole))
