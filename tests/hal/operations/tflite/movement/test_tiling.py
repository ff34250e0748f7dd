import numpy as np
import pytest
from support.operations.single_operation import Given, counted, evaluate, given, ints, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64


@sweep("kind", ELEMENTS)
def test_tile_and_broadcast(kind: OperandType) -> None:
    source, output = counted(kind, 3, 2), wanted(kind)
    x = source.value
    assert x is not None
    got = evaluate(OperationType.TFLITE_TILE, (source, given(INT64, [2, 0])), output)
    assert got.shape == (6, 0)
    got = evaluate(OperationType.TFLITE_BROADCAST_TO, (source, given(INT64, [4, 3, 2])), output)
    np.testing.assert_array_equal(got, np.broadcast_to(x, (4, 3, 2)))


@sweep(
    ("operation", "inputs", "message"),
    [
        (OperationType.TFLITE_BROADCAST_TO, (ints(2, 2),), "cannot be broadcast"),
        (OperationType.TFLITE_BROADCAST_TO, (ints(-3),), "negative"),
    ],
)
def test_invalid_shapes_are_refused(
    operation: OperationType, inputs: tuple[Given, ...], message: str
) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(operation, (counted(FLOAT32, 3), *inputs), wanted(FLOAT32))


@sweep(
    ("one", "other", "result"),
    [([2, 1, 3], [4, 1], [2, 4, 3]), ([], [5], [5]), ([1], [0], [0]), ([3], [3], [3])],
)
@sweep("kind", [INT32, INT64])
def test_broadcast_args(kind: OperandType, one: list[int], other: list[int], result: list[int]) -> None:
    for pair in ((one, other), (other, one)):
        inputs = [given(kind, shape) for shape in pair]
        assert evaluate(OperationType.TFLITE_BROADCAST_ARGS, inputs, wanted(kind)).tolist() == result
    with pytest.raises(BadData, match="does not broadcast"):
        evaluate(OperationType.TFLITE_BROADCAST_ARGS, (given(kind, [2]), given(kind, [3])), wanted(kind))
