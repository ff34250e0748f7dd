import math

import numpy as np
import pytest
from support.operations.random_tensors import tensor, value
from support.operations.single_operation import evaluate, given, level_of, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType

CAST = OperationType.CAST
FLOAT32, FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
INT32, QUANT8 = OperandType.TENSOR_INT32, OperandType.TENSOR_QUANT8_ASYMM
CONVERTIBLE = (FLOAT32, FLOAT16, INT32, QUANT8)
COPIED = (
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_QUANT16_ASYMM,
    OperandType.TENSOR_QUANT16_SYMM,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    OperandType.TENSOR_QUANT8_SYMM,
)
LIMITS = {INT32: (-(2**31), 2**31 - 1), QUANT8: (0, 255)}


def scale_of(operand_type: OperandType) -> float:
    return 0.25 if operand_type.name.startswith("TENSOR_QUANT") else 0.0


@sweep("shape", [(7,), (2, 3, 5), (0, 3), (), (1, 2, 1, 2, 1, 2)])
@sweep("target", CONVERTIBLE)
@sweep("source", CONVERTIBLE)
def test_converts_raw_numbers(source: OperandType, target: OperandType, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(3)
    values = generator.uniform(-400, 400, shape)
    data = given(source, values if source is not QUANT8 else abs(values) % 256, scale_of(source), 0)
    # The zero point of the output is ignored.
    zero_point = 9 if target is QUANT8 else 0
    result = evaluate(CAST, [data], wanted(target, scale_of(target), zero_point))
    for before, after in zip(value(data).ravel().tolist(), result.ravel().tolist(), strict=True):
        if target in LIMITS:
            low, high = LIMITS[target]
            assert after == min(max(math.trunc(before), low), high)
        else:
            assert after == target.dtype.type(before)


@sweep("source", [FLOAT32, FLOAT16])
@sweep("target", [INT32, QUANT8])
def test_reals_outside_the_range(source: OperandType, target: OperandType) -> None:
    values = [math.inf, -math.inf, math.nan, -0.75, 0.75]
    low, high = LIMITS[target]
    result = evaluate(CAST, [given(source, values)], wanted(target, scale_of(target)))
    assert result.tolist() == [high, low, 0, 0, 0]


def test_ends_of_int32() -> None:
    values = [2.0**31, -(2.0**31), -(2.0**31) - 300, 2.0**31 - 128]
    result = evaluate(CAST, [given(FLOAT32, values)], wanted(INT32))
    assert result.tolist() == [2**31 - 1, -(2**31), -(2**31), 2**31 - 128]
    result = evaluate(CAST, [given(INT32, [2**31 - 1, -(2**31), 256, -1])], wanted(QUANT8, 1.0))
    assert result.tolist() == [255, 0, 255, 0]


def test_overflow_of_float16() -> None:
    result = evaluate(CAST, [given(INT32, [65504, -70000])], wanted(FLOAT16))
    assert result.tolist() == [65504.0, -math.inf]


@sweep("operand_type", COPIED)
def test_copies(operand_type: OperandType) -> None:
    data = tensor(operand_type, 3, 1, 4)
    result = evaluate(CAST, [data], wanted(operand_type, scale_of(operand_type)))
    assert (result == value(data)).all()


@sweep("operand_type", COPIED)
def test_refuses_conversions_of_types_that_are_only_copied(operand_type: OperandType) -> None:
    with pytest.raises(BadData, match=r"operand 1 \(output of CAST\) has type TENSOR_FLOAT32"):
        evaluate(CAST, [tensor(operand_type, 2)], wanted(FLOAT32))
    with pytest.raises(BadData, match=rf"operand 1 \(output of CAST\) has type {operand_type.name}"):
        evaluate(CAST, [tensor(FLOAT32, 2)], wanted(operand_type, scale_of(operand_type)))


def test_refuses_per_channel() -> None:
    operand_type = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    with pytest.raises(BadData, match="has type TENSOR_QUANT8_SYMM_PER_CHANNEL"):
        evaluate(CAST, [given(operand_type, [1])], wanted(operand_type))


def test_levels() -> None:
    for source in CONVERTIBLE:
        for target in CONVERTIBLE:
            assert level_of(CAST, [tensor(source, 2)], wanted(target, rank=1)) == FeatureLevel.LEVEL_3
    for kind in COPIED:
        assert level_of(CAST, [tensor(kind, 2)], wanted(kind, rank=1)) == FeatureLevel.LEVEL_4
