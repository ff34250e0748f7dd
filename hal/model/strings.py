"""The storage format of strings: TFLite's string buffers, whose size does not follow from a shape.

A buffer of n strings consists of little-endian int32 numbers (n, and n + 1 offsets from the start
of the buffer: of each string's first byte, and of the end of the last string), followed by the
bytes. Anything after the last string is ignored.

In memory, a string is a `bytes` object with arbitrary bytes, and a tensor of strings a NumPy array
of objects.
"""

import math
import struct
import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import gt

from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array as Array
from neurald.hal.lazy_numpy import np

_NUMBER_BYTES = 4
#: Offsets are int32.
_MAX_BYTES = 2**31 - 1
_NUMBER = "<i4"
#: Fewer strings are encoded and decoded without arrays, and more of them in parts of this many.
_MANY = 1 << 14


def least_bytes(count: int) -> int:
    """Returns the size of a buffer of that many empty strings."""
    return _NUMBER_BYTES * (count + 2)


def encode_strings(strings: Array) -> Array:
    """Encodes an array of `bytes` objects as a string buffer, a byte array of rank 1.

    Raises:
        BadData: an element is not a `bytes` object, or the buffer would be larger than offsets can
            express.
    """
    values: list[bytes] = strings.reshape(-1).tolist()
    for part in _parts(len(values)):
        if not _are_bytes(values[part]):
            _require_bytes(values[part])
    if len(values) > _MANY:
        return _encode_many(values)
    # Standard containers are faster than arrays for few strings.
    offsets = list(accumulate(map(len, values), initial=least_bytes(len(values))))
    if offsets[-1] > _MAX_BYTES:
        raise _too_large(len(values))
    numbers = struct.pack(f"<{len(offsets) + 1}i", len(values), *offsets)
    return np.frombuffer(b"".join((numbers, *values)), np.uint8)


def _require_bytes(values: Sequence[object]) -> None:
    for value in values:
        if not isinstance(value, bytes):
            raise BadData(f"a string is stored as bytes, not as {type(value).__name__}")


def _encode_many(values: list[bytes]) -> Array:
    """Encodes many strings; see `encode_strings`."""
    count = len(values)
    ends = np.empty(count + 1, np.int64)
    ends[0] = least_bytes(count)
    for part in _parts(count):
        lengths = np.fromiter(map(len, values[part]), np.int64)
        ends[1:][part] = lengths
    np.cumsum(ends, out=ends)
    if int(ends[-1]) > _MAX_BYTES:
        raise _too_large(count)
    result = np.empty(int(ends[-1]), np.uint8)
    numbers = result[: int(ends[0])].view(_NUMBER)
    numbers[0], numbers[1:] = count, ends
    for part in _parts(count):
        text = b"".join(values[part])
        start = int(ends[part.start])
        result[start : start + len(text)] = np.frombuffer(text, np.uint8)
    return result


def _parts(count: int) -> Iterator[slice]:
    """Returns parts of many strings, between which other threads run."""
    for start in range(0, count, _MANY):
        yield slice(start, start + _MANY)


def _too_large(count: int) -> BadData:
    return BadData(f"{count} strings take more than 2^31 - 1 bytes, the limit of a string buffer")


def decode_strings(source: memoryview, shape: tuple[int, ...]) -> Array:
    """Decodes the strings of an untrusted buffer.

    Args:
        source: the buffer; it may be empty if there are no strings.
        shape: shape of the result.

    Raises:
        BadData: the buffer does not hold that many strings, or they are not stored one after
            another.
    """
    # Copied once, because others may write to the memory: the checked bytes must be the used ones.
    content = bytes(source)
    count = math.prod(shape)
    if count == 0 and not content:
        return np.empty(shape, object)
    start = least_bytes(count)
    if len(content) < start:
        raise BadData(f"a string buffer has {len(content)} bytes; {count} strings take at least {start}")
    if count > _MANY:
        return _decode_many(content, count).reshape(shape)
    found, *offsets = struct.unpack_from(f"<{count + 2}i", content)
    if found != count:
        raise _wrong_count(found, count)
    if offsets[0] < start or offsets[-1] > len(content) or any(map(gt, offsets, offsets[1:])):
        raise _disordered(content)
    strings = map(content.__getitem__, map(slice, offsets, offsets[1:]))
    return np.fromiter(strings, object, count).reshape(shape)


def _decode_many(content: bytes, count: int) -> Array:
    """Decodes many strings; see `decode_strings`."""
    numbers = np.frombuffer(content, _NUMBER, count + 2)
    if numbers[0] != count:
        raise _wrong_count(int(numbers[0]), count)
    offsets = numbers[1:]
    is_inside = offsets[0] >= least_bytes(count) and offsets[-1] <= len(content)
    if not is_inside or bool((offsets[1:] < offsets[:-1]).any()):
        raise _disordered(content)
    strings = np.empty(count, object)
    for part in _parts(count):
        begins, ends = offsets[:-1][part].tolist(), offsets[1:][part].tolist()
        strings[part] = list(map(content.__getitem__, map(slice, begins, ends)))
    return strings


def _wrong_count(found: int, expected: int) -> BadData:
    return BadData(f"a string buffer has {found} strings; {expected} are expected")


def _disordered(content: bytes) -> BadData:
    return BadData(f"a string buffer of {len(content)} bytes has offsets that are not in order or exceed it")


def as_strings(given: Array, what: str) -> Array:
    """Converts an array of strings of any kind to one of `bytes` objects; text becomes UTF-8.

    Args:
        given: array of `bytes` or `str` objects, or of a NumPy string type (for fixed lengths,
            trailing zeros are dropped).
        what: name of the array for messages.

    Raises:
        BadData: an element is neither.
    """
    if given.dtype.kind not in "OSUT":
        raise BadData(f"{what} is an array of {given.dtype}; strings are expected")
    if given.dtype.kind == "U":
        _require_characters(given, what)
    values = given.reshape(-1).tolist()
    if _are_bytes(values):
        return np.fromiter(values, object, len(values)).reshape(given.shape)
    result = np.empty(given.size, object)
    for position, value in enumerate(values):
        if isinstance(value, str):
            try:
                value = value.encode()
            except UnicodeEncodeError as error:
                raise BadData(f"{what}: {value!r} cannot be encoded as UTF-8: {error.reason}") from None
        if not isinstance(value, bytes):
            raise BadData(f"{what}: element {position} is {type(value).__name__}; bytes or str are expected")
        result[position] = value
    return result.reshape(given.shape)


def _are_bytes(values: Sequence[object]) -> bool:
    """Returns True if all values are `bytes` objects, without a step of Python for each of them.

    It is False for objects of derived classes, too.
    """
    return set(map(type, values)) <= {bytes}


def _require_characters(given: Array, what: str) -> None:
    """Raises BadData for code points beyond Unicode, which NumPy cannot convert to text."""
    if not given.dtype.itemsize:
        return
    numbers = np.ascontiguousarray(given).view(f"{given.dtype.str[0]}u4")
    largest = int(numbers.max(initial=0))
    if largest > sys.maxunicode:
        raise BadData(
            f"{what} contains {largest:#x}, which is not a character; the last one is {sys.maxunicode:#x}"
        )
