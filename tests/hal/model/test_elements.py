"""Tests of the views of values as arrays and of arrays as elements."""

import numpy as np
import pytest

from neurald.hal.errors import BadData
from neurald.hal.model.elements import (
    array_to_store,
    as_elements,
    first_elements,
    stored_array,
)
from neurald.hal.model.types import OperandType, add_operand_type

_PAIRS_TYPE = 0x7101_0003


def test_numbers_are_viewed_and_bools_are_copied() -> None:
    stored = bytearray([0, 1, 2, 0])
    numbers = stored_array(memoryview(stored), OperandType.TENSOR_QUANT8_ASYMM, (2, 2))
    bools = stored_array(memoryview(stored), OperandType.TENSOR_BOOL8, (4,))
    stored[0] = 7
    assert numbers.tolist() == [[7, 1], [2, 0]]
    assert bools.tolist() == [False, True, True, False]


def test_strings_survive_storing() -> None:
    texts = np.array([[b"a", b""], [b"bcd", b"\xff\0"]], object)
    buffer = array_to_store(texts, OperandType.TENSOR_STRING)
    found = stored_array(memoryview(buffer.tobytes()), OperandType.TENSOR_STRING, (2, 2))
    assert found.tolist() == texts.tolist()
    with pytest.raises(BadData, match="string"):
        stored_array(memoryview(buffer.tobytes()), OperandType.TENSOR_STRING, (2, 3))


def test_data_to_store_is_contiguous() -> None:
    turned = np.arange(6, dtype=np.int32).reshape(2, 3).T
    stored = array_to_store(turned, OperandType.TENSOR_INT32)
    assert stored.flags.c_contiguous
    assert np.array_equal(stored, turned)


def test_the_first_elements_keep_a_large_array_alive_only_if_they_are_most_of_it() -> None:
    array = np.arange(100)
    assert np.shares_memory(first_elements(array, (10, 5)), array)
    assert not np.shares_memory(first_elements(array, (7, 7)), array)
    assert first_elements(array, (2, 2)).tolist() == [[0, 1], [2, 3]]


def test_elements_of_vendors_are_viewed_raw() -> None:
    add_operand_type(_PAIRS_TYPE, "TEST_PAIRS", 4, is_tensor=True)
    pairs = OperandType(_PAIRS_TYPE)
    array = np.arange(4, dtype=np.int32)
    assert as_elements(array, pairs).dtype == "V4"
    assert as_elements(array[::2], pairs).dtype == array.dtype
    assert as_elements(array, OperandType.TENSOR_INT32) is array
