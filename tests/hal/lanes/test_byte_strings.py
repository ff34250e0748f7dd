"""Byte strings behind their lengths."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neurald.hal.errors import BadData
from neurald.hal.lanes.byte_strings import decode_byte_strings, encode_byte_strings


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_strings_are_the_same_after_encoding(values: list[bytes]) -> None:
    array = np.empty(len(values), object)
    array[:] = values
    content = encode_byte_strings(array)
    assert decode_byte_strings(memoryview(content), (len(values),)).tolist() == values


@given(st.binary(max_size=40), st.integers(0, 6))
def test_any_bytes_are_strings_or_refused(content: bytes, count: int) -> None:
    try:
        strings = decode_byte_strings(memoryview(content), (count,))
    except BadData:
        return
    assert encode_byte_strings(strings) == content


def test_lengths_beyond_the_end_are_refused() -> None:
    data = struct.pack("<I", 2**32 - 1) + b"abc"
    with pytest.raises(
        BadData, match="incomplete string data for x, expecting string of length 4294967295 but only 3"
    ):
        decode_byte_strings(memoryview(data), (1,), " for x")
    with pytest.raises(BadData, match="length indicator, expecting 4 bytes but only 3 bytes available"):
        decode_byte_strings(memoryview(b"abc"), (2**40,))
    for count in (2, 2**62):
        with pytest.raises(BadData, match=f"expected {count} string elements for x, got 1"):
            decode_byte_strings(memoryview(bytes(4)), (count,), " for x")
    for count in range(3):
        with pytest.raises(BadData, match=f"number of string elements {count + 1}, expecting {count}"):
            decode_byte_strings(memoryview(bytes(4000)), (count,))
