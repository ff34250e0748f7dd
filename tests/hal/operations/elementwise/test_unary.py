import math
from collections.abc import Callable

import numpy as np
import pytest
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    evaluate,
    given,
    level_of,
    wanted,
    zero_points,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType

FLOAT32, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
FUNCTIONS: dict[OperationType, Callable[[float], float]] = {
    OperationType.ABS: abs,
    OperationType.EXP: math.exp,
    OperationType.FLOOR: math.floor,
    OperationType.LOG: math.log,
    OperationType.NEG: lambda x: -x,
    OperationType.RSQRT: lambda x: 1 / math.sqrt(x),
    OperationType.SIN: math.sin,
    OperationType.SQRT: math.sqrt,
}
#: Functions of positive numbers only.
POSITIVE = (OperationType.LOG, OperationType.RSQRT, OperationType.SQRT)


@sweep("shape", [(), (7,), (3, 5), (2, 3, 1, 5), (0, 3)])
@sweep("operand_type", FLOAT_TYPES)
@sweep("operation", FUNCTIONS)
def test_floats(operation: OperationType, operand_type: OperandType, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(28).normal(0, 3, shape).astype(operand_type.dtype)
    if operation in POSITIVE:
        values = np.abs(values) + operand_type.dtype.type(0.01)
    result = evaluate(operation, [given(operand_type, values)], wanted(operand_type))
    expected = [FUNCTIONS[operation](value) for value in values.ravel().tolist()]
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    np.testing.assert_allclose(result.ravel(), expected, rtol=4 * rounding, atol=rounding)


@sweep("operand_type", FLOAT_TYPES)
@sweep("alpha", [1.0, 0.5, 0.0, -2.0])
def test_elu(operand_type: OperandType, alpha: float) -> None:
    values = np.array([-200.0, -3.0, -0.125, 0.0, 0.5, 4.0]).astype(operand_type.dtype)
    is_half = operand_type is OperandType.TENSOR_FLOAT16
    factor = given(OperandType.FLOAT16 if is_half else OperandType.FLOAT32, alpha)
    result = evaluate(OperationType.ELU, [given(operand_type, values), factor], wanted(operand_type))
    expected = [max(0, x) + min(0, alpha * math.expm1(x)) for x in values.tolist()]
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    np.testing.assert_allclose(result, expected, rtol=2 * rounding)


def test_elu_where_the_power_overflows() -> None:
    for alpha in (1.0, 0.0):
        arguments = [given(FLOAT32, [1000.0]), given(OperandType.FLOAT32, alpha)]
        assert evaluate(OperationType.ELU, arguments, wanted(FLOAT32)).tolist() == [1000.0]


def test_outside_of_the_domain() -> None:
    data = given(FLOAT32, [-1.0, 0.0])
    for operation, at_zero in (
        (OperationType.LOG, -math.inf),
        (OperationType.RSQRT, math.inf),
        (OperationType.SQRT, 0.0),
    ):
        result = evaluate(operation, [data], wanted(FLOAT32))
        assert math.isnan(result[0])
        assert result[1] == at_zero


@sweep("operand_type", QUANT8_TYPES)
def test_root_of_quantized_values(operand_type: OperandType) -> None:
    limits = np.iinfo(operand_type.dtype.name)
    values = np.arange(limits.min, limits.max + 1).reshape(16, 16)
    scale, new = 0.03, limits.min + 13
    for old in zero_points(operand_type):
        result = evaluate(
            OperationType.RSQRT, [given(operand_type, values, 0.05, old)], wanted(operand_type, scale, new)
        )
        for before, after in zip(values.ravel().tolist(), result.ravel().tolist(), strict=True):
            real = (before - old) * 0.05
            if real <= 0:
                assert after == (limits.max if real == 0 else new)
                continue
            exact = 1 / math.sqrt(real) / scale + new
            assert abs(after - min(max(exact, limits.min), limits.max)) <= 0.5 + 1e-6


@sweep("operation", [OperationType.ABS, OperationType.NEG])
def test_int32(operation: OperationType) -> None:
    result = evaluate(operation, [given(INT32, [[3, -5, 0, 2**31 - 1, -(2**31)]])], wanted(INT32))
    # The only result that exceeds int32 wraps around.
    expected = [FUNCTIONS[operation](value) for value in (3, -5, 0, 2**31 - 1)]
    assert result.tolist() == [[*expected, -(2**31)]]


def test_levels() -> None:
    def level(operation: OperationType, operand_type: OperandType, *extra: Given) -> FeatureLevel:
        form = (1.0, 0) if operand_type in QUANT8_TYPES else (0.0, 0)
        return level_of(
            operation, [given(operand_type, [1], *form), *extra], wanted(operand_type, *form, rank=1)
        )

    for operation in FUNCTIONS:
        is_old = operation is OperationType.FLOOR
        assert level(operation, FLOAT32) == (FeatureLevel.LEVEL_1 if is_old else FeatureLevel.LEVEL_3)
    assert level(OperationType.ELU, FLOAT32, given(OperandType.FLOAT32, 1.0)) == FeatureLevel.LEVEL_4
    assert level(OperationType.FLOOR, OperandType.TENSOR_FLOAT16) == FeatureLevel.LEVEL_3
    assert level(OperationType.ABS, INT32) == FeatureLevel.LEVEL_4
    assert level(OperationType.NEG, INT32) == FeatureLevel.LEVEL_3
    for operand_type in QUANT8_TYPES:
        assert level(OperationType.RSQRT, operand_type) == FeatureLevel.LEVEL_7


def test_refuses() -> None:
    with pytest.raises(BadData, match=r"operand 0 \(input of EXP\) has type TENSOR_INT32; TENSOR_FLOAT32"):
        evaluate(OperationType.EXP, [given(INT32, [1])], wanted(INT32))
    with pytest.raises(BadData, match=r"operand 0 \(input of FLOOR\) has rank 5; a rank from 0 to 4"):
        evaluate(OperationType.FLOOR, [given(FLOAT32, np.zeros((1,) * 5))], wanted(FLOAT32))
    with pytest.raises(
        BadData, match=r"operand 1 \(alpha of ELU\) has type FLOAT16; .* expected with the types"
    ):
        evaluate(OperationType.ELU, [given(FLOAT32, [1.0]), given(OperandType.FLOAT16, 1.0)], wanted(FLOAT32))
