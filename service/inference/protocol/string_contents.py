"""Elements of a string tensor in `bytes_contents`, taken from a message without an object for each.

Protobuf makes an object of each element, which takes ten times the memory of short strings. Here
they are found in the received bytes, and written as the bytes that `raw_input_contents` would have:
strings of the same length one after another at once.
"""

from typing import Final, NamedTuple

import numpy as np

#: The tag of `bytes_contents` in InferTensorContents: field 8, delimited.
_STRING: Final = 8 << 3 | 2
#: The tag of `contents` in InferInputTensor: field 5, delimited.
_CONTENTS: Final = 5 << 3 | 2
#: A tag and a length of one byte, and a length of four.
_HEAD_BYTES: Final = 2
_LENGTH_BYTES: Final = 4
#: After this many strings of one length the following ones of that length are counted, in pieces of
#: this many.
_SAME: Final = 8
_FIRST_PIECE: Final = 64
_GROWTH: Final = 4
_MAX_PIECE: Final = 1 << 16


class Strings(NamedTuple):
    """The elements of a string tensor.

    Attributes:
        content: each behind its length, as in raw contents.
        number: how many there are.
    """

    content: bytes
    number: int


def taken_strings(tensor: memoryview, limit: int) -> tuple[bytes, Strings] | None:
    """Takes the elements from an InferInputTensor.

    Args:
        tensor: the message.
        limit: how many strings may be that have not the length of those before them.

    Returns:
        The message with empty contents, and the elements. None if it has other contents, several of
            them or none, or more strings, and for what is not such a message.
    """
    at, end = 0, tensor.nbytes
    rest: list[memoryview | bytes] = []
    found: Strings | None = None
    try:
        while at < end:
            start = at
            tag, at = _number(tensor, at)
            if tag & 7 == 0:
                _, at = _number(tensor, at)
            elif tag & 7 == 2:
                length, at = _number(tensor, at)
                at += length
            else:
                return None
            if at > end:
                return None
            if tag != _CONTENTS:
                rest.append(tensor[start:at])
                continue
            if found is not None:
                return None
            found = _strings(tensor[at - length : at], limit)
            if found is None:
                return None
            rest.append(bytes((_CONTENTS, 0)))
    except IndexError:
        return None
    return None if found is None else (b"".join(rest), found)


def _strings(contents: memoryview, limit: int) -> Strings | None:
    """Returns the elements of an InferTensorContents that has only strings; else None."""
    parts: list[memoryview | bytes] = []
    count = steps = same = 0
    before = -1
    at, end = 0, contents.nbytes
    while at < end:
        if contents[at] != _STRING:
            return None
        length, start = _number(contents, at + 1)
        if start - at == _HEAD_BYTES and same >= _SAME:
            alike = _alike(contents[at:], length)
            if alike is not None:
                parts.append(alike.tobytes())
                count += len(alike)
                at += len(alike) * (_HEAD_BYTES + length)
                continue
        at = start + length
        steps += 1
        if at > end or steps > limit:
            return None
        same = same + 1 if length == before else 0
        before = length
        parts += (length.to_bytes(_LENGTH_BYTES, "little"), contents[start:at])
        count += 1
    return Strings(b"".join(parts), count)


def _alike(contents: memoryview, length: int) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]] | None":
    """Returns strings of a length at the beginning of contents, behind lengths; None if few are."""
    stride = _HEAD_BYTES + length
    most = min(contents.nbytes // stride, _MAX_PIECE)
    piece = min(_FIRST_PIECE, most)
    while True:
        table = np.frombuffer(contents, np.uint8, piece * stride).reshape(piece, stride)
        others = np.flatnonzero((table[:, 0] != _STRING) | (table[:, 1] != length))
        if others.size or piece == most:
            break
        piece = min(_GROWTH * piece, most)  # so that few bytes are examined needlessly
    alike = table[: int(others[0]) if others.size else piece]
    if len(alike) < _SAME:
        return None
    result = np.empty((len(alike), _LENGTH_BYTES + length), np.uint8)
    result[:, :_LENGTH_BYTES] = np.frombuffer(length.to_bytes(_LENGTH_BYTES, "little"), np.uint8)
    result[:, _LENGTH_BYTES:] = alike[:, _HEAD_BYTES:]
    return result


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """Decodes a number of up to 32 bits at an offset; returns it and the offset behind it.

    Raises:
        IndexError: it is longer, or not whole.
    """
    value = shift = 0
    while shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise IndexError
