import math

import numpy as np
import pytest
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    evaluate,
    given,
    level_of,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType

pytestmark = pytest.mark.quick

SOFTMAX = OperationType.SOFTMAX
FLOAT32 = OperandType.TENSOR_FLOAT32
FORMS = {QUANT8_TYPES[0]: (1 / 256, 0), QUANT8_TYPES[1]: (1 / 256, -128)}
CASES = [
    ((7,), -1),
    ((3, 5), 1),
    ((2, 3, 4), -3),
    ((2, 3, 4, 5), 2),
    ((2, 3, 4, 5), 0),
    ((0, 3), 1),
    ((3, 0), 0),
]


def beta(operand_type: OperandType, value: float) -> Given:
    is_half = operand_type is OperandType.TENSOR_FLOAT16
    return given(OperandType.FLOAT16 if is_half else OperandType.FLOAT32, value)


def shares(values: np.ndarray, factor: float, axis: int) -> np.ndarray:
    """Computes the softmax of real numbers with Python floats."""
    result = np.zeros(values.shape)
    rows = np.moveaxis(values, axis, -1)
    into = np.moveaxis(result, axis, -1)
    for index in np.ndindex(rows.shape[:-1]):
        largest = max(rows[index].tolist(), default=0.0)
        powers = [math.exp((value - largest) * factor) for value in rows[index].tolist()]
        into[index] = [power / math.fsum(powers) for power in powers]
    return result


@sweep("factor", [1.0, 0.25, 5.0])
@sweep(("shape", "axis"), CASES)
@sweep("operand_type", FLOAT_TYPES)
def test_floats(operand_type: OperandType, shape: tuple[int, ...], axis: int, factor: float) -> None:
    values = np.random.default_rng(22).normal(0, 3, shape).astype(operand_type.dtype)
    arguments = [given(operand_type, values), beta(operand_type, factor), *scalars(axis)]
    result = evaluate(SOFTMAX, arguments, wanted(operand_type))
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    expected = shares(values.astype(np.float64), factor, axis)
    np.testing.assert_allclose(result, expected, rtol=1e-5 + rounding, atol=2 * rounding)


@sweep("factor", [1.0, 0.25, 5.0])
@sweep(("shape", "axis"), CASES)
@sweep("operand_type", QUANT8_TYPES)
def test_quantized_values(
    operand_type: OperandType, shape: tuple[int, ...], axis: int, factor: float
) -> None:
    values = stored_values(np.random.default_rng(23), operand_type, shape)
    arguments = [given(operand_type, values, 0.05, 11), beta(operand_type, factor), *scalars(axis)]
    scale, zero_point = FORMS[operand_type]
    result = evaluate(SOFTMAX, arguments, wanted(operand_type, scale, zero_point))
    exact = shares((values.astype(np.float64) - 11) * 0.05, factor, axis) / scale + zero_point
    highest = np.iinfo(operand_type.dtype.name).max
    assert np.abs(result - np.minimum(exact, highest)).max(initial=0.0) <= 0.5 + 1e-6


def test_last_axis_is_the_default() -> None:
    values = np.random.default_rng(24).normal(size=(3, 4))
    arguments = [given(FLOAT32, values), beta(FLOAT32, 1.0)]
    without = evaluate(SOFTMAX, arguments, wanted(FLOAT32))
    np.testing.assert_array_equal(without, evaluate(SOFTMAX, [*arguments, *scalars(1)], wanted(FLOAT32)))


def test_large_values_do_not_overflow() -> None:
    arguments = [given(FLOAT32, [[3e38, -3e38, 3e38]]), beta(FLOAT32, 1.0)]
    assert evaluate(SOFTMAX, arguments, wanted(FLOAT32)).tolist() == [[0.5, 0.0, 0.5]]


def test_levels() -> None:
    def level(operand_type: OperandType, rank: int, *axis: int) -> FeatureLevel:
        scale = 0.5 if operand_type in QUANT8_TYPES else 0.0
        arguments = [given(operand_type, np.zeros((1,) * rank), scale), beta(operand_type, 1.0)]
        return level_of(SOFTMAX, [*arguments, *scalars(*axis)], wanted(operand_type, scale, rank=rank))

    assert [level(FLOAT32, rank) for rank in (1, 2, 3, 4)] == [
        FeatureLevel.LEVEL_3,
        FeatureLevel.LEVEL_1,
        FeatureLevel.LEVEL_3,
        FeatureLevel.LEVEL_1,
    ]
    assert level(FLOAT32, 2, -1) == FeatureLevel.LEVEL_3
    assert level(OperandType.TENSOR_FLOAT16, 2) == FeatureLevel.LEVEL_3
    assert level(QUANT8_TYPES[0], 4) == FeatureLevel.LEVEL_1
    assert level(QUANT8_TYPES[1], 3) == FeatureLevel.LEVEL_4


@sweep("wrong", [0.0, -1.0, math.inf, math.nan])
def test_refuses_beta(wrong: float) -> None:
    with pytest.raises(BadData, match=r"operand 1 \(beta of SOFTMAX\) is .*; it must be positive and finite"):
        evaluate(SOFTMAX, [given(FLOAT32, [[1.0]]), beta(FLOAT32, wrong)], wanted(FLOAT32))


def test_refuses_other_arguments() -> None:
    data = given(FLOAT32, np.zeros((2, 3)))
    with pytest.raises(BadData, match=r"operand 2 \(axis of SOFTMAX\) is 2; an axis of rank 2, from -2 to 1"):
        evaluate(SOFTMAX, [data, beta(FLOAT32, 1.0), *scalars(2)], wanted(FLOAT32))
    with pytest.raises(
        BadData, match=r"operand 1 \(beta of SOFTMAX\) has type FLOAT16; .* expected with the types"
    ):
        evaluate(SOFTMAX, [data, given(OperandType.FLOAT16, 1.0)], wanted(FLOAT32))
    with pytest.raises(BadData, match=r"operand 0 .* has rank 5; a rank from 1 to 4"):
        evaluate(SOFTMAX, [given(FLOAT32, np.zeros((1,) * 5)), beta(FLOAT32, 1.0)], wanted(FLOAT32))


@sweep("operand_type", QUANT8_TYPES)
def test_the_output_scale_is_fixed(operand_type: OperandType) -> None:
    scale, zero_point = FORMS[operand_type]
    arguments = [given(operand_type, [[1]], 0.5), beta(operand_type, 1.0)]
    for wrong in ((1 / 128, zero_point), (scale, zero_point + 1)):
        with pytest.raises(BadData, match=rf"0.00390625 and {zero_point} are expected"):
            evaluate(SOFTMAX, arguments, wanted(operand_type, *wrong))
