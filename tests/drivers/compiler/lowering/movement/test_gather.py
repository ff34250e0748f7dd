import numpy as np
import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.compiler.moved import FLOAT32, kinds
from support.operations.pointwise import numbers, result
from support.operations.single_operation import given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32 = OperandType.TENSOR_INT32
HITS = OperandType.TENSOR_QUANT8_ASYMM


@sweep("data", [(0,), (0, 2), (2,)])
@sweep("kind", kinds(OperationType.GATHER))
def test_gather(kind: OperandType, data: tuple[int, ...]) -> None:
    for axis, picked in ((0, [[2, 0], [1, 1]]), (-1, [4]), (1, 2), (1, [])):
        inputs = [numbers(kind, (3, 4, 5)), *scalars(axis), given(INT32, picked)]
        expect_same(OperationType.GATHER, inputs, result(kind), data=data)


@sweep("width", [2, 8])
@sweep("wrong", [-1, 3, -(2**31), 2**31 - 1])
def test_indexes_must_be_in_range(wrong: int, width: int) -> None:
    with pytest.raises(RequirementFailed, match="from 0 to 2"):
        lowered_all(
            OperationType.GATHER,
            [numbers(FLOAT32, (3, width)), *scalars(0), ints(0, wrong)],
            result(FLOAT32),
            data=(0, 2),
        )
    with pytest.raises(RequirementFailed, match="from 0 to 2"):
        lowered_all(
            OperationType.EMBEDDING_LOOKUP,
            [ints(0, wrong), numbers(FLOAT32, (3, width))],
            result(FLOAT32),
            data=(0, 1),
        )


def test_gather_from_empty_values() -> None:
    with pytest.raises(RequirementFailed):
        lowered_all(
            OperationType.GATHER,
            [numbers(FLOAT32, (0, 2)), *scalars(0), ints(0)],
            result(FLOAT32),
            data=(0, 2),
        )


@sweep("data", [(0,), (0, 1), (1,)])
@sweep("kind", kinds(OperationType.EMBEDDING_LOOKUP))
def test_embedding_lookup(kind: OperandType, data: tuple[int, ...]) -> None:
    for lookups in ((1, 3, 1), (), (2,)):
        inputs = [ints(*lookups), numbers(kind, (4, 2, 3))]
        expect_same(OperationType.EMBEDDING_LOOKUP, inputs, result(kind), data=data)


@sweep("kind", kinds(OperationType.HASHTABLE_LOOKUP))
@sweep("count", [0, 1, 9])
def test_hashtable_lookup(kind: OperandType, count: int) -> None:
    generator = np.random.default_rng(count)
    keys = given(INT32, np.sort(generator.integers(-5, 5, count)))
    inputs = [given(INT32, generator.integers(-6, 6, 7)), keys, numbers(kind, (count, 3))]
    expect_same(OperationType.HASHTABLE_LOOKUP, inputs, result(kind), wanted(HITS, 1.0, 0), data=(0, 1, 2))


@sweep("count", [255, 256, 257, 1000])
@sweep("spread", [100, 1 << 30])
def test_many_keys_are_searched_for(spread: int, count: int) -> None:
    generator = np.random.default_rng(count)
    keys = np.sort(generator.integers(-spread, spread, count))
    lookups = np.concatenate((keys[:5], keys[-5:], generator.integers(-spread, spread, 20), [-(1 << 31)]))
    inputs = [given(INT32, lookups), given(INT32, keys), numbers(FLOAT32, (count, 2))]
    outputs = result(FLOAT32), wanted(HITS, 1.0, 0)
    disordered = given(INT32, generator.permutation(keys))
    expect_same(OperationType.HASHTABLE_LOOKUP, [inputs[0], disordered, inputs[2]], *outputs, data=(0, 1, 2))
    for data in ((0,), (0, 2), (0, 1, 2)):
        expect_same(OperationType.HASHTABLE_LOOKUP, inputs, *outputs, data=data)
