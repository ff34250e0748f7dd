import numpy as np
import pytest
from support.operations.single_operation import counted, evaluate, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64


@sweep("kind", ELEMENTS)
def test_scatter(kind: OperandType) -> None:
    updates = counted(kind, 3, 2)
    x = updates.value
    assert x is not None
    indices = given(INT32, [[1], [3], [1]])
    got = evaluate(OperationType.TFLITE_SCATTER_ND, (indices, updates, ints(4, 2)), wanted(kind))
    expected = np.zeros((4, 2), x.dtype)
    np.add.at(expected, [1, 3, 1], x)
    np.testing.assert_array_equal(got, expected)
    with pytest.raises(BadData, match="indexes into"):
        evaluate(OperationType.TFLITE_SCATTER_ND, (indices, updates, ints(3, 2)), wanted(kind))
    with pytest.raises(BadData, match="is expected for indices"):
        evaluate(OperationType.TFLITE_SCATTER_ND, (indices, updates, ints(4, 3)), wanted(kind))


@sweep("kind", ELEMENTS)
def test_sparse_to_dense(kind: OperandType) -> None:
    default, values = given(kind, 1, 0.5), given(kind, [3, 7], 0.5)
    indices = given(INT64, [[1, 0], [3, 1]])
    inputs = indices, given(INT64, [4, 2]), values, default
    got = evaluate(OperationType.TFLITE_SPARSE_TO_DENSE, inputs, wanted(kind))
    expected = np.full((4, 2), default.value)
    expected[[1, 3], [0, 1]] = values.value
    np.testing.assert_array_equal(got, expected)
    inputs = given(INT32, 2), ints(3), given(kind, 5, 0.5), default
    got = evaluate(OperationType.TFLITE_SPARSE_TO_DENSE, inputs, wanted(kind))
    np.testing.assert_array_equal(got, np.array([1, 1, 5]).astype(got.dtype))
    for shape, message in ((ints(3, 2), "outside"), (ints(4), "rank 1"), (ints(4, -1), "negative")):
        with pytest.raises(BadData, match=message):
            evaluate(OperationType.TFLITE_SPARSE_TO_DENSE, (indices, shape, values, default), wanted(kind))


@sweep("kind", ELEMENTS)
@sweep("axis", [-1, 0, 1])
def test_one_hot(kind: OperandType, axis: int) -> None:
    positions = np.array([[1, 0, 5], [3, -1, 2]])
    on, off = given(kind, 1, 0.5), given(kind, 0, 0.5)
    inputs = given(INT64, positions), given(INT32, 4), on, off, *scalars(axis)
    got = evaluate(OperationType.TFLITE_ONE_HOT, inputs, wanted(kind))
    expected = np.moveaxis(positions[..., None] == np.arange(4), -1, axis)
    np.testing.assert_array_equal(got, expected.astype(got.dtype))
    with pytest.raises(BadData, match="at least 0"):
        evaluate(OperationType.TFLITE_ONE_HOT, (inputs[0], given(INT32, -1), *inputs[2:]), wanted(kind))
