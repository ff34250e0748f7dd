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
HASH_BITS: Final = 64
_MASK: Final = (1 << HASH_BITS) - 1
_WORD_BYTES: Final = 8
#: How many of `StringTable.keys` belong to a key.
KEY_NUMBERS: Final = 2


class StringTable(Struct, frozen=True, kw_only=True):
    """A hash table with open addressing.

    Attributes:
        places: INT32, a power of two and at least twice the number of keys; the number of the key
            plus one at its place, 0 for free places. A key is at the first free place from that on
            which the highest bits of its hash name.
        keys: INT64, where each key begins in `characters`, and its length.
        characters: UINT8, the bytes of all keys, each followed by zeros up to a multiple of 8
            bytes.
    """

    places: Array
    keys: Array
    characters: Array


def string_table(keys: Sequence[bytes]) -> StringTable:
    """Makes the table of keys; of equal keys, the first one is found."""
    bits = max(1, 2 * len(keys) - 1).bit_length()
    mask = (1 << bits) - 1
    places = [0] * (mask + 1)
    for number, key in enumerate(keys, start=1):
        place = string_hash(key) >> HASH_BITS - bits
        while places[place]:
            place = place + 1 & mask
        places[place] = number
    padded = [key + bytes(-len(key) % _WORD_BYTES) for key in keys]
    starts = accumulate(map(len, padded), initial=0)
    numbers = [number for start, key in zip(starts, keys, strict=False) for number in (start, len(key))]
    return StringTable(
        places=np.array(places, np.int32),
        keys=np.array(numbers, np.int64),
        characters=np.frombuffer(b"".join(padded), np.uint8),
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
