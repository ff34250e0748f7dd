"""Asks the kernel to let the threads of a daemon run soon after they wake.

A thread that wakes while others compute waits for the end of their time slices, 3 ms or more each.
Since Linux 6.12 a thread can ask for shorter slices of its own: it then gets the same share of the
processor, in smaller portions, and earlier. Answers to small requests arrive sooner while other
clients' executions use all cores. An execution that takes longer than a short slice would be
interrupted by the slices of others, so a thread that usually runs such has ordinary ones.
"""

import ctypes
import logging
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

_LOG = logging.getLogger(__name__)

#: The shortest slice that the kernel accepts.
SLICE_NS: Final = 100_000
#: Stands for the slices of threads that have asked for none.
_ORDINARY_NS: Final = 0
#: Numbers of sched_setattr and sched_getattr by machine type.
_NUMBERS: Final = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
#: `struct sched_attr` in its first version: size, policy, flags, nice, priority, runtime, deadline
#: and period. The runtime of an ordinary thread is its slice.
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
_POLICY: Final = 1
_NICE: Final = 3
_RUNTIME: Final = 5


def time_slice_ns() -> int | None:
    """Returns the slice that the calling thread asks for; None if the kernel does not tell."""
    attributes = _attributes()
    return None if attributes is None else attributes[_RUNTIME]


@contextmanager
def short_time_slices() -> Iterator[None]:
    """Asks for short slices, for this thread and those that it starts in the block.

    Does nothing where the kernel does not support it, or where somebody chose a policy for this
    process. The policy and the nice value stay as they are.
    """
    attributes = _attributes()
    if attributes is None or attributes[_POLICY] != os.SCHED_OTHER or not _set(attributes, SLICE_NS):
        yield
        return
    try:
        yield
    finally:
        _set(attributes, attributes[_RUNTIME])


def use_ordinary_time_slices() -> None:
    """Makes the calling thread no longer ask for short slices, which it has from its starter."""
    attributes = _attributes()
    if attributes is not None and attributes[_RUNTIME] == SLICE_NS:
        _set(attributes, _ORDINARY_NS)


class AdaptiveSlices:
    """Makes the calling thread, if it has short slices, keep them only while its work is short.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._attributes = _attributes()
        self._is_adaptive = self._attributes is not None and self._attributes[_RUNTIME] == SLICE_NS
        self._is_short = True
        self._usual_s = 0.0

    def note_work(self, taken_s: float) -> None:
        """Notes how long a piece of work has taken, its waits for a processor included."""
        if not self._is_adaptive or self._attributes is None:
            return
        # Falls fast and rises slowly, so that waits hardly count.
        self._usual_s = min(taken_s, self._usual_s * 1.1 + 1e-6)
        # Twice as long before it changes, since each change takes a millisecond on a busy
        # processor.
        is_short = self._usual_s * 1e9 <= SLICE_NS * (2 if self._is_short else 1)
        if is_short is not self._is_short:
            self._is_short = is_short
            self._is_adaptive = _set(self._attributes, SLICE_NS if is_short else _ORDINARY_NS)


def _attributes() -> tuple[int, ...] | None:
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        return None
    buffer = bytearray(_ATTRIBUTES.size)
    with suppress(OSError):
        _call(numbers[1], (ctypes.c_char * len(buffer)).from_buffer(buffer), len(buffer), 0)
        return _ATTRIBUTES.unpack(buffer)
    return None


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: Any) -> None:
    """Makes a system call for the calling thread.

    Raises:
        OSError: it failed.
    """
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in (0, *arguments)]
    if _libc().syscall(ctypes.c_long(number), *values) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _set(attributes: tuple[int, ...], slice_ns: int) -> bool:
    """Sets the slice of the calling thread; returns True on success."""
    packed = _ATTRIBUTES.pack(_ATTRIBUTES.size, attributes[_POLICY], 0, attributes[_NICE], 0, slice_ns, 0, 0)
    try:
        _call(_NUMBERS[platform.machine()][0], packed, 0)
    except OSError as error:
        _LOG.debug("the kernel grants no short time slices: %s", error)
        return False
    return True
