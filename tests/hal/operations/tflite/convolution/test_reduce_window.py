from itertools import product

import numpy as np
import pytest
from support.operations.single_operation import counted, evaluate, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
BOOL8 = OperandType.TENSOR_BOOL8
ORDERED = tuple(kind for kind in ELEMENTS if kind.dtype.kind != "c")


@sweep("kind", ORDERED)
@sweep("function", range(1, 5))
def test_reduced_windows(kind: OperandType, function: int) -> None:
    ufunc = (np.add, np.multiply, np.minimum, np.maximum)[function - 1]
    x = np.random.default_rng(3).integers(0, 2, (5, 6)).astype(kind.dtype)
    vectors = given(INT64, [2, 3]), given(INT64, [1, 2]), given(INT64, [2, 1])
    inputs = given(kind, x, 0.5), given(kind, 1, 0.5), *vectors, *scalars(function)
    got = evaluate(OperationType.TFLITE_REDUCE_WINDOW, inputs, wanted(kind))
    expected = np.empty((3, 2), x.dtype)
    for row, column in product(range(3), range(2)):
        window = x[row : row + 3 : 2, column * 2 : column * 2 + 3].reshape(-1)
        expected[row, column] = ufunc.reduce(np.append(window, np.ones(1, x.dtype)))
    np.testing.assert_array_equal(got, expected)


@sweep(("function", "expected"), [(5, [True, False]), (6, [True, True])])
def test_all_and_any(function: int, expected: list[bool]) -> None:
    inputs = given(BOOL8, [True, True, False]), given(BOOL8, function == 5), ints(2), ints(1), ints(1)
    got = evaluate(OperationType.TFLITE_REDUCE_WINDOW, (*inputs, *scalars(function)), wanted(BOOL8))
    assert got.tolist() == expected


def test_windows_larger_than_the_input() -> None:
    inputs = counted(FLOAT32, 2, 5), given(FLOAT32, 0), ints(3, 1), ints(1, 1), ints(1, 1)
    got = evaluate(OperationType.TFLITE_REDUCE_WINDOW, (*inputs, *scalars(1)), wanted(FLOAT32))
    assert got.shape == (0, 5)
    with pytest.raises(BadData, match="is expected"):
        evaluate(OperationType.TFLITE_REDUCE_WINDOW, (*inputs, *scalars(0)), wanted(FLOAT32))
    with pytest.raises(BadData, match="at least 1"):
        evaluate(
            OperationType.TFLITE_REDUCE_WINDOW,
            (*inputs[:3], ints(0, 1), ints(1, 1), *scalars(1)),
            wanted(FLOAT32),
        )
