import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import Given, counted, evaluate, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64


@sweep("kind", ELEMENTS)
def test_pads(kind: OperandType) -> None:
    source, output = counted(kind, 3, 2), wanted(kind)
    x = source.value
    assert x is not None
    pairs = given(INT64, [[1, 0], [2, 1]])
    got = evaluate(OperationType.TFLITE_PAD, (source, pairs), output)
    np.testing.assert_array_equal(got, np.pad(x, ((1, 0), (2, 1))))
    got = evaluate(OperationType.TFLITE_PADV2, (source, pairs, given(kind, [1], 0.5)), output)
    np.testing.assert_array_equal(got, np.pad(x, ((1, 0), (2, 1)), constant_values=1))
    mirrored = given(INT64, [[1, 2], [1, 0]])
    got = evaluate(OperationType.TFLITE_MIRROR_PAD, (source, mirrored, *scalars(0)), output)
    np.testing.assert_array_equal(got, np.pad(x, ((1, 2), (1, 0)), mode="reflect"))
    got = evaluate(OperationType.TFLITE_DILATE, (source, ints(2, 3), given(kind, 1, 0.5)), output)
    expected = np.full((5, 4), 1, x.dtype)
    expected[::2, ::3] = x
    np.testing.assert_array_equal(got, expected)


@sweep(
    ("operation", "inputs", "message"),
    [
        (OperationType.TFLITE_PADV2, (ints(-1, 0), counted(FLOAT32, 1)), "paddings"),
        (OperationType.TFLITE_PADV2, (given(INT32, [[0, 0]]), counted(FLOAT32, 2)), "exactly one"),
        (OperationType.TFLITE_DILATE, (ints(0), counted(FLOAT32, 1)), "at least 1"),
    ],
)
def test_invalid_paddings_are_refused(
    operation: OperationType, inputs: tuple[Given, ...], message: str
) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(operation, (counted(FLOAT32, 3), *inputs), wanted(FLOAT32))


@sweep("kind", ELEMENTS)
def test_interior_padding_and_cropping(kind: OperandType) -> None:
    source, edge = counted(kind, 3, 4), given(kind, 1, 0.5)
    lists = ints(-1, 2), ints(1, -3), ints(2, 1)
    got = evaluate(OperationType.TFLITE_STABLEHLO_PAD, (source, edge, *lists), wanted(kind))
    spread = np.ones((8, 9), got.dtype)
    spread[0:7:3, 2::2] = value(source)
    np.testing.assert_array_equal(got, spread[1:, :6])
    for between, message in ((ints(-1, 0), "negative"), (ints(0, 0), "would have shape")):
        lists = ints(-9, 0), ints(0, 0), between
        with pytest.raises(BadData, match=message):
            evaluate(OperationType.TFLITE_STABLEHLO_PAD, (source, edge, *lists), wanted(kind))


def test_huge_paddings_are_refused() -> None:
    lists = given(INT64, [0]), given(INT64, [-(2**62)]), given(INT64, [2**62])
    with pytest.raises(BadData, match="larger than any operand"):
        evaluate(
            OperationType.TFLITE_STABLEHLO_PAD,
            (counted(FLOAT32, 2), given(FLOAT32, 0), *lists),
            wanted(FLOAT32),
        )
