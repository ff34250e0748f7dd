"""Hash tables of constant strings, as kernels read them."""

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
from msgspec import Struct

Array = np.ndarray[Any, np.dtype[Any]]

#: The factor of the hash, and the bits by which words are shifted to mix them.
MULTIPLIER: Final = 0x9E37_79B9_7F4A_7C15
SHIFT: Final = 32
_MASK: Final = (1 << 64) - 1
_WORD_BYTES: Final = 8


class StringTable(Struct, frozen=True, kw_only=True):
    """A hash table with open addressing.

    Attributes:
        places: INT32, a power of two and at least twice the number of keys; the number of the key plus
            one at its place, 0 for free places. A key is at the first free place from its hash on.
        ends: INT64, where each key ends in `characters`; 0 before the first key.
        characters: UINT8, the bytes of all keys.
    """

    places: Array
    ends: Array
    characters: Array


def string_table(keys: Sequence[bytes]) -> StringTable:
    """Makes the table of keys; of equal keys, the first one is found."""
    mask = (1 << max(1, 2 * len(keys) - 1).bit_length()) - 1
    places = [0] * (mask + 1)
    for number, key in enumerate(keys, start=1):
        place = string_hash(key) & mask
        while places[place]:
            place = place + 1 & mask
        places[place] = number
    return StringTable(
        places=np.array(places, np.int32),
        ends=np.fromiter(accumulate(map(len, keys), initial=0), np.int64, len(keys) + 1),
        characters=np.frombuffer(b"".join(keys), np.uint8),
    )


def string_hash(string: bytes) -> int:
    """Returns the hash of a string, which kernels compute as well: 64 bits."""
    whole = len(string) // _WORD_BYTES
    words = [*struct.unpack_from(f"<{whole}Q", string)]
    if len(string) % _WORD_BYTES:
        words.append(int.from_bytes(string[whole * _WORD_BYTES :], "little"))
    found = len(string) * MULTIPLIER & _MASK
    for word in words:
        found = (found ^ word) * MULTIPLIER & _MASK
        found ^= found >> SHIFT
    return found
