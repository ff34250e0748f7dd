import numpy as np
from support.operations.random_tensors import value
from support.operations.single_operation import counted, evaluate, ints, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS


@sweep("kind", ELEMENTS)
@sweep("shape", [(2, 3, 1, 5, 2), (2, 0, 1, 5, 2)])
def test_elements_of_all_types_are_moved(kind: OperandType, shape: tuple[int, ...]) -> None:
    source = counted(kind, *shape)
    got = evaluate(OperationType.TFLITE_TRANSPOSE, (source, ints(4, 0, 2, 1, 3)), wanted(kind, 0.25))
    np.testing.assert_array_equal(got, value(source).transpose(4, 0, 2, 1, 3))
