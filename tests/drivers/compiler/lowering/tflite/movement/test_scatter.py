import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.compiler.moved import FLOAT32, kinds
from support.operations.pointwise import numbers, result
from support.operations.single_operation import given, ints, scalars
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
SCATTER, DENSE = OperationType.TFLITE_SCATTER_ND, OperationType.TFLITE_SPARSE_TO_DENSE
ONE_HOT = OperationType.TFLITE_ONE_HOT


def sums(found: Array, expected: Array) -> None:
    (close if found.dtype.kind in "fc" else np.testing.assert_array_equal)(found, expected)


@sweep("data", [(1,), (0, 1)])
@sweep("kind", kinds(SCATTER))
def test_scatter(kind: OperandType, data: tuple[int, ...]) -> None:
    for picked, shape in (
        ([[1], [3], [1], [1]], (4, 3)),
        ([[2, 0], [0, 2]], (3, 4)),
        ([3], (5,)),
        ([[[1]], [[0]]], (2,)),
        (np.zeros((0, 1)), (3, 2)),
        (np.zeros((2, 0)), (2,)),
    ):
        depth = np.shape(picked)[-1]
        updates = numbers(kind, (*np.shape(picked)[:-1], *shape[depth:]), low=0)
        inputs = [given(INT64, picked), updates, ints(*shape)]
        expect_same(SCATTER, inputs, result(kind), data=data, compare=sums)


@sweep("wrong", [-1, 4, 2**33])
def test_indexes_must_be_in_range(wrong: int) -> None:
    indices = given(INT64, [[1], [wrong]])
    with pytest.raises(RequirementFailed, match="into"):
        lowered_all(SCATTER, [indices, numbers(FLOAT32, (2, 3)), ints(4, 3)], result(FLOAT32), data=(0, 1))
    inputs = [indices, given(INT64, [4]), numbers(FLOAT32, (2,)), numbers(FLOAT32, ())]
    with pytest.raises(RequirementFailed, match="into"):
        lowered_all(DENSE, inputs, result(FLOAT32), data=(0, 2))


@sweep("data", [(0, 1), (1,)])
def test_many_equal_indexes(data: tuple[int, ...]) -> None:
    count = 1 << 10
    inputs = [given(INT32, np.zeros((count, 1))), numbers(FLOAT32, (count, 1)), ints(count, 1)]
    expect_same(SCATTER, inputs, result(FLOAT32), data=data)
    dense = [
        given(INT32, np.zeros((count, 1))),
        ints(count),
        numbers(FLOAT32, (count,)),
        numbers(FLOAT32, ()),
    ]
    expect_same(DENSE, dense, result(FLOAT32), data=(*(each * 2 for each in data),))


@sweep("data", [(2, 3), (0, 2), (2,)])
@sweep("kind", kinds(DENSE))
def test_sparse_to_dense(kind: OperandType, data: tuple[int, ...]) -> None:
    for picked, shape, values in (
        ([[1, 2], [0, 0], [1, 2]], (2, 3), (3,)),
        ([3, 0, 3], (4,), (3,)),
        ([3, 0], (4,), ()),
        (2, (4,), (1,)),
        (2, (4,), ()),
        (np.zeros((0, 2)), (2, 2), (0,)),
    ):
        inputs = [given(INT32, picked), ints(*shape), numbers(kind, values), numbers(kind, (), seed=1)]
        expect_same(DENSE, inputs, result(kind), data=data)


@sweep("data", [(0,), (0, 2, 3)])
@sweep("kind", kinds(ONE_HOT))
def test_one_hot(kind: OperandType, data: tuple[int, ...]) -> None:
    on, off = numbers(kind, ()), numbers(kind, (1,), seed=1)
    for picked, axis in (([[1, -1], [3, 2]], -1), ([[1, -1], [2**32, 2]], 1), (2, 0), ([], 0)):
        inputs = [given(INT64, picked), *scalars(3), on, off, *scalars(axis)]
        expect_same(ONE_HOT, inputs, result(kind), data=data)
