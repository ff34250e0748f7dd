"""Filters of system calls, as programs of the kernel's classic BPF.

A program is a tree: code that looks at something goes on with one of two codes, and every end of it is a verdict. See
`linux/filter.h` and `linux/seccomp.h`.
"""

import struct
from collections.abc import Sequence

#: Instructions, each a `struct sock_filter`.
Code = tuple[bytes, ...]

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_IF_EQUAL, _JUMP_IF_GREATER, _JUMP_IF_ANY_BIT = 0x15, 0x25, 0x45
_ALLOW, _ERROR, _KILL_PROCESS = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
# Where `struct seccomp_data` has what; its arguments have 64 bits, on the machines that are known the lower half first.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


def _instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> Code:
    return (struct.pack("=HBBI", code, then, otherwise, value),)


ALLOW = _instruction(_RETURN, _ALLOW)
KILL = _instruction(_RETURN, _KILL_PROCESS)


def fail(error: int) -> Code:
    """The call fails with that `errno`."""
    return _instruction(_RETURN, _ERROR | error)


def load_number(then: Code) -> Code:
    """Looks at the number of the call from here on."""
    return _instruction(_LOAD, _NUMBER) + then


def load_architecture(then: Code) -> Code:
    """Looks at the kind of machine that the call is meant for from here on."""
    return _instruction(_LOAD, _ARCHITECTURE) + then


def load_argument(index: int, then: Code, *, mask: int | None = None, upper: bool = False) -> Code:
    """Looks at one half of an argument from here on, at the lower one for a start, and at some of its bits only."""
    load = _instruction(_LOAD, _ARGUMENTS + 8 * index + 4 * upper)
    return load + (() if mask is None else _instruction(_AND, mask)) + then


def if_equal(value: int, then: Code, otherwise: Code) -> Code:
    """Goes on with `then` if what is looked at is `value`."""
    return _instruction(_JUMP_IF_EQUAL, value, 0, len(then)) + then + otherwise


def if_greater(value: int, then: Code, otherwise: Code) -> Code:
    """Goes on with `then` if what is looked at is more than `value`."""
    return _instruction(_JUMP_IF_GREATER, value, 0, len(then)) + then + otherwise


def if_any_bit(mask: int, then: Code, otherwise: Code) -> Code:
    """Goes on with `then` if what is looked at has any bit of `mask`."""
    return _instruction(_JUMP_IF_ANY_BIT, mask, 0, len(then)) + then + otherwise


def program(architecture: int, last_known: int, unknown: Code, rules: Sequence[tuple[int, Code]]) -> bytes:
    """A whole filter: calls with rules go by them, others are allowed.

    Args:
        architecture: calls for any other kill the process: their numbers mean something else.
        last_known: the largest number that is known.
        unknown: for larger ones.
        rules: the number of a call, and what becomes of it.
    """
    known = ALLOW
    for number, code in reversed(rules):
        known = if_equal(number, code, known)
    by_number = load_number(if_greater(last_known, unknown, known))
    # The longer branch comes last: a jump goes over 255 instructions at most.
    mismatch = _instruction(_JUMP_IF_EQUAL, architecture, len(KILL), 0) + KILL
    return b"".join(load_architecture(mismatch + by_number))
