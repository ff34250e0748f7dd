import operator
from collections.abc import Callable

import numpy as np
import pytest
from support.operations.single_operation import FLOAT_TYPES, QUANT8_TYPES, evaluate, given, level_of, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array

BOOL8, INT32 = OperandType.TENSOR_BOOL8, OperandType.TENSOR_INT32
COMPARISONS: dict[OperationType, Callable[[float, float], bool]] = {
    OperationType.EQUAL: operator.eq,
    OperationType.NOT_EQUAL: operator.ne,
    OperationType.GREATER: operator.gt,
    OperationType.GREATER_EQUAL: operator.ge,
    OperationType.LESS: operator.lt,
    OperationType.LESS_EQUAL: operator.le,
}
LOGICAL: dict[OperationType, Callable[[bool, bool], bool]] = {
    OperationType.LOGICAL_AND: operator.and_,
    OperationType.LOGICAL_OR: operator.or_,
}
SHAPES = [((3, 5), (3, 5)), ((2, 3, 4, 5), (4, 1)), ((1, 3, 1), (2, 1, 4)), ((), (3,)), ((0, 3), (1, 3))]


def pairs(first: Array, second: Array) -> list[tuple[float, float]]:
    return [(a.item(), b.item()) for a, b in np.broadcast(first, second)]


@sweep(("first", "second"), SHAPES)
@sweep("operand_type", [*FLOAT_TYPES, INT32, BOOL8])
@sweep("operation", COMPARISONS)
def test_compares(
    operation: OperationType, operand_type: OperandType, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(29)
    # Few different values, so that many are equal.
    left, right = (generator.integers(-1, 2, shape).astype(operand_type.dtype) for shape in (first, second))
    result = evaluate(operation, [given(operand_type, left), given(operand_type, right)], wanted(BOOL8))
    assert result.shape == np.broadcast_shapes(first, second)
    assert result.ravel().tolist() == [COMPARISONS[operation](a, b) for a, b in pairs(left, right)]


@sweep("operand_type", QUANT8_TYPES)
@sweep("operation", COMPARISONS)
def test_compares_dequantized_values(operation: OperationType, operand_type: OperandType) -> None:
    limits = np.iinfo(operand_type.dtype.name)
    values = np.arange(limits.min, limits.max + 1)
    first = given(operand_type, values.reshape(256, 1), 0.5, limits.min + 100)
    second = given(operand_type, values, 0.25, limits.min + 30)
    result = evaluate(operation, [first, second], wanted(BOOL8))
    left, right = (values - limits.min - 100) * 0.5, (values - limits.min - 30) * 0.25
    expected = [COMPARISONS[operation](a, b) for a, b in pairs(left.reshape(256, 1), right)]
    assert result.ravel().tolist() == expected


@sweep(("first", "second"), SHAPES)
@sweep("operation", LOGICAL)
def test_logic(operation: OperationType, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    generator = np.random.default_rng(30)
    left, right = (generator.random(shape) < 0.5 for shape in (first, second))
    result = evaluate(operation, [given(BOOL8, left), given(BOOL8, right)], wanted(BOOL8))
    assert result.ravel().tolist() == [LOGICAL[operation](bool(a), bool(b)) for a, b in pairs(left, right)]


@sweep("shape", [(), (5,), (2, 1, 3), (0, 2)])
def test_not(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(31).random(shape) < 0.5
    result = evaluate(OperationType.LOGICAL_NOT, [given(BOOL8, values)], wanted(BOOL8))
    assert result.shape == shape
    assert result.ravel().tolist() == [not value for value in values.ravel().tolist()]


def test_nan_equals_nothing() -> None:
    data = given(OperandType.TENSOR_FLOAT32, [np.nan])
    for operation in COMPARISONS:
        result = evaluate(operation, [data, data], wanted(BOOL8))
        assert result.tolist() == [operation is OperationType.NOT_EQUAL]


def test_levels() -> None:
    unsigned, signed = (given(operand_type, [1], 1.0) for operand_type in QUANT8_TYPES)
    output = wanted(BOOL8, rank=1)
    for operation in COMPARISONS:
        assert level_of(operation, [unsigned, unsigned], output) == FeatureLevel.LEVEL_3
        assert level_of(operation, [signed, signed], output) == FeatureLevel.LEVEL_4


def test_refuses() -> None:
    whole, truth = given(INT32, [1]), given(BOOL8, [True])
    with pytest.raises(BadData, match=r"operand 2 \(output of LESS\) has type TENSOR_INT32; TENSOR_BOOL8"):
        evaluate(OperationType.LESS, [whole, whole], wanted(INT32))
    with pytest.raises(
        BadData, match=r"operand 1 \(input2 of LESS\) has type TENSOR_BOOL8; .* is expected with the types"
    ):
        evaluate(OperationType.LESS, [whole, truth], wanted(BOOL8))
    with pytest.raises(BadData, match=r"operand 0 \(input1 of LOGICAL_OR\) has type TENSOR_INT32"):
        evaluate(OperationType.LOGICAL_OR, [whole, truth], wanted(BOOL8))
    with pytest.raises(BadData, match=r"EQUAL cannot broadcast input1 \[2\], input2 \[3\]"):
        evaluate(OperationType.EQUAL, [given(INT32, [1, 2]), given(INT32, [1, 2, 3])], wanted(BOOL8))
