import tracemalloc

import numpy as np
import pytest
from support.operations.single_operation import counted, evaluate, given, ints, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

FLOAT32, INT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_INT64


@sweep("kind", ELEMENTS)
def test_fill_and_zeros_like(kind: OperandType) -> None:
    source, output = counted(kind, 3, 2), wanted(kind)
    got = evaluate(OperationType.TFLITE_FILL, (ints(2, 0, 1), given(kind, 1, 0.5)), output)
    assert got.shape == (2, 0, 1)
    got = evaluate(OperationType.TFLITE_FILL, (ints(2), given(kind, 1, 0.5)), output)
    assert got.tolist() == [1, 1]
    assert not evaluate(OperationType.TFLITE_ZEROS_LIKE, (source,), output).any()


@sweep("kind", [INT32, INT64, FLOAT32])
@sweep("numbers", [(1, 12, 3), (10, 1, -2), (5, 5, 1), (-3, 4, 7)])
def test_range(kind: OperandType, numbers: tuple[int, int, int]) -> None:
    got = evaluate(OperationType.TFLITE_RANGE, [given(kind, number) for number in numbers], wanted(kind))
    assert got.tolist() == list(range(*numbers))


def test_a_range_of_floats_accumulates_rounding_errors() -> None:
    numbers = [given(FLOAT32, number) for number in (0.1, 100.03, 0.1)]
    got = evaluate(OperationType.TFLITE_RANGE, numbers, wanted(FLOAT32))
    value, expected = np.float32(0.1), []
    for _ in range(1000):
        expected.append(value)
        value += np.float32(0.1)
    np.testing.assert_array_equal(got[:1000], np.array(expected, np.float32))


def test_a_long_range_takes_the_memory_of_its_elements() -> None:
    count = 1 << 20
    inputs = [given(FLOAT32, number) for number in (0, count, 1)]
    tracemalloc.start()
    try:
        got = evaluate(OperationType.TFLITE_RANGE, inputs, wanted(FLOAT32))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(got, np.arange(count, dtype=np.float32))
    assert most < 1.5 * got.nbytes


@sweep("kind", [INT32, FLOAT32])
@sweep("numbers", [(1, 2, 0), (2, 1, 1), (1, 2, -1)])
def test_a_step_in_the_wrong_direction(kind: OperandType, numbers: tuple[int, int, int]) -> None:
    with pytest.raises(BadData, match="a step that leads from"):
        evaluate(OperationType.TFLITE_RANGE, [given(kind, number) for number in numbers], wanted(kind))


def test_an_infinite_range() -> None:
    numbers = [given(FLOAT32, number) for number in (0, np.inf, 1)]
    with pytest.raises(BadData, match="inf elements"):
        evaluate(OperationType.TFLITE_RANGE, numbers, wanted(FLOAT32))
