import numpy as np
import pytest
from support.operations.single_operation import counted, evaluate, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS


@sweep("kind", ELEMENTS)
def test_diagonals(kind: OperandType) -> None:
    source = counted(kind, 2, 3)
    x = source.value
    assert x is not None
    got = evaluate(OperationType.TFLITE_MATRIX_DIAG, (source,), wanted(kind))
    np.testing.assert_array_equal(got, np.stack([np.diag(row) for row in x]))
    matrix = counted(kind, 2, 3, 4)
    got = evaluate(OperationType.TFLITE_MATRIX_SET_DIAG, (matrix, source), wanted(kind))
    assert matrix.value is not None
    expected = matrix.value.copy()
    expected[:, range(3), range(3)] = x
    np.testing.assert_array_equal(got, expected)
    with pytest.raises(BadData, match=r"\[2, 3\] is expected"):
        evaluate(OperationType.TFLITE_MATRIX_SET_DIAG, (matrix, counted(kind, 2, 4)), wanted(kind))
