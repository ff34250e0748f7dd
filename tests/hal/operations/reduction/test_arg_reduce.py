import math

import numpy as np
import pytest
from support.operations.random_tensors import INT32_TYPES, as_given, like, tensor, value
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    call_of,
    evaluate,
    evaluate_all,
    given,
    level_of,
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

ARGMAX, ARGMIN, TOPK_V2 = OperationType.ARGMAX, OperationType.ARGMIN, OperationType.TOPK_V2
FLOAT32, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
SHAPES = [(1,), (7,), (3, 4), (2, 1, 5), (2, 3, 1, 2, 3), (0, 3)]


def few_values(operand_type: OperandType, shape: tuple[int, ...]) -> Given:
    """Returns few different values, so that many elements are equal."""
    return as_given(operand_type, np.random.default_rng(5).integers(0, 3, shape))


@sweep("shape", SHAPES)
@sweep("operation", [ARGMAX, ARGMIN])
@sweep("operand_type", INT32_TYPES)
def test_finds_the_first_extreme(
    operand_type: OperandType, operation: OperationType, shape: tuple[int, ...]
) -> None:
    rank = len(shape)
    for data in (tensor(operand_type, *shape), few_values(operand_type, shape)):
        for axis in range(-rank, rank):
            if not shape[axis]:
                continue
            result = evaluate(operation, [data, *scalars(axis)], wanted(INT32))
            along = np.moveaxis(value(data), axis, -1)
            assert result.shape == (along.shape[:-1] or (1,))
            rows = along.reshape(-1, along.shape[-1]).tolist()
            extreme = max if operation is ARGMAX else min
            assert result.ravel().tolist() == [row.index(extreme(row)) for row in rows]


@sweep("operation", [ARGMAX, ARGMIN])
@sweep(
    ("shape", "axis", "message"),
    [
        ((2, 3), 2, "is 2; an axis of rank 2, from -2 to 1"),
        ((2, 3), -3, "is -3; an axis of rank 2"),
        ((2, 0), 1, r"is 1; input \[2, 0\] has no elements there"),
    ],
)
def test_refuses_axes(operation: OperationType, shape: tuple[int, ...], axis: int, message: str) -> None:
    with pytest.raises(BadData, match=rf"operand 1 \(axis of {operation.name}\) {message}"):
        evaluate(operation, [tensor(FLOAT32, *shape), *scalars(axis)], wanted(INT32))


@sweep("shape", SHAPES)
@sweep("operand_type", INT32_TYPES)
def test_top(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    for data in (tensor(operand_type, *shape), few_values(operand_type, shape)):
        for k in range(1, shape[-1] + 1):
            found, indices = evaluate_all(TOPK_V2, [data, *scalars(k)], like(operand_type), wanted(INT32))
            rows = value(data).reshape(-1, shape[-1]).tolist()
            expected = [
                sorted(((number, position) for position, number in enumerate(row)), reverse=True)[:k]
                for row in rows
            ]
            assert indices.reshape(-1, k).tolist() == [[position for _, position in row] for row in expected]
            assert found.reshape(-1, k).tolist() == [[number for number, _ in row] for row in expected]


@sweep("operand_type", FLOAT_TYPES)
def test_infinities(operand_type: OperandType) -> None:
    data = given(operand_type, [1.0, -math.inf, math.inf, -1.0])
    assert evaluate(ARGMAX, [data, *scalars(0)], wanted(INT32)).tolist() == [2]
    assert evaluate(ARGMIN, [data, *scalars(0)], wanted(INT32)).tolist() == [1]
    _, indices = evaluate_all(TOPK_V2, [data, *scalars(4)], wanted(operand_type), wanted(INT32))
    assert indices.tolist() == [2, 0, 3, 1]


@sweep(("shape", "k", "limit"), [((2, 3), 0, 3), ((2, 3), 4, 3), ((2, 3), -1, 3), ((2, 0), 1, 0)])
def test_refuses_k(shape: tuple[int, ...], k: int, limit: int) -> None:
    message = rf"operand 1 \(k of TOPK_V2\) is {k}; it must be from 1 to {limit}"
    with pytest.raises(BadData, match=message):
        evaluate_all(TOPK_V2, [tensor(FLOAT32, *shape), *scalars(k)], like(FLOAT32), wanted(INT32))


def test_top_refuses_another_scale() -> None:
    kind = QUANT8_TYPES[0]
    with pytest.raises(BadData, match=r"operand 2 \(output of TOPK_V2\) has scale 1 and zero point 3"):
        evaluate_all(TOPK_V2, [tensor(kind, 1), *scalars(1)], wanted(kind, 1.0, 3), wanted(INT32))


@sweep("operation", [ARGMAX, ARGMIN, TOPK_V2])
def test_refuses_booleans(operation: OperationType) -> None:
    outputs = [wanted(INT32)] if operation is not TOPK_V2 else [like(FLOAT32), wanted(INT32)]
    with pytest.raises(BadData, match=r"operand 0 \(input of \w+\) has type TENSOR_BOOL8"):
        call_of(operation, [given(OperandType.TENSOR_BOOL8, [True]), *scalars(0)], *outputs)


@sweep("operation", [ARGMAX, TOPK_V2])
def test_shapes_are_unknown_without_values(operation: OperationType) -> None:
    outputs = [wanted(INT32)] if operation is ARGMAX else [like(FLOAT32), wanted(INT32)]
    call = call_of(operation, [tensor(FLOAT32, 2), unknown(scalars(0)[0])], *outputs)
    with pytest.raises(UnknownValue):
        DEFINITIONS[operation].shape(call)


def test_levels() -> None:
    expected = dict.fromkeys(INT32_TYPES, FeatureLevel.LEVEL_3) | {QUANT8_TYPES[1]: FeatureLevel.LEVEL_4}
    for operand_type, level in expected.items():
        data = tensor(operand_type, 1)
        for operation in (ARGMAX, ARGMIN):
            assert level_of(operation, [data, *scalars(0)], wanted(INT32, rank=1)) == level
        outputs = like(operand_type), wanted(INT32, rank=1)
        assert level_of(TOPK_V2, [data, *scalars(1)], *outputs) == level
