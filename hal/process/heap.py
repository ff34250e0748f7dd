"""Memory that was freed, given back to the system.

Allocators keep what is freed between what is still used, in case that more is wanted. In a daemon that is what clients
left behind, and the process that needs it may be another one.
"""

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: What is kept is not worth the effort below this.
_WORTHWHILE_BYTES = 8 << 20
#: Giving back may take so much of the time: it goes through all that is free, and others wait for the allocator meanwhile.
_SHARE = 0.01


def _trim() -> Callable[[], object]:
    """What gives memory back: glibc can."""
    function = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if function is None:
        return lambda: None
    function.argtypes = (ctypes.c_size_t,)
    return lambda: function(0)


def resident_bytes() -> int:
    """The memory that this process has of the system, but for what it shares or can read again."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return (int(resident) - int(shared)) * _PAGE_BYTES


class Heap:
    """The memory of this process, looked at now and then by one thread.

    Args:
        resident: tells how much it has.
        trim: gives back what can be.
        clock: tells seconds, as `time.monotonic` does.
    """

    def __init__(
        self,
        resident: Callable[[], int] = resident_bytes,
        trim: Callable[[], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resident = resident
        self._trim = trim or _trim()
        self._clock = clock
        self._least_bytes = resident()
        self._not_before_s = clock()

    def look(self) -> None:
        """Gives memory back if there is more than there was once, as often as that is worth its time."""
        resident = self._resident()
        self._least_bytes = min(self._least_bytes, resident)
        began_s = self._clock()
        if resident < self._least_bytes + _WORTHWHILE_BYTES or began_s < self._not_before_s:
            return
        self._trim()
        ended_s = self._clock()
        self._not_before_s = ended_s + (ended_s - began_s) / _SHARE
