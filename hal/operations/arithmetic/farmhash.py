"""FarmHash's `Fingerprint64` for many keys of the same length.

Its values are platform-independent.
"""

from typing import Any

import numpy as np
from msgspec import Struct

from neurald.hal.operations.machinery.call import Array

#: Words are numbers up to this one.
MASK = (1 << 64) - 1
#: Constants of the hash.
K0, K1, K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
#: Block size for long keys, in bytes.
PIECE = 64

# Arithmetic on words is modulo 2^64. An array has one word per key, or one for all.
_Words = np.ndarray[Any, np.dtype[np.uint64]]
_Pair = tuple[_Words, _Words]


def fingerprint64(keys: Array) -> Array:
    """Computes the fingerprints of keys.

    Args:
        keys: uint8, shape (keys, bytes of each).

    Returns:
        uint64, shape (keys,).
    """
    length = keys.shape[1]
    if length > 64:
        return _long(keys)
    if length > 32:
        return _up_to_64(keys)
    if length > 16:
        return _up_to_32(keys)
    return _up_to_16(keys)


def _word(keys: Array, offset: int, size: int = 8) -> _Words:
    """Returns the little-endian number of `size` bytes at an offset, which may be from the end."""
    start = offset if offset >= 0 else keys.shape[1] + offset
    return np.ascontiguousarray(keys[:, start : start + size]).view(f"<u{size}")[:, 0].astype(np.uint64)


def _constant(value: int) -> _Words:
    return np.array([value & MASK], np.uint64)


def _rotate(words: _Words, bits: int) -> _Words:
    """Rotates words to the right."""
    return (words >> np.uint64(bits)) | (words << np.uint64(64 - bits))


def _mix(words: _Words) -> _Words:
    return words ^ (words >> np.uint64(47))


def _combine(first: _Words, second: _Words, multiplier: _Words) -> _Words:
    """Hashes two words to one."""
    inner = _mix((first ^ second) * multiplier)
    return _mix((second ^ inner) * multiplier) * multiplier


def _up_to_16(keys: Array) -> _Words:
    length = keys.shape[1]
    multiplier = _constant(K2 + 2 * length)
    if length >= 8:
        first, last = _word(keys, 0) + _constant(K2), _word(keys, -8)
        return _combine(
            _rotate(last, 37) * multiplier + first, (_rotate(first, 25) + last) * multiplier, multiplier
        )
    if length >= 4:
        first, last = _word(keys, 0, 4), _word(keys, -4, 4)
        return _combine(_constant(length) + (first << np.uint64(3)), last, multiplier)
    if length == 0:
        return np.full(len(keys), K2, np.uint64)
    first, middle, last = (_word(keys, offset, 1) for offset in (0, length >> 1, -1))
    low = first + (middle << np.uint64(8))
    high = _constant(length) + (last << np.uint64(2))
    return _mix(low * _constant(K2) ^ high * _constant(K0)) * _constant(K2)


def _ends(keys: Array, factor: int, multiplier: _Words) -> _Pair:
    """Hashes the first and last 16 bytes."""
    first, second = _word(keys, 0) * _constant(factor), _word(keys, 8)
    last, before = _word(keys, -8) * multiplier, _word(keys, -16) * _constant(K2)
    low = _rotate(first + second, 43) + _rotate(last, 30) + before
    return low, first + _rotate(second + _constant(K2), 18) + last


def _up_to_32(keys: Array) -> _Words:
    multiplier = _constant(K2 + 2 * keys.shape[1])
    return _combine(*_ends(keys, K1, multiplier), multiplier)


def _up_to_64(keys: Array) -> _Words:
    multiplier = _constant(K2 + 2 * keys.shape[1])
    low, high = _ends(keys, K2, multiplier)
    third, fourth = _word(keys, 16) * multiplier, _word(keys, 24)
    fifth = (low + _word(keys, -32)) * multiplier
    sixth = (_combine(low, high, multiplier) + _word(keys, -24)) * multiplier
    return _combine(
        _rotate(third + fourth, 43) + _rotate(fifth, 30) + sixth,
        third + _rotate(fourth + _word(keys, 0) * _constant(K2), 18) + fifth,
        multiplier,
    )


class _HashState(Struct):
    """The hash state between blocks of long keys."""

    x: _Words
    y: _Words
    z: _Words
    v: _Pair
    w: _Pair

    def take(self, piece: Array, multiplier: _Words, *, last: bool = False) -> None:
        """Mixes one block into the state; the last block has a higher weight."""
        weight = _constant(9 if last else 1)
        x = _rotate(self.x + self.y + self.v[0] + _word(piece, 8), 37) * multiplier
        y = _rotate(self.y + self.v[1] + _word(piece, 48), 42) * multiplier
        x = x ^ (self.w[1] * weight)
        y = y + self.v[0] * weight + _word(piece, 40)
        z = _rotate(self.z + self.w[0], 33) * multiplier
        v = _hash_32_bytes(piece[:, :32], self.v[1] * multiplier, x + self.w[0])
        w = _hash_32_bytes(piece[:, 32:], z + self.w[1], y + _word(piece, 16))
        # x and z are swapped.
        self.x, self.y, self.z, self.v, self.w = z, y, x, v, w


def _hash_32_bytes(half: Array, first: _Words, second: _Words) -> _Pair:
    """Hashes 32 bytes and two words to two words."""
    words = [_word(half, offset) for offset in (0, 8, 16, 24)]
    first = first + words[0]
    second = _rotate(second + first + words[3], 21)
    total = first + words[1] + words[2]
    return total + words[3], second + _rotate(total, 44) + first


def _long(keys: Array) -> _Words:
    count, length = keys.shape
    nothing = np.zeros(count, np.uint64)
    state = _HashState(
        x=_constant(81 * K2) + _word(keys, 0),
        y=nothing + _constant(81 * K1 + 113),
        z=_mix(_constant((81 * K1 + 113) * K2 + 113)) * _constant(K2),
        v=(nothing, nothing),
        w=(nothing, nothing),
    )
    whole = (length - 1) // PIECE * PIECE
    for start in range(0, whole, PIECE):
        state.take(keys[:, start : start + PIECE], _constant(K1))
    multiplier = _constant(K1) + ((state.z & np.uint64(0xFF)) << np.uint64(1))
    first = state.w[0] + _constant(length - 1 - whole)
    state.v = state.v[0] + first, state.v[1]
    state.w = first + state.v[0], state.w[1]
    state.take(keys[:, -PIECE:], multiplier, last=True)
    return _combine(
        _combine(state.v[0], state.w[0], multiplier) + _mix(state.y) * _constant(K0) + state.z,
        _combine(state.v[1], state.w[1], multiplier) + state.x,
        multiplier,
    )
