from typing import Any

import numpy as np
import pytest
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate,
    evaluate_all,
    given,
    ints,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import UnknownValue
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS

IMPORT, FIND = OperationType.TFLITE_HASHTABLE_IMPORT, OperationType.TFLITE_HASHTABLE_FIND
SIZE, LOOKUP = OperationType.TFLITE_HASHTABLE_SIZE, OperationType.TFLITE_HASHTABLE_LOOKUP
BOOL8, UINT8 = OperandType.TENSOR_BOOL8, OperandType.TENSOR_QUANT8_ASYMM
INT64, STRING = OperandType.TENSOR_INT64, OperandType.TENSOR_STRING

NUMBERS, WORDS = [-5, 2**40, 7], [b"a", b"", b"a\0"]


def table(
    keys: OperandType, names: list[Any], values: list[Any], *, filled: bool = True
) -> tuple[Given, ...]:
    other = STRING if keys is INT64 else INT64
    return given(keys, names), given(other, values), given(BOOL8, filled)


@sweep(
    ("kind", "keys", "values"), [(INT64, NUMBERS, WORDS), (STRING, WORDS, NUMBERS)], ids=["INT64", "STRING"]
)
def test_imported_keys_are_found(kind: OperandType, keys: list[Any], values: list[Any]) -> None:
    other = STRING if kind is INT64 else INT64
    again = [*keys, keys[0]], [*values, values[1]]
    pairs = given(kind, np.array(again[0], object).reshape(2, 2)), given(other, np.reshape(again[1], (2, 2)))
    if other is STRING:
        pairs = pairs[0], given(STRING, np.array(again[1], object).reshape(2, 2))
    outputs = wanted(kind), wanted(other), wanted(BOOL8)
    filled = evaluate_all(IMPORT, (*table(kind, [], [], filled=False), *pairs), *outputs)
    assert [part.tolist() for part in filled] == [keys, values, True]
    again_filled = evaluate_all(
        IMPORT,
        (
            *table(kind, filled[0].tolist(), filled[1].tolist()),
            given(kind, keys[:1]),
            given(other, values[1:2]),
        ),
        *outputs,
    )
    assert [part.tolist() for part in again_filled] == [keys, values, True]
    missing = 0 if kind is INT64 else b"missing"
    query = given(kind, np.array([keys[2], missing, missing, keys[0]], object).reshape(2, 2))
    default = given(other, values[1:])
    found = evaluate(FIND, (*table(kind, keys, values), query, default), wanted(other))
    assert found.tolist() == [[values[2], values[1]], [values[1], values[0]]]
    assert evaluate(SIZE, (given(kind, keys),), wanted(INT64)).tolist() == [3]


def test_an_empty_import_fills_the_table() -> None:
    nothing = given(INT64, []), given(STRING, [])
    outputs = wanted(INT64), wanted(STRING), wanted(BOOL8)
    result = evaluate_all(IMPORT, (*table(INT64, [], [], filled=False), *nothing), *outputs)
    assert [part.tolist() for part in result] == [[], [], True]
    pair = given(INT64, [1]), given(STRING, [b"x"])
    result = evaluate_all(IMPORT, (*table(INT64, [], []), *pair), *outputs)
    assert [part.tolist() for part in result] == [[], [], True]
    scalar = given(INT64, 1), given(STRING, b"x\0")
    result = evaluate_all(IMPORT, (*table(INT64, [], [], filled=False), *scalar), *outputs)
    assert [part.tolist() for part in result] == [[1], [b"x\0"], True]


def test_refusals() -> None:
    outputs = wanted(INT64), wanted(STRING), wanted(BOOL8)
    one, word, query = given(INT64, [1]), given(STRING, [b"x"]), given(INT64, [1, 2])
    with pytest.raises(BadData, match=r"has shape \[1\]; that of keys, \[2\]"):
        evaluate_all(IMPORT, (*table(INT64, [], [], filled=False), query, word), *outputs)
    with pytest.raises(BadData, match="that of table_keys"):
        evaluate_all(IMPORT, (*table(INT64, [1], []), one, word), *outputs)
    with pytest.raises(BadData, match="nothing has been imported"):
        evaluate(FIND, (*table(INT64, [], [], filled=False), query, word), wanted(STRING))
    with pytest.raises(BadData, match="at least one element is expected"):
        evaluate(FIND, (*table(INT64, [1], [b"x"]), query, given(STRING, [])), wanted(STRING))
    with pytest.raises(BadData, match="that of table_keys"):
        evaluate(FIND, (*table(INT64, [1], []), query, word), wanted(STRING))
    with pytest.raises(BadData, match="expected with the types of the other operands"):
        evaluate(FIND, (given(INT64, [1]), given(INT64, [1]), given(BOOL8, True), query, one), wanted(INT64))


def test_unknown_shapes() -> None:
    empty = table(INT64, [], [], filled=False)
    pairs = given(INT64, [1]), given(STRING, [b"x"])
    outputs = wanted(INT64), wanted(STRING), wanted(BOOL8)
    for position in range(5):
        inputs = [*empty, *pairs]
        inputs[position] = unknown(inputs[position])
        call = call_of(IMPORT, inputs, *outputs)
        DEFINITIONS[IMPORT].check(call)
        if position != 0 and position != 1:
            with pytest.raises(UnknownValue):
                DEFINITIONS[IMPORT].shape(call)
    inputs = [*(unknown(part) for part in table(INT64, [1], [b"x"])), given(INT64, [[1, 2]]), pairs[1]]
    assert DEFINITIONS[FIND].shape(call_of(FIND, inputs, wanted(STRING))) == ((1, 2),)
    assert DEFINITIONS[SIZE].shape(call_of(SIZE, [unknown(pairs[0])], wanted(INT64))) == ((1,),)


@sweep("kind", [*ELEMENTS, STRING], ids=lambda kind: kind.name)
def test_lookup(kind: OperandType) -> None:
    words = np.array([b"one", b"three\0", b"five"], object)
    values = words if kind is STRING else np.array([0, 1, 1])
    scale = 0.5 if "QUANT" in kind.name else 0.0
    inputs = ints(3, 4, 1, 3), ints(1, 3, 5), given(kind, values, scale)
    found, hits = evaluate_all(LOOKUP, inputs, wanted(kind, scale), wanted(UINT8, 1.0))
    assert hits.tolist() == [1, 0, 1, 1]
    missing = b"" if kind is STRING else 0
    assert found.tolist() == [values[1], missing, values[0], values[1]]


def test_lookup_of_rows() -> None:
    values = given(STRING, np.array([[b"a", b"b"], [b"c", b"d"]], object))
    found, hits = evaluate_all(LOOKUP, (ints(9, 2), ints(1, 2), values), wanted(STRING), wanted(UINT8, 1.0))
    assert found.tolist() == [[b"", b""], [b"c", b"d"]]
    assert hits.tolist() == [0, 1]
