"""Byte strings as the V2 protocol stores them: each after its length, a little-endian uint32."""

import math
import struct
from typing import Any, Final

import numpy as np

from neurald.hal.errors import BadData

_LENGTH: Final = struct.Struct("<I")
_MAX_LENGTH: Final = 2**32 - 1

Array = np.ndarray[Any, np.dtype[Any]]


def encode_byte_strings(strings: Array) -> bytes:
    """Encodes an array of `bytes` objects.

    Raises:
        BadData: a string is longer than its length field can express.
    """
    parts: list[bytes] = []
    for value in strings.reshape(-1).tolist():
        if len(value) > _MAX_LENGTH:
            raise BadData(f"a string has {len(value)} bytes; {_MAX_LENGTH} may be")
        parts += (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


def decode_byte_strings(source: memoryview, shape: tuple[int, ...]) -> Array:
    """Decodes the strings of an untrusted buffer, which is copied first.

    Raises:
        BadData: the buffer does not hold exactly as many strings as the shape has elements.
    """
    content = bytes(source)
    count = math.prod(shape)
    if count * _LENGTH.size > len(content):
        raise BadData(
            f"{len(content)} bytes cannot hold {count} strings, each of which has a length of "
            f"{_LENGTH.size} bytes"
        )
    strings = np.empty(count, object)
    at = 0
    for position in range(count):
        start = at + _LENGTH.size
        if start > len(content):
            raise BadData(f"{len(content)} bytes end within the length of string {position} of {count}")
        (length,) = _LENGTH.unpack_from(content, at)
        at = start + length
        if at > len(content):
            raise BadData(
                f"string {position} of {count} has {length} bytes by its length; {len(content) - start} are left"
            )
        strings[position] = content[start:at]
    if at != len(content):
        raise BadData(f"{count} strings take {at} bytes; {len(content)} are given")
    return strings.reshape(shape)
