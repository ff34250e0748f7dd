import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import (
    counted,
    evaluate,
    evaluate_all,
    given,
    ints,
    omitted,
    scalars,
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
    got = evaluate(OperationType.TFLITE_EXPAND_DIMS, (source, given(INT64, [-2])), output)
    np.testing.assert_array_equal(got, x[..., np.newaxis, :])
    got = evaluate(OperationType.TFLITE_TRANSPOSE, (source, ints(4, 0, 2, 1, 3)), output)
    np.testing.assert_array_equal(got, x.transpose(4, 0, 2, 1, 3))
    got = evaluate(OperationType.TFLITE_CONCATENATION, (source, source, *scalars(3)), wanted(kind, 0.5))
    np.testing.assert_array_equal(got, np.concatenate((x, x), 3))
    got = evaluate(OperationType.TFLITE_PACK, (*scalars(5), source, source), output)
    np.testing.assert_array_equal(got, np.stack((x, x), 5))
    got = evaluate(OperationType.TFLITE_SQUEEZE, (source, ints(-3)), output)
    np.testing.assert_array_equal(got, x[:, :, 0])
    for part, expected in zip(
        evaluate_all(OperationType.TFLITE_UNPACK, (source, *scalars(-1)), output, output),
        (x[..., 0], x[..., 1]),
        strict=True,
    ):
        np.testing.assert_array_equal(part, expected)


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


def test_values_of_another_scale_are_copied() -> None:
    kind = OperandType.TENSOR_QUANT16_SYMM
    one, other = given(kind, [1, 2], 0.5), given(kind, [3], 0.25)
    got = evaluate(OperationType.TFLITE_CONCATENATION, (one, other, *scalars(0)), wanted(kind, 2.0))
    assert got.tolist() == [1, 2, 3]


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
