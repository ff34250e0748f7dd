import numpy as np
import pytest
from support.operations.single_operation import (
    counted,
    evaluate,
    evaluate_all,
    given,
    ints,
    scalars,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
BOOL8 = OperandType.TENSOR_BOOL8
ORDERED = tuple(kind for kind in ELEMENTS if kind.dtype.kind != "c")


@sweep("kind", ORDERED)
def test_positions_of_elements(kind: OperandType) -> None:
    x = np.random.default_rng(2).integers(0, 4, (3, 9)).astype(kind.dtype)
    source = given(kind, x, 0.5)
    for index in (INT32, INT64):
        got = evaluate(OperationType.TFLITE_ARG_MAX, (source, given(INT64, -1)), wanted(index))
        np.testing.assert_array_equal(got, x.argmax(-1))
        got = evaluate(OperationType.TFLITE_ARG_MIN, (source, ints(0)), wanted(index))
        np.testing.assert_array_equal(got, x.argmin(0))
        values, positions = evaluate_all(
            OperationType.TFLITE_UNIQUE, (given(kind, x[0], 0.5),), wanted(kind), wanted(index)
        )
        assert values.tolist() == list(dict.fromkeys(x[0].tolist()))
        np.testing.assert_array_equal(values[positions], x[0])
    got = evaluate(OperationType.TFLITE_WHERE, (source,), wanted(INT64))
    np.testing.assert_array_equal(got, np.argwhere(x))
    for index in (INT32, OperandType.TENSOR_QUANT16_SYMM):
        values, positions = evaluate_all(
            OperationType.TFLITE_TOPK_V2, (source, given(INT32, 4)), wanted(kind), wanted(index, 1.0)
        )
        order = [sorted(range(9), key=lambda position: (-int(row[position]), position))[:4] for row in x]
        np.testing.assert_array_equal(positions, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, np.array(order), -1))


def test_arg_max_of_a_vector_is_a_scalar() -> None:
    got = evaluate(OperationType.TFLITE_ARG_MAX, (counted(FLOAT32, 5), *scalars(0)), wanted(INT32))
    assert got.shape == ()
    assert got == 4
    with pytest.raises(BadData, match="no elements"):
        evaluate(OperationType.TFLITE_ARG_MAX, (counted(FLOAT32, 0), *scalars(0)), wanted(INT32))


def test_where_of_a_scalar() -> None:
    got = evaluate(OperationType.TFLITE_WHERE, (given(BOOL8, True),), wanted(INT64))
    assert got.shape == (1, 0)
