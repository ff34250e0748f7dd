"""The storage format of strings."""

import struct
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.strings import as_strings, decode_strings, encode_strings, least_bytes

ODD = [b"", b"\0", b"a\0b\0", b"\xff\xfe", "\u00e9".encode(), b"x" * 1000]


def buffer(*numbers: int, content: bytes = b"") -> memoryview:
    return memoryview(struct.pack(f"<{len(numbers)}i", *numbers) + content)


@sweep("shape", [(6,), (2, 3), (1, 6, 1)])
def test_strings_survive_storage(shape: tuple[int, ...]) -> None:
    strings = np.array(ODD, object).reshape(shape)
    stored = encode_strings(strings)
    assert stored.dtype == np.uint8
    assert stored.nbytes == least_bytes(6) + sum(map(len, ODD))
    assert decode_strings(memoryview(stored.tobytes()), shape).tolist() == strings.tolist()


@sweep("count", [16384, 16385, 40000])
def test_many_strings_are_stored_as_few_are(count: int) -> None:
    values = [bytes([n % 256]) * (n % 5) for n in range(count)]
    strings = np.empty((2, count // 2) if count % 2 == 0 else (count,), object)
    strings.reshape(-1)[:] = values
    stored = encode_strings(strings).tobytes()
    offsets = np.cumsum([least_bytes(count), *map(len, values)]).tolist()
    assert stored == bytes(buffer(count, *offsets, content=b"".join(values)))
    assert decode_strings(memoryview(stored), strings.shape).tolist() == strings.tolist()
    damaged = [(0, count + 1), (1, 0), (count // 2, 2**31 - 1), (count // 2, 7), (count + 1, 2**31 - 1)]
    for place, number in damaged:
        content = bytearray(stored)
        content[4 * place : 4 * place + 4] = struct.pack("<i", number)
        with pytest.raises(BadData, match=r"strings; |not in order or exceed"):
            decode_strings(memoryview(content), strings.shape)
    strings.reshape(-1)[count - 1] = "text"
    with pytest.raises(BadData, match="not as str"):
        encode_strings(strings)


def test_the_format_is_that_of_tflite() -> None:
    assert encode_strings(np.array([b"ab", b"", b"c"], object)).tobytes() == bytes(
        buffer(3, 20, 22, 22, 23, content=b"abc")
    )


def test_one_string_and_no_strings() -> None:
    one = np.array(b"a\0", object)
    assert decode_strings(memoryview(encode_strings(one).tobytes()), ()).item() == b"a\0"
    for source in (buffer(), buffer(0, 8)):
        assert decode_strings(source, (2, 0)).shape == (2, 0)


def test_what_follows_means_nothing() -> None:
    assert decode_strings(buffer(1, 12, 13, content=b"abc"), (1,)).tolist() == [b"a"]
    assert decode_strings(buffer(1, 13, 14, content=b"abc"), (1,)).tolist() == [b"b"]


@sweep(
    ("source", "shape", "message"),
    [
        (buffer(), (1,), "0 bytes; 1 strings take at least 12"),
        (buffer(1, 12), (1,), "8 bytes"),
        (buffer(1, 12, 12), (2,), "12 bytes; 2 strings take at least 16"),
        (buffer(1, 12, 12), (2**31, 2), "at least"),
        (buffer(2, 12, 12, 12), (1,), "has 2 strings; 1 are expected"),
        (buffer(-1, 12, 12), (1,), "has -1 strings"),
        (buffer(1, 12, 14, content=b"a"), (1,), "not in order or exceed"),
        (buffer(1, 13, 12, content=b"a"), (1,), "not in order or exceed"),
        (buffer(2, 16, 18, 17, content=b"ab"), (2,), "not in order or exceed"),
        (buffer(1, -4, 12), (1,), "not in order or exceed"),
        (buffer(1, 0, 12), (1,), "not in order or exceed"),
        (buffer(1, 8, 12), (1,), "not in order or exceed"),
        (buffer(1, 12, 2**31 - 1), (1,), "not in order or exceed"),
    ],
)
def test_a_buffer_that_is_none_is_refused(source: memoryview, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadData, match=message):
        decode_strings(source, shape)


def test_only_bytes_are_stored() -> None:
    for value in ("text", 1, None):
        with pytest.raises(BadData, match=f"not as {type(value).__name__}"):
            encode_strings(np.array([b"a", value], object))


def test_objects_of_classes_that_derive_from_bytes_are_strings() -> None:
    class Name(bytes):
        pass

    given = np.array([Name(b"a"), b"bc"], object)
    assert as_strings(given, "input").tolist() == [b"a", b"bc"]
    assert encode_strings(given).tobytes() == encode_strings(np.array([b"a", b"bc"], object)).tobytes()


def test_converted_strings_are_a_copy() -> None:
    given = np.array([[b"a"], [b"bc"]], object)
    converted = as_strings(given, "input")
    given[0] = b"other"
    assert converted.tolist() == [[b"a"], [b"bc"]]


def test_more_than_offsets_can_tell_is_refused() -> None:
    with pytest.raises(BadData, match="2\\^31 - 1 bytes"):
        # `np.full` would copy the string for every element.
        encode_strings(np.array([b"x" * 1_000_000] * 3000, object))


@sweep(
    "given",
    [
        np.array([[b"a\0b", "\u00e9"]], object),
        np.array([["a\0b", "\u00e9"]]),
        np.array([["a\0b", "\u00e9"]], ">U3"),
        np.array([["a\0b", "x", "\u00e9", "x"]])[:, ::2],
        np.array([[b"a\0b", b"\xc3\xa9"]]),
        np.array([["a\0b", "\u00e9"]], np.dtypes.StringDType())
        if hasattr(np.dtypes, "StringDType")
        else np.array([["a\0b", "\u00e9"]]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_strings_of_all_kinds_are_taken(given: np.ndarray[Any, Any]) -> None:
    assert as_strings(given, "it").tolist() == [[b"a\0b", b"\xc3\xa9"]]


@sweep(
    ("given", "message"),
    [
        (np.array([1, 2]), "it is an array of int64; strings are expected"),
        (np.array([b"a", None], object), "it: element 1 is NoneType"),
        (np.array([1], object), "it: element 0 is int"),
        (np.array(["\ud800"]), "cannot be encoded"),
        (np.array([[97, 0x110000]], "<u4").view("<U2"), "it contains 0x110000, which is not a character"),
        (np.array([[97, 0xFFFFFFFF]], ">u4").view(">U2"), "it contains 0xffffffff, which is not a character"),
    ],
)
def test_what_are_no_strings_is_refused(given: np.ndarray[Any, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        as_strings(given, "it")
