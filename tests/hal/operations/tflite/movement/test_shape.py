import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import (
    counted,
    evaluate,
    given,
    ints,
    omitted,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
FLOAT32 = OperandType.TENSOR_FLOAT32


@sweep("kind", ELEMENTS)
@sweep("shape", [(2, 3, 1, 5, 2), (2, 0, 1, 5, 2)])
def test_elements_of_all_types_are_moved(kind: OperandType, shape: tuple[int, ...]) -> None:
    source, output = counted(kind, *shape), wanted(kind, 0.25)
    x = value(source)
    list64 = given(INT64, [5, 0 if 0 in shape else -1])
    np.testing.assert_array_equal(
        evaluate(OperationType.TFLITE_RESHAPE, (source, list64), output), x.reshape(list64.value)
    )
    got = evaluate(OperationType.TFLITE_SQUEEZE, (source, ints(-3)), output)
    np.testing.assert_array_equal(got, x[:, :, 0])


@sweep("kind", [INT32, INT64])
@sweep("shape", [(), (3,), (2, 0, 4, 1, 1, 2)])
def test_shape_and_rank(kind: OperandType, shape: tuple[int, ...]) -> None:
    source = counted(OperandType.TENSOR_BOOL8, *shape)
    assert tuple(evaluate(OperationType.TFLITE_SHAPE, (source,), wanted(kind))) == shape
    assert evaluate(OperationType.TFLITE_RANK, (source,), wanted(INT32)) == len(shape)


def test_squeeze_may_remove_all_dimensions() -> None:
    inputs = counted(FLOAT32, 1, 1), omitted(INT32)
    assert evaluate(OperationType.TFLITE_SQUEEZE, inputs, wanted(FLOAT32)).shape == ()
    with pytest.raises(BadData, match=r"axis 1 of .* has length 2"):
        evaluate(OperationType.TFLITE_SQUEEZE, (counted(FLOAT32, 1, 2), ints(1)), wanted(FLOAT32))
