import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import counted, evaluate, evaluate_all, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

INT64, FLOAT32 = OperandType.TENSOR_INT64, OperandType.TENSOR_FLOAT32


@sweep("kind", ELEMENTS)
@sweep("shape", [(2, 3, 1, 5, 2), (2, 0, 1, 5, 2)])
def test_elements_of_all_types_are_moved(kind: OperandType, shape: tuple[int, ...]) -> None:
    source, output = counted(kind, *shape), wanted(kind, 0.25)
    x = value(source)
    got = evaluate(OperationType.TFLITE_EXPAND_DIMS, (source, given(INT64, [-2])), output)
    np.testing.assert_array_equal(got, x[..., np.newaxis, :])
    got = evaluate(OperationType.TFLITE_PACK, (*scalars(5), source, source), output)
    np.testing.assert_array_equal(got, np.stack((x, x), 5))
    for part, expected in zip(
        evaluate_all(OperationType.TFLITE_UNPACK, (source, *scalars(-1)), output, output),
        (x[..., 0], x[..., 1]),
        strict=True,
    ):
        np.testing.assert_array_equal(part, expected)


def test_unpack_needs_an_output_per_index() -> None:
    with pytest.raises(BadData, match="length 2, one for each output"):
        evaluate_all(
            OperationType.TFLITE_UNPACK,
            (counted(FLOAT32, 3, 3), *scalars(0)),
            wanted(FLOAT32),
            wanted(FLOAT32),
        )


def test_refuses_a_list_instead_of_a_number() -> None:
    with pytest.raises(BadData, match="exactly one element"):
        evaluate(OperationType.TFLITE_EXPAND_DIMS, (counted(FLOAT32, 3), ints(0, 1)), wanted(FLOAT32))
