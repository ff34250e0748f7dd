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


@pytest.mark.parametrize("count", [63, 64, 100, 16384, 16385])
@pytest.mark.parametrize("lengths", [(0,), (1,), (3,), (255,), (256,), (0, 1), (3, 0, 9), (7, 7, 7, 8)])
def test_many_strings_of_one_length_and_of_several(count: int, lengths: tuple[int, ...]) -> None:
    values = [bytes([n % 256]) * lengths[n % len(lengths)] for n in range(count)]
    array = np.empty((1, count), object)
    array[0] = values
    content = encode_byte_strings(array)
    assert content == b"".join(struct.pack("<I", len(each)) + each for each in values)
    found = decode_byte_strings(memoryview(content), (count, 1))
    assert found.shape == (count, 1)
    assert found[:, 0].tolist() == values
    assert {type(each) for each in found[:, 0]} == {bytes}
    with pytest.raises(BadData, match=f"expected {count + 1} string elements, got {count}"):
        decode_byte_strings(memoryview(content), (count + 1,))
    damaged = bytearray(content)
    damaged[-1 - lengths[(count - 1) % len(lengths)]] ^= 1  # the length of the last one
    with pytest.raises(BadData):
        decode_byte_strings(memoryview(damaged), (count,))


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
