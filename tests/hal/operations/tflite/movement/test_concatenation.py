import numpy as np
from support.operations.random_tensors import value
from support.operations.single_operation import counted, evaluate, given, scalars, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS


@sweep("kind", ELEMENTS)
@sweep("shape", [(2, 3, 1, 5, 2), (2, 0, 1, 5, 2)])
def test_elements_of_all_types_are_joined(kind: OperandType, shape: tuple[int, ...]) -> None:
    source = counted(kind, *shape)
    got = evaluate(OperationType.TFLITE_CONCATENATION, (source, source, *scalars(3)), wanted(kind, 0.5))
    np.testing.assert_array_equal(got, np.concatenate((value(source), value(source)), 3))


def test_values_of_another_scale_are_copied() -> None:
    kind = OperandType.TENSOR_QUANT16_SYMM
    one, other = given(kind, [1, 2], 0.5), given(kind, [3], 0.25)
    got = evaluate(OperationType.TFLITE_CONCATENATION, (one, other, *scalars(0)), wanted(kind, 2.0))
    assert got.tolist() == [1, 2, 3]
