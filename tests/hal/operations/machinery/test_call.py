import numpy as np
from support.operations.single_operation import call_of, given, wanted

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT = OperandType.TENSOR_FLOAT32


def test_a_replaced_input_has_another_value_and_shape() -> None:
    inputs = [given(FLOAT, [1.0, 2.0]), given(FLOAT, [3.0]), given(OperandType.INT32, 0)]
    call = call_of(OperationType.ADD, inputs, wanted(FLOAT))
    replaced = call.replaced("input1", np.zeros((4, 1), np.float32))
    assert replaced.shape("input1") == (4, 1)
    assert replaced.array("input1").tolist() == [[0], [0], [0], [0]]
    assert replaced.array("input2").tolist() == [3]
    assert call.array("input1").tolist() == [1, 2]
