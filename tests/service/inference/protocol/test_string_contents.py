"""Elements of string tensors, taken from messages."""

import struct

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from neurald.service.inference.protocol.messages import ModelInferRequest
from neurald.service.inference.protocol.string_contents import taken_strings

LIMIT = 1 << 18


def tensor_of(strings: list[bytes]) -> bytes:
    tensor = ModelInferRequest().inputs.add(name="x", datatype="BYTES", shape=[len(strings)])
    tensor.parameters["a"].int64_param = 1
    tensor.contents.bytes_contents.extend(strings)
    encoded: bytes = tensor.SerializeToString()
    return encoded


RUNS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 200)), min_size=1, max_size=6)


@given(RUNS)
def test_elements_are_those_that_protobuf_finds(runs: list[tuple[int, int]]) -> None:
    strings = [bytes([count % 256]) * length for length, count in runs for _ in range(count)]
    taken = taken_strings(memoryview(tensor_of(strings)), LIMIT)
    assert taken is not None
    rest, found = taken
    assert found.number == len(strings)
    assert found.content == b"".join(struct.pack("<I", len(each)) + each for each in strings)
    message = type(ModelInferRequest().inputs.add()).FromString(rest)
    assert (message.name, list(message.shape), message.HasField("contents")) == ("x", [len(strings)], True)
    assert (len(message.contents.bytes_contents), message.parameters["a"].int64_param) == (0, 1)


@pytest.mark.parametrize("count", [65_536 + 8, 65_536 * 3 + 9, 400_000])
def test_strings_of_one_length_count_once(count: int) -> None:
    strings = [b"ab"] * count
    taken = taken_strings(memoryview(tensor_of(strings)), 20)
    assert taken is not None
    assert taken[1] == ((struct.pack("<I", 2) + b"ab") * count, count)
    mixed = [b"ab", b"c"] * 11
    assert taken_strings(memoryview(tensor_of(mixed)), 22) is not None
    assert taken_strings(memoryview(tensor_of(mixed)), 21) is None


CHANGES = st.lists(st.tuples(st.integers(0, 59), st.integers(0, 255)), max_size=3)


@given(st.binary(max_size=60) | st.builds(tensor_of, st.lists(st.binary(max_size=9), max_size=4)), CHANGES)
def test_messages_mean_what_protobuf_finds_in_them(content: bytes, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(content)
    for place, value in changes:
        damaged[place : place + 1] = (value,)
    taken = taken_strings(memoryview(damaged), LIMIT)
    if taken is None:
        return
    rest, found = taken
    message = type(ModelInferRequest().inputs.add())
    try:
        strings = list(message.FromString(bytes(damaged)).contents.bytes_contents)
    except DecodeError:
        with pytest.raises(DecodeError):
            message.FromString(rest)
        return
    assert found.number == len(strings)
    assert found.content == b"".join(struct.pack("<I", len(each)) + each for each in strings)
    assert not message.FromString(rest).contents.bytes_contents


def test_other_contents_are_left_to_protobuf() -> None:
    tensor = ModelInferRequest().inputs.add(name="x")
    assert taken_strings(memoryview(tensor.SerializeToString()), LIMIT) is None
    tensor.contents.bytes_contents.append(b"a")
    whole = tensor.SerializeToString()
    assert taken_strings(memoryview(whole), LIMIT) is not None
    assert taken_strings(memoryview(whole + whole), LIMIT) is None
    for size in range(1, len(whole)):
        found = taken_strings(memoryview(whole[:size]), LIMIT)
        assert found is None, size
    tensor.contents.int_contents.append(1)
    assert taken_strings(memoryview(tensor.SerializeToString()), LIMIT) is None
