import itertools

import numpy as np
import pytest
from support.operations.random_tensors import INT32_TYPES, PLAIN_TYPES, levels, like, tensor, value
from support.operations.single_operation import (
    QUANT8_TYPES,
    Given,
    call_of,
    evaluate,
    ints,
    omitted,
    scalars,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import UnknownValue

TRANSPOSE, CHANNEL_SHUFFLE, REVERSE = (
    OperationType.TRANSPOSE,
    OperationType.CHANNEL_SHUFFLE,
    OperationType.REVERSE,
)
FLOAT32, FLOAT16, QUANT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, PLAIN_TYPES[2]


@sweep("shape", [(4,), (3, 2), (2, 3, 4), (2, 1, 3, 2), (0, 3, 2)])
@sweep("operand_type", PLAIN_TYPES)
def test_transpose(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    data = tensor(operand_type, *shape)
    for axes in itertools.permutations(range(len(shape))):
        result = evaluate(TRANSPOSE, [data, ints(*axes)], like(operand_type))
        assert result.shape == tuple(shape[axis] for axis in axes)
        for index in np.ndindex(result.shape):
            source = [0] * len(shape)
            for position, axis in zip(index, axes, strict=True):
                source[axis] = position
            assert result[index] == value(data)[tuple(source)]


@sweep("operand_type", PLAIN_TYPES)
def test_a_matrix_needs_no_permutation(operand_type: OperandType) -> None:
    data, nothing = tensor(operand_type, 2, 3), omitted(OperandType.TENSOR_INT32)
    result = evaluate(TRANSPOSE, [data, nothing], like(operand_type))
    assert result.tolist() == [list(column) for column in zip(*value(data).tolist(), strict=True)]


@sweep(
    ("permutation", "message"),
    [
        (ints(0, 1), r"operand 1 \(permutation of TRANSPOSE\) has shape \[2\]; \[3\] is expected"),
        (ints(0, 1, 1), r"is \[0, 1, 1\]; every axis from 0 to 2 is expected once"),
        (ints(0, 1, 3), "every axis from 0 to 2"),
        (ints(0, 1, -1), "every axis from 0 to 2"),
        (omitted(OperandType.TENSOR_INT32), r"input of TRANSPOSE\) has rank 3; rank 2 is expected where"),
    ],
)
def test_refuses_permutations(permutation: Given, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(TRANSPOSE, [tensor(FLOAT32, 1, 2, 3), permutation], like(FLOAT32))


@sweep(
    ("shape", "axis", "groups"),
    [
        ((6,), 0, 2),
        ((6,), -1, 3),
        ((2, 12), 1, 3),
        ((4, 3), 0, 4),
        ((2, 3, 4), -1, 1),
        ((2, 6, 1, 3), 1, 2),
        ((2, 6, 1, 3), -3, 6),
        ((2, 0), 1, 5),
        ((0, 4), 1, 2),
    ],
)
@sweep("operand_type", PLAIN_TYPES)
def test_channel_shuffle(operand_type: OperandType, shape: tuple[int, ...], axis: int, groups: int) -> None:
    data = tensor(operand_type, *shape)
    result = evaluate(CHANNEL_SHUFFLE, [data, *scalars(groups, axis)], like(operand_type))
    size = shape[axis] // groups
    for index in np.ndindex(shape):
        source = list(index)
        member, group = divmod(index[axis], groups)
        source[axis] = group * size + member
        assert result[index] == value(data)[tuple(source)]


@sweep(
    ("groups", "axis", "message"),
    [
        (0, 1, r"operand 1 \(groups of CHANNEL_SHUFFLE\) is 0; it must be at least 1"),
        (4, 1, "is 4; it does not divide the length 6 of axis 1"),
        (2, 2, r"operand 2 \(axis of CHANNEL_SHUFFLE\) is 2; an axis of rank 2, from -2 to 1"),
        (2, -3, "is -3; an axis of rank 2"),
    ],
)
def test_refuses_groups(groups: int, axis: int, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(CHANNEL_SHUFFLE, [tensor(FLOAT32, 2, 6), *scalars(groups, axis)], like(FLOAT32))


@sweep("shape", [(5,), (2, 3), (3, 1, 4), (1, 2, 1, 2, 1, 3, 1, 2), (0, 2)])
@sweep("operand_type", INT32_TYPES)
def test_reverse(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    data = tensor(operand_type, *shape)
    for axis, length in enumerate(shape):
        result = evaluate(REVERSE, [data, ints(axis)], like(operand_type))
        for index in np.ndindex(shape):
            source = list(index)
            source[axis] = length - 1 - index[axis]
            assert result[index] == value(data)[tuple(source)]


@sweep(
    ("axis", "message"),
    [
        (ints(2), r"operand 1 \(axis of REVERSE\) is 2; it must be from 0 to 1"),
        (ints(-1), "is -1; it must be from 0 to 1"),
        (ints(0, 1), r"has shape \[2\]; \[1\] is expected"),
        (ints(), r"has shape \[0\]; \[1\] is expected"),
        (scalars(0)[0], "has type INT32; TENSOR_INT32 is expected"),
    ],
)
def test_refuses_axes(axis: Given, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(REVERSE, [tensor(FLOAT32, 2, 3), axis], like(FLOAT32))


@sweep(
    ("operation", "arguments", "highest"),
    [(TRANSPOSE, [ints(0)], 4), (CHANNEL_SHUFFLE, scalars(1, 0), 4), (REVERSE, [ints(0)], 8)],
)
def test_refuses_ranks_and_scales(operation: OperationType, arguments: list[Given], highest: int) -> None:
    with pytest.raises(BadData, match=rf"has rank {highest + 1}; a rank from 1 to {highest} is expected"):
        evaluate(operation, [tensor(FLOAT32, *(1,) * (highest + 1)), *arguments], like(FLOAT32))
    with pytest.raises(BadData, match=rf"output of {operation.name}\) has scale 1 and zero point 3"):
        evaluate(operation, [tensor(QUANT8, 1), *arguments], wanted(QUANT8, 1.0, 3))


@sweep("operation", [TRANSPOSE, REVERSE])
def test_shapes_are_unknown_without_values(operation: OperationType) -> None:
    call = call_of(operation, [tensor(FLOAT32, 2), unknown(ints(0))], like(FLOAT32))
    with pytest.raises(UnknownValue):
        DEFINITIONS[operation].shape(call)


def test_levels() -> None:
    assert levels(TRANSPOSE, PLAIN_TYPES, (2,), ints(0)) == {
        FLOAT32: FeatureLevel.LEVEL_2,
        FLOAT16: FeatureLevel.LEVEL_3,
        QUANT8: FeatureLevel.LEVEL_2,
        QUANT8_TYPES[1]: FeatureLevel.LEVEL_4,
    }
    assert levels(CHANNEL_SHUFFLE, PLAIN_TYPES, (2,), *scalars(1, 0)) == {
        FLOAT32: FeatureLevel.LEVEL_3,
        FLOAT16: FeatureLevel.LEVEL_3,
        QUANT8: FeatureLevel.LEVEL_3,
        QUANT8_TYPES[1]: FeatureLevel.LEVEL_4,
    }
    assert set(levels(REVERSE, INT32_TYPES, (2,), ints(0)).values()) == {FeatureLevel.LEVEL_7}
