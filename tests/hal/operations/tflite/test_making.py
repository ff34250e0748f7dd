import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate, evaluate_all, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
BOOL8 = OperandType.TENSOR_BOOL8
ORDERED = tuple(kind for kind in ELEMENTS if kind is not OperandType.TENSOR_COMPLEX64)


def counted(operand_type: OperandType, *shape: int) -> Given:
    return given(operand_type, np.arange(np.prod(shape, dtype=int)).reshape(shape) % 100, 0.5)


@sweep("kind", ELEMENTS)
def test_padded_tiled_and_filled(kind: OperandType) -> None:
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
    got = evaluate(OperationType.TFLITE_TILE, (source, given(INT64, [2, 0])), output)
    assert got.shape == (6, 0)
    got = evaluate(OperationType.TFLITE_BROADCAST_TO, (source, given(INT64, [4, 3, 2])), output)
    np.testing.assert_array_equal(got, np.broadcast_to(x, (4, 3, 2)))
    got = evaluate(OperationType.TFLITE_DILATE, (source, ints(2, 3), given(kind, 1, 0.5)), output)
    expected = np.full((5, 4), 1, x.dtype)
    expected[::2, ::3] = x
    np.testing.assert_array_equal(got, expected)
    got = evaluate(OperationType.TFLITE_FILL, (ints(2, 0, 1), given(kind, 1, 0.5)), output)
    assert got.shape == (2, 0, 1)
    got = evaluate(OperationType.TFLITE_FILL, (ints(2), given(kind, 1, 0.5)), output)
    assert got.tolist() == [1, 1]
    assert not evaluate(OperationType.TFLITE_ZEROS_LIKE, (source,), output).any()


@sweep(
    ("operation", "inputs", "message"),
    [
        (OperationType.TFLITE_PADV2, (ints(-1, 0), counted(FLOAT32, 1)), "paddings"),
        (OperationType.TFLITE_PADV2, (given(INT32, [[0, 0]]), counted(FLOAT32, 2)), "exactly one"),
        (OperationType.TFLITE_BROADCAST_TO, (ints(2, 2),), "cannot be broadcast"),
        (OperationType.TFLITE_BROADCAST_TO, (ints(-3),), "negative"),
        (OperationType.TFLITE_DILATE, (ints(0), counted(FLOAT32, 1)), "at least 1"),
    ],
)
def test_what_is_refused(operation: OperationType, inputs: tuple[Given, ...], message: str) -> None:
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


@sweep("kind", [INT32, INT64, FLOAT32])
@sweep("numbers", [(1, 12, 3), (10, 1, -2), (5, 5, 1), (-3, 4, 7)])
def test_range(kind: OperandType, numbers: tuple[int, int, int]) -> None:
    got = evaluate(OperationType.TFLITE_RANGE, [given(kind, number) for number in numbers], wanted(kind))
    assert got.tolist() == list(range(*numbers))


def test_range_of_reals_adds_up() -> None:
    numbers = [given(FLOAT32, number) for number in (0.1, 100.03, 0.1)]
    got = evaluate(OperationType.TFLITE_RANGE, numbers, wanted(FLOAT32))
    value, expected = np.float32(0.1), []
    for _ in range(1000):
        expected.append(value)
        value += np.float32(0.1)
    np.testing.assert_array_equal(got[:1000], np.array(expected, np.float32))


@sweep("kind", [INT32, FLOAT32])
@sweep("numbers", [(1, 2, 0), (2, 1, 1), (1, 2, -1)])
def test_ranges_that_lead_nowhere(kind: OperandType, numbers: tuple[int, int, int]) -> None:
    with pytest.raises(BadData, match="leads nowhere"):
        evaluate(OperationType.TFLITE_RANGE, [given(kind, number) for number in numbers], wanted(kind))


def test_a_range_without_end() -> None:
    numbers = [given(FLOAT32, number) for number in (0, np.inf, 1)]
    with pytest.raises(BadData, match="inf elements"):
        evaluate(OperationType.TFLITE_RANGE, numbers, wanted(FLOAT32))


@sweep("kind", ELEMENTS)
def test_diagonals(kind: OperandType) -> None:
    source = counted(kind, 2, 3)
    x = source.value
    assert x is not None
    got = evaluate(OperationType.TFLITE_MATRIX_DIAG, (source,), wanted(kind))
    np.testing.assert_array_equal(got, np.stack([np.diag(row) for row in x]))
    matrix = counted(kind, 2, 3, 4)
    got = evaluate(OperationType.TFLITE_MATRIX_SET_DIAG, (matrix, source), wanted(kind))
    assert matrix.value is not None
    expected = matrix.value.copy()
    expected[:, range(3), range(3)] = x
    np.testing.assert_array_equal(got, expected)
    with pytest.raises(BadData, match=r"\[2, 3\] is expected"):
        evaluate(OperationType.TFLITE_MATRIX_SET_DIAG, (matrix, counted(kind, 2, 4)), wanted(kind))


@sweep("kind", ORDERED)
def test_where_elements_are(kind: OperandType) -> None:
    x = np.random.default_rng(2).integers(0, 4, (3, 9)).astype(kind.dtype)
    source = given(kind, x, 0.5)
    for index in (INT32, INT64):
        got = evaluate(OperationType.TFLITE_ARG_MAX, (source, given(INT64, -1)), wanted(index))
        np.testing.assert_array_equal(got, x.argmax(-1))
        got = evaluate(OperationType.TFLITE_ARG_MIN, (source, ints(0)), wanted(index))
        np.testing.assert_array_equal(got, x.argmin(0))
        values, places = evaluate_all(
            OperationType.TFLITE_UNIQUE, (given(kind, x[0], 0.5),), wanted(kind), wanted(index)
        )
        assert values.tolist() == list(dict.fromkeys(x[0].tolist()))
        np.testing.assert_array_equal(values[places], x[0])
    got = evaluate(OperationType.TFLITE_WHERE, (source,), wanted(INT64))
    np.testing.assert_array_equal(got, np.argwhere(x))
    for index in (INT32, OperandType.TENSOR_QUANT16_SYMM):
        values, places = evaluate_all(
            OperationType.TFLITE_TOPK_V2, (source, given(INT32, 4)), wanted(kind), wanted(index, 1.0)
        )
        order = [sorted(range(9), key=lambda place: (-int(row[place]), place))[:4] for row in x]
        np.testing.assert_array_equal(places, order)
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
