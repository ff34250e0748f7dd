"""TFLite's operations on tensors without dimensions, and on empty lists."""

import numpy as np
from support.operations.single_operation import evaluate, given, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT, INT = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32


@sweep("operation", [OperationType.TFLITE_PAD, OperationType.TFLITE_MIRROR_PAD])
def test_padding_without_dimensions(operation: OperationType) -> None:
    inputs = [given(FLOAT, 3.5), given(INT, np.zeros((0, 2)))]
    if operation is OperationType.TFLITE_MIRROR_PAD:
        inputs.append(given(OperandType.INT32, 0))
    result = evaluate(operation, inputs, wanted(FLOAT))
    assert result.shape == ()
    assert result == np.float32(3.5)


def dense(indices: object, shape: object, values: object) -> np.ndarray:
    inputs = [given(INT, indices), given(INT, shape), given(FLOAT, values), given(FLOAT, -1.0)]
    return evaluate(OperationType.TFLITE_SPARSE_TO_DENSE, inputs, wanted(FLOAT))


def test_one_element() -> None:
    assert dense(np.zeros((1, 0)), np.zeros(0), [7.0]) == 7
    assert dense(np.zeros((0, 0)), np.zeros(0), np.zeros(0)) == -1


def test_no_elements() -> None:
    np.testing.assert_array_equal(dense(np.zeros((0, 2)), [2, 2], np.zeros(0)), np.full((2, 2), -1))


def test_indexes_of_several_dimensions() -> None:
    expected = np.full((2, 3, 4), -1.0)
    expected[1, 2, 3], expected[0, 1, 2] = 5, 6
    np.testing.assert_array_equal(dense([[1, 2, 3], [0, 1, 2]], [2, 3, 4], [5.0, 6.0]), expected)
