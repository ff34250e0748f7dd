from itertools import product

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
ORDERED = tuple(kind for kind in ELEMENTS if kind.dtype.kind != "c")
STARTS = [[[0, 2], [1, 0], [2, 1]], [[0, 1], [1, 0], [-9, 9]]]


@sweep("kind", ELEMENTS)
@sweep("index", [INT32, INT64])
def test_gathered_slices(kind: OperandType, index: OperandType) -> None:
    """Gathers slices of two rows of the last two axes; indexes name the second axis first."""
    source = counted(kind, 3, 4, 2)
    numbers = ints(2, 3), ints(0), ints(1, 0), *scalars(2), ints(1, 2, 2)
    got = evaluate(
        OperationType.TFLITE_STABLEHLO_GATHER, (source, given(index, STARTS), *numbers), wanted(kind)
    )
    for position in product(range(2), range(3)):
        second, first = np.clip(np.array(STARTS)[position], 0, [2, 2])
        np.testing.assert_array_equal(got[position], value(source)[first, second : second + 2])


def test_gathered_rows() -> None:
    source = counted(FLOAT32, 5, 4)
    numbers = ints(1), ints(0), ints(0), *scalars(1), ints(1, 4)
    got = evaluate(OperationType.TFLITE_STABLEHLO_GATHER, (source, ints(3, 0, 3), *numbers), wanted(FLOAT32))
    np.testing.assert_array_equal(got, value(source)[[3, 0, 3]])


@sweep(
    ("numbers", "message"),
    [
        ((ints(1), ints(0), ints(0), *scalars(1), ints(2, 4)), "where sizes"),
        ((ints(1), ints(0), ints(0), *scalars(1), ints(1, 5)), "slices of input"),
        ((ints(5), ints(0), ints(0), *scalars(1), ints(1, 4)), "different axes"),
        ((ints(1), ints(0), ints(0, 0), *scalars(1), ints(1, 4)), "different axes"),
        ((ints(1), ints(0), ints(0, 1), *scalars(1), ints(1, 4)), "length 2 is expected"),
        ((ints(1), ints(0), ints(0), *scalars(2), ints(1, 4)), "from 0 to 1"),
    ],
)
def test_refuses_dimension_numbers(numbers: tuple[Given, ...], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(
            OperationType.TFLITE_STABLEHLO_GATHER,
            (counted(FLOAT32, 5, 4), ints(3, 0), *numbers),
            wanted(FLOAT32),
        )


@sweep("kind", ORDERED)
@sweep("update", range(5))
def test_scattered_slices(kind: OperandType, update: int) -> None:
    """Elements outside of the input are dropped, one by one."""
    source, updates = counted(kind, 3, 4, 2), counted(kind, 2, 3, 2, 2)
    numbers = ints(2, 3), ints(0), ints(1, 0), *scalars(2, update)
    inputs = source, given(INT64, STARTS), updates, *numbers
    got = evaluate(OperationType.TFLITE_STABLEHLO_SCATTER, inputs, wanted(kind))
    expected, functions = value(source).copy(), (None, np.add, np.multiply, np.minimum, np.maximum)
    for batch, position, row, column in product(range(2), range(3), range(2), range(2)):
        second, first = STARTS[batch][position]
        where, element = (first, second + row, column), value(updates)[batch, position, row, column]
        if 0 <= where[0] < 3 and 0 <= where[1] < 4:
            function = functions[update]
            with np.errstate(over="ignore"):
                expected[where] = element if function is None else function(expected[where], element)
    np.testing.assert_array_equal(got, expected)


def test_updates_must_fit() -> None:
    numbers = ints(1), ints(0), ints(0), *scalars(1)
    source, indices = counted(FLOAT32, 5, 4), given(INT32, [[3], [0]])
    for updates in (counted(FLOAT32, 2, 5), counted(FLOAT32, 3, 4)):
        with pytest.raises(BadData, match="does not go with input"):
            evaluate(
                OperationType.TFLITE_STABLEHLO_SCATTER,
                (source, indices, updates, *numbers, *scalars(1)),
                wanted(FLOAT32),
            )
    with pytest.raises(BadData, match="from 0 to 4"):
        evaluate(
            OperationType.TFLITE_STABLEHLO_SCATTER,
            (source, indices, counted(FLOAT32, 2, 4), *numbers, *scalars(5)),
            wanted(FLOAT32),
        )
