"""Byte strings as the V2 protocol stores them: each after its length, a little-endian uint32."""

import math
import struct
from typing import Any, Final

import numpy as np

from neurald.hal.errors import BadData

_LENGTH: Final = struct.Struct("<I")
_FIELD: Final = np.dtype("<u4")
_MAX_LENGTH: Final = 2**32 - 1
#: How many strings are encoded or decoded in one piece, during which no other thread runs.
_PART: Final = 1 << 14
#: Fewer strings are encoded or decoded one by one, which takes less time.
_MANY: Final = 64
#: Strings of one length below this one are copied together.
_SHORT: Final = 256

Array = np.ndarray[Any, np.dtype[Any]]


def encode_byte_strings(strings: Array) -> bytes:
    """Encodes an array of `bytes` objects.

    Raises:
        BadData: a string is longer than its length field can express.
    """
    flat = strings.reshape(-1)
    if flat.size < _MANY:
        return _encode_few(flat.tolist())
    # Other threads run between the parts.
    return b"".join(
        _encode_part(flat[start : start + _PART].tolist()) for start in range(0, flat.size, _PART)
    )


def _encode_few(values: list[bytes]) -> bytes:
    parts: list[bytes] = []
    for value in values:
        if len(value) > _MAX_LENGTH:
            raise BadData(f"a string has {len(value)} bytes; {_MAX_LENGTH} may be")
        parts += (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


def _encode_part(values: list[bytes]) -> bytes:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    longest = int(lengths.max())
    if longest > _MAX_LENGTH:
        return _encode_few(values)
    fields = lengths.astype(_FIELD)
    if 0 < longest < _SHORT and longest == int(lengths.min()):
        table = np.empty((len(values), _LENGTH.size + longest), np.uint8)
        table[:, : _LENGTH.size] = fields.view(np.uint8).reshape(-1, _LENGTH.size)
        table[:, _LENGTH.size :] = np.frombuffer(b"".join(values), np.uint8).reshape(-1, longest)
        return table.tobytes()
    parts = [b""] * (2 * len(values))
    parts[::2] = fields.view(f"V{_LENGTH.size}").tolist()
    parts[1::2] = values
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
    table = _table(content, count)
    if table is None:
        found = _decoded(content, count, owner)
        strings = np.empty(count, object)
        strings[:] = found
        return strings.reshape(shape)
    strings = np.empty(count, object)
    for start in range(0, count, _PART):
        # Other threads run between the parts.
        strings[start : start + _PART] = table[start : start + _PART].tolist()
    return strings.reshape(shape)


def _table(content: bytes, count: int) -> Array | None:
    """Returns the strings of a buffer if they are many of the same length; else None."""
    if count < _MANY or len(content) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(content)
    if not length or len(content) != count * (_LENGTH.size + length):
        return None
    table = np.frombuffer(content, [("length", _FIELD), ("string", f"V{length}")])
    return table["string"] if bool((table["length"] == length).all()) else None


def _decoded(content: bytes, count: int, owner: str) -> list[bytes]:
    """Returns the strings; see `decode_byte_strings`."""
    found: list[bytes] = []
    at, end = 0, len(content)
    unpack = _LENGTH.unpack_from
    while at < end:
        start = at + _LENGTH.size
        if start > end:
            raise BadData(
                f"incomplete string length indicator{owner}, expecting {_LENGTH.size} bytes but only "
                f"{len(content) - at} bytes available"
            )
        (length,) = unpack(content, at)
        at = start + length
        if at > end:
            raise BadData(
                f"incomplete string data{owner}, expecting string of length {length} but only "
                f"{len(content) - start} bytes available"
            )
        found.append(content[start:at])
        if len(found) > count:  # before there are many
            raise BadData(f"unexpected number of string elements {len(found)}{owner}, expecting {count}")
    if len(found) < count:
        raise BadData(f"expected {count} string elements{owner}, got {len(found)}")
    return found
