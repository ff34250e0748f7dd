import numpy as np
import pytest
from support.operations.random_tensors import INT32_TYPES, PLAIN_TYPES, levels, like, tensor, value
from support.operations.single_operation import (
    QUANT8_TYPES,
    Given,
    call_of,
    evaluate,
    evaluate_all,
    given,
    ints,
    level_of,
    scalars,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import UnknownValue

GATHER, EMBEDDING_LOOKUP, HASHTABLE_LOOKUP = (
    OperationType.GATHER,
    OperationType.EMBEDDING_LOOKUP,
    OperationType.HASHTABLE_LOOKUP,
)
FLOAT32, FLOAT16, QUANT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, PLAIN_TYPES[2]
INT32 = OperandType.TENSOR_INT32
HITS = wanted(QUANT8, 1.0)


def indexes(shape: tuple[int, ...], length: int) -> Given:
    return given(INT32, np.random.default_rng(8).integers(0, length, shape))


@sweep("positions", [(4,), (2, 3), (), (0,), (1, 2, 1)])
@sweep("shape", [(5,), (3, 4), (2, 3, 4), (1, 2, 1, 3, 2)])
@sweep("operand_type", INT32_TYPES)
def test_gather(operand_type: OperandType, shape: tuple[int, ...], positions: tuple[int, ...]) -> None:
    data = tensor(operand_type, *shape)
    rank = len(shape)
    for axis in range(-rank, rank):
        start = axis % rank
        indices = indexes(positions, shape[axis])
        result = evaluate(GATHER, [data, *scalars(axis), indices], like(operand_type))
        assert result.shape == (*shape[:start], *positions, *shape[start + 1 :])
        for index in np.ndindex(result.shape):
            middle = index[start : start + len(positions)]
            source = (*index[:start], value(indices)[middle], *index[start + len(positions) :])
            assert result[index] == value(data)[source]


def test_gather_of_nothing() -> None:
    result = evaluate(GATHER, [tensor(FLOAT32, 0, 2), *scalars(0), ints()], like(FLOAT32))
    assert result.shape == (0, 2)
    with pytest.raises(BadData, match=r"has 0 at \[0\]; indexes from 0 to -1 are expected"):
        evaluate(GATHER, [tensor(FLOAT32, 0, 2), *scalars(0), ints(0)], like(FLOAT32))


@sweep(
    ("axis", "indices", "message"),
    [
        (0, ints(1, 2), r"operand 2 \(indices of GATHER\) has 2 at \[1\]; indexes from 0 to 1 are expected"),
        (1, ints(-1), r"has -1 at \[0\]; indexes from 0 to 2"),
        (1, given(INT32, [[0, 1], [2, 2**31 - 1]]), r"has 2147483647 at \[1, 1\]"),
        (1, given(INT32, 7), r"has 7 at \[\]"),
        (2, ints(0), r"operand 1 \(axis of GATHER\) is 2; an axis of rank 2, from -2 to 1"),
    ],
)
def test_gather_refuses(axis: int, indices: Given, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(GATHER, [tensor(FLOAT32, 2, 3), *scalars(axis), indices], like(FLOAT32))


@sweep(
    ("data", "indices", "message"),
    [
        (np.zeros((1,) * 16), np.zeros((1, 1)), "would have rank 17; at most 16"),
        (np.zeros((1, 40_000)), np.zeros(40_000), r"more than 2\^32 - 1 bytes"),
    ],
)
def test_gather_refuses_huge_outputs(data: object, indices: object, message: str) -> None:
    inputs = [given(FLOAT32, data), *scalars(0), given(INT32, indices)]
    with pytest.raises(BadData, match=message):
        evaluate(GATHER, inputs, like(FLOAT32))


@sweep("count", [0, 1, 6])
@sweep("shape", [(3, 4), (4, 1, 2, 3), (2, 0)])
@sweep("operand_type", INT32_TYPES)
def test_embedding_lookup(operand_type: OperandType, shape: tuple[int, ...], count: int) -> None:
    data, lookups = tensor(operand_type, *shape), indexes((count,), shape[0])
    result = evaluate(EMBEDDING_LOOKUP, [lookups, data], like(operand_type))
    assert result.shape == (count, *shape[1:])
    assert result.tolist() == [value(data)[position].tolist() for position in value(lookups)]


@sweep("position", [-1, 3, 2**31 - 1])
def test_embedding_lookup_refuses(position: int) -> None:
    message = rf"operand 0 \(lookups of EMBEDDING_LOOKUP\) has {position} at \[1\]; indexes from 0 to 2"
    with pytest.raises(BadData, match=message):
        evaluate(EMBEDDING_LOOKUP, [ints(0, position), tensor(FLOAT32, 3, 2)], like(FLOAT32))


def test_embedding_lookup_requires_rank_2() -> None:
    with pytest.raises(BadData, match=r"operand 1 .* has rank 1; a rank from 2 to 16"):
        evaluate(EMBEDDING_LOOKUP, [ints(0), tensor(FLOAT32, 3)], like(FLOAT32))


@sweep("shape", [(4, 3), (4,), (4, 2, 1, 2), (1, 2), (0, 2)])
@sweep("operand_type", [FLOAT32, INT32, QUANT8])
def test_hashtable_lookup(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    data = tensor(operand_type, *shape)
    for keys in ([-9, 0, 3, 2**31 - 1][: shape[0]], [3, -9, 2**31 - 1, 0][: shape[0]]):
        lookups = [3, 4, -9, -10, 3, -(2**31), 2**31 - 1, 0]
        result, hits = evaluate_all(
            HASHTABLE_LOOKUP, [ints(*lookups), ints(*keys), data], like(operand_type), HITS
        )
        assert hits.tolist() == [int(key in keys) for key in lookups]
        for row, key in zip(result, lookups, strict=True):
            expected = value(data)[keys.index(key)] if key in keys else np.zeros(shape[1:])
            assert (row == expected).all()


def test_hashtable_lookup_refuses() -> None:
    data = tensor(QUANT8, 2, 1)
    with pytest.raises(
        BadData, match=r"keys of HASHTABLE_LOOKUP\) has length 3; values \[2, 1\] have 2 rows"
    ):
        evaluate_all(HASHTABLE_LOOKUP, [ints(0), ints(0, 1, 2), data], like(QUANT8), HITS)
    with pytest.raises(
        BadData, match=r"operand 4 \(hits of HASHTABLE_LOOKUP\) has scale 0.5 and zero point 0"
    ):
        evaluate_all(HASHTABLE_LOOKUP, [ints(0), ints(0, 1), data], like(QUANT8), wanted(QUANT8, 0.5))
    with pytest.raises(BadData, match=r"output of HASHTABLE_LOOKUP\) has scale 1"):
        evaluate_all(HASHTABLE_LOOKUP, [ints(0), ints(0, 1), data], wanted(QUANT8, 1.0, 3), HITS)
    with pytest.raises(BadData, match=r"operand 2 .* has type TENSOR_FLOAT16"):
        evaluate_all(HASHTABLE_LOOKUP, [ints(0), ints(0), tensor(FLOAT16, 1)], like(FLOAT16), HITS)


@sweep(
    ("operation", "inputs", "outputs"),
    [
        (GATHER, [tensor(FLOAT32, 2), unknown(scalars(0)[0]), ints(0)], [like(FLOAT32)]),
        (EMBEDDING_LOOKUP, [unknown(ints(0)), tensor(FLOAT32, 2, 2)], [like(FLOAT32)]),
        (HASHTABLE_LOOKUP, [ints(0), unknown(ints(0)), tensor(FLOAT32, 2)], [like(FLOAT32), HITS]),
    ],
)
def test_shapes_are_unknown_without_values(
    operation: OperationType, inputs: list[Given], outputs: list[Operand]
) -> None:
    call = call_of(operation, inputs, *outputs)
    DEFINITIONS[operation].check(call)
    with pytest.raises(UnknownValue):
        DEFINITIONS[operation].shape(call)


def test_the_shape_does_not_depend_on_indexes() -> None:
    indices = Given(operand=ints(0, 0, 0).operand, value=None)
    call = call_of(EMBEDDING_LOOKUP, [indices, tensor(FLOAT32, 2, 2)], like(FLOAT32))
    DEFINITIONS[EMBEDDING_LOOKUP].check(call)


def test_levels() -> None:
    found = levels(GATHER, INT32_TYPES, (1,), *scalars(0), ints(0))
    assert found.pop(QUANT8_TYPES[1]) == FeatureLevel.LEVEL_4
    assert set(found.values()) == {FeatureLevel.LEVEL_3}
    lookups = {
        FLOAT32: FeatureLevel.LEVEL_1,
        INT32: FeatureLevel.LEVEL_3,
        QUANT8: FeatureLevel.LEVEL_3,
        FLOAT16: FeatureLevel.LEVEL_4,
        QUANT8_TYPES[1]: FeatureLevel.LEVEL_4,
    }
    for kind, level in lookups.items():
        assert level_of(EMBEDDING_LOOKUP, [ints(0), tensor(kind, 1, 1)], like(kind)) == level
    for kind in (FLOAT32, INT32, QUANT8):
        inputs = [ints(0), ints(0), tensor(kind, 1)]
        assert level_of(HASHTABLE_LOOKUP, inputs, like(kind), HITS) == FeatureLevel.LEVEL_1
