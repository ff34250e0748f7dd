"""Operations that accept strings as well as numbers."""

from typing import Any

import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate, given, ints, omitted, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType as Op
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS

STRING, INT32, BOOL8 = OperandType.TENSOR_STRING, OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8

WORDS = np.array([[b"ab", b""], [b"xyz\0q\0", b"\xff"]], object)
SOURCE = given(STRING, WORDS)
LINE = given(STRING, WORDS.reshape(4))
NO_MASKS = scalars(0, 0, 0, 0)


@sweep(
    ("operation", "inputs", "expected"),
    [
        (Op.TFLITE_RESHAPE, (SOURCE, ints(4, -1)), WORDS.reshape(4, 1)),
        (Op.TFLITE_EXPAND_DIMS, (SOURCE, *scalars(-1)), WORDS[:, :, np.newaxis]),
        (Op.TFLITE_SQUEEZE, (given(STRING, WORDS[:1, :1]), omitted(INT32)), WORDS[0, 0]),
        (Op.TFLITE_GATHER, (LINE, *scalars(0), ints(2, 0, 2)), WORDS.reshape(4)[[2, 0, 2]]),
        (Op.TFLITE_GATHER, (LINE, *scalars(-1), given(INT32, 2)), WORDS[1, 0]),
        (Op.TFLITE_GATHER, (SOURCE, *scalars(1), given(INT32, [[1], [0]]), *scalars(1)), WORDS[[0, 1], [1, 0], None]),
        (Op.TFLITE_GATHER_ND, (SOURCE, given(INT32, [[1, 0], [0, 1]])), WORDS[[1, 0], [0, 1]]),
        (Op.TFLITE_GATHER_ND, (SOURCE, ints(1, 0)), WORDS[1, 0]),
        (Op.TFLITE_GATHER_ND, (SOURCE, ints(1)), WORDS[1]),
        (Op.TFLITE_SLICE, (SOURCE, ints(0, 1), ints(-1, 1)), WORDS[:, 1:]),
        (Op.TFLITE_STRIDED_SLICE, (LINE, ints(3), ints(0), ints(-2), *NO_MASKS, *scalars(0, False)), WORDS.reshape(4)[3:0:-2]),
        (Op.TFLITE_STRIDED_SLICE, (LINE, ints(2), ints(3), ints(1), *NO_MASKS, *scalars(1, False)), WORDS[1, 0]),
        (Op.TFLITE_TILE, (SOURCE, ints(2, 2)), np.tile(WORDS, (2, 2))),
        (Op.TFLITE_TILE, (SOURCE, ints(0, 1)), WORDS[:0]),
        (Op.TFLITE_FILL, (ints(2, 1), given(STRING, b"a\0")), np.array([[b"a\0"]] * 2, object)),
    ],
)  # fmt: skip
def test_elements_are_moved(operation: Op, inputs: tuple[Given, ...], expected: Any) -> None:
    found = evaluate(operation, inputs, wanted(STRING))
    assert found.shape == np.asarray(expected, object).shape
    assert found.tolist() == np.asarray(expected, object).tolist()


def test_shapes() -> None:
    assert evaluate(Op.TFLITE_SHAPE, (SOURCE,), wanted(INT32)).tolist() == [2, 2]
    assert evaluate(Op.TFLITE_RANK, (SOURCE,), wanted(INT32)).tolist() == 2


@sweep(("operation", "same"), [(Op.TFLITE_EQUAL, True), (Op.TFLITE_NOT_EQUAL, False)])
def test_strings_are_compared_byte_by_byte(operation: Op, same: bool) -> None:
    found = evaluate(operation, (SOURCE, given(STRING, WORDS[1])), wanted(BOOL8))
    assert (found == same).tolist() == [[False, False], [True, True]]
    other = given(STRING, np.array([[b"xyz\0q"]], object))
    assert (evaluate(operation, (SOURCE, other), wanted(BOOL8)) == same).tolist() == [[False] * 2] * 2


@sweep(
    "operation",
    [
        Op.TFLITE_LESS,
        Op.TFLITE_SELECT_V2,
        Op.TFLITE_CONCATENATION,
        Op.TFLITE_PACK,
        Op.TFLITE_UNPACK,
        Op.TFLITE_TRANSPOSE,
        Op.TFLITE_SPLIT,
        Op.TFLITE_BROADCAST_TO,
        Op.TFLITE_REVERSE_V2,
        Op.TFLITE_ZEROS_LIKE,
        Op.TFLITE_UNIQUE,
    ],
)
def test_other_operations_refuse_strings(operation: Op) -> None:
    assert not any(STRING in row.types.values() for row in DEFINITIONS[operation].rows)


def test_an_index_out_of_range_is_refused() -> None:
    with pytest.raises(BadData, match="from 0 to 3"):
        evaluate(Op.TFLITE_GATHER, (LINE, *scalars(0), ints(4)), wanted(STRING))
