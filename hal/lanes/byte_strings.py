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


def decode_byte_strings(source: memoryview, shape: tuple[int, ...], owner: str = "") -> Array:
    """Decodes the strings of an untrusted buffer, which is copied first.

    Args:
        source: the buffer.
        shape: the shape of the result.
        owner: whose strings they are, for errors, such as " for inference input 'x'".

    Raises:
        BadData: the buffer does not hold exactly as many strings as the shape has elements.
    """
    content = bytes(source)
    count = math.prod(shape)
    found: list[bytes] = []
    at = 0
    while at < len(content):
        start = at + _LENGTH.size
        if start > len(content):
            raise BadData(
                f"incomplete string length indicator{owner}, expecting {_LENGTH.size} bytes but only "
                f"{len(content) - at} bytes available"
            )
        (length,) = _LENGTH.unpack_from(content, at)
        at = start + length
        if at > len(content):
            raise BadData(
                f"incomplete string data{owner}, expecting string of length {length} but only "
                f"{len(content) - start} bytes available"
            )
        found.append(content[start:at])
        if len(found) > count:  # before there are many
            raise BadData(f"unexpected number of string elements {len(found)}{owner}, expecting {count}")
    if len(found) < count:
        raise BadData(f"expected {count} string elements{owner}, got {len(found)}")
    strings = np.empty(count, object)
    strings[:] = found
    return strings.reshape(shape)
