"""Builds system call filters as classic BPF programs.

A program is a tree. Each test continues with one of two branches, and each leaf allows the call,
makes it fail, or kills the process. See `linux/filter.h` and `linux/seccomp.h`.
"""

import struct
from collections.abc import Sequence

#: A sequence of instructions, each of which is a `struct sock_filter`.
Code = tuple[bytes, ...]

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_IF_EQUAL, _JUMP_IF_GREATER, _JUMP_IF_ANY_BIT = 0x15, 0x25, 0x45
_ALLOW, _ERROR, _KILL_PROCESS = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
# Offsets in `struct seccomp_data`. Arguments have 64 bits, with the lower half first on all
# supported machines.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


def _instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> Code:
    return (struct.pack("=HBBI", code, then, otherwise, value),)


ALLOW = _instruction(_RETURN, _ALLOW)
KILL = _instruction(_RETURN, _KILL_PROCESS)


def fail(error: int) -> Code:
    """Returns code that makes the call fail with that `errno`."""
    return _instruction(_RETURN, _ERROR | error)


def load_number(then: Code) -> Code:
    """Returns code that loads the number of the call for the tests in `then`."""
    return _instruction(_LOAD, _NUMBER) + then


def load_architecture(then: Code) -> Code:
    """Returns code that loads the architecture of the call for the tests in `then`."""
    return _instruction(_LOAD, _ARCHITECTURE) + then


def load_argument(index: int, then: Code, *, mask: int | None = None, upper: bool = False) -> Code:
    """Returns code that loads one half of an argument for the tests in `then`.

    Args:
        index: the index of the argument.
        then: the tests.
        mask: selects bits of the value; None for all of them.
        upper: whether to load the upper half instead of the lower one.
    """
    load = _instruction(_LOAD, _ARGUMENTS + 8 * index + 4 * upper)
    return load + (() if mask is None else _instruction(_AND, mask)) + then


def if_equal(value: int, then: Code, otherwise: Code) -> Code:
    """Returns code that continues with `then` if the loaded value equals `value`."""
    return _instruction(_JUMP_IF_EQUAL, value, 0, len(then)) + then + otherwise


def if_greater(value: int, then: Code, otherwise: Code) -> Code:
    """Returns code that continues with `then` if the loaded value is greater than `value`."""
    return _instruction(_JUMP_IF_GREATER, value, 0, len(then)) + then + otherwise


def if_any_bit(mask: int, then: Code, otherwise: Code) -> Code:
    """Returns code that continues with `then` if the loaded value has any bit of `mask`."""
    return _instruction(_JUMP_IF_ANY_BIT, mask, 0, len(then)) + then + otherwise


def program(architecture: int, last_known: int, unknown: Code, rules: Sequence[tuple[int, Code]]) -> bytes:
    """Builds a complete filter, which allows all known calls without a rule.

    Args:
        architecture: the architecture of the numbers. A call for another architecture kills the
            process, because its numbers have other meanings.
        last_known: the largest known number of a call.
        unknown: the code for calls with larger numbers.
        rules: pairs of a call's number and the code for it.
    """
    known = ALLOW
    for number, code in reversed(rules):
        known = if_equal(number, code, known)
    by_number = load_number(if_greater(last_known, unknown, known))
    # The longer branch comes last, because a jump skips at most 255 instructions.
    mismatch = _instruction(_JUMP_IF_EQUAL, architecture, len(KILL), 0) + KILL
    return b"".join(load_architecture(mismatch + by_number))
