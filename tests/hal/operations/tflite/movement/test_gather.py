import numpy as np
import pytest
from support.operations.single_operation import counted, evaluate, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
INT16 = OperandType.TENSOR_QUANT16_SYMM


@sweep("kind", ELEMENTS)
@sweep("indexes", [INT16, INT32, INT64])
def test_gather(kind: OperandType, indexes: OperandType) -> None:
    source = counted(kind, 2, 3, 4, 2, 2)
    picked = given(indexes, [[3, 0], [1, 1]], 1.0)
    x, positions = source.value, picked.value
    assert x is not None
    assert positions is not None
    got = evaluate(OperationType.TFLITE_GATHER, (source, *scalars(-3), picked), wanted(kind))
    np.testing.assert_array_equal(got, np.take(x, positions, 2))
    got = evaluate(OperationType.TFLITE_GATHER, (source, *scalars(2), picked, *scalars(1)), wanted(kind))
    expected = np.stack([np.take(x[batch], positions[batch], 1) for batch in range(2)])
    np.testing.assert_array_equal(got, expected)
    got = evaluate(
        OperationType.TFLITE_GATHER_ND, (source, given(indexes, [[1, 2], [0, 0]], 1.0)), wanted(kind)
    )
    np.testing.assert_array_equal(got, x[[1, 0], [2, 0]])


def test_gather_with_empty_operands() -> None:
    empty = given(INT32, np.zeros((2, 0)))
    inputs = counted(FLOAT32, 2, 3), *scalars(1), empty, *scalars(1)
    assert evaluate(OperationType.TFLITE_GATHER, inputs, wanted(FLOAT32)).shape == (2, 0)
    inputs = counted(FLOAT32, 0, 3), *scalars(1), given(INT32, np.zeros((0, 4))), *scalars(1)
    assert evaluate(OperationType.TFLITE_GATHER, inputs, wanted(FLOAT32)).shape == (0, 4)


@sweep(
    ("axis", "picked", "batches", "message"),
    [
        (0, [3], 0, "from 0 to 2"),
        (0, [-1], 0, "from 0 to 2"),
        (0, [1], 1, "batch_dims"),
        (1, [0, 1], 1, "first 1 lengths"),
        (2, [0], 0, "axis"),
    ],
)
def test_gather_refuses(axis: int, picked: list[int], batches: int, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(
            OperationType.TFLITE_GATHER,
            (counted(FLOAT32, 3, 2), *scalars(axis), ints(*picked), *scalars(batches)),
            wanted(FLOAT32),
        )


@sweep(("indices", "message"), [([[0, 2]], "indexes into"), ([[0, 0, 0]], "rank 2")])
def test_gather_nd_refuses(indices: list[list[int]], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(
            OperationType.TFLITE_GATHER_ND, (counted(FLOAT32, 3, 2), given(INT32, indices)), wanted(FLOAT32)
        )
