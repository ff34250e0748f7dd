"""Returns freed memory to the operating system, or keeps it.

Allocators keep freed memory for later allocations. In a daemon that is memory of clients that have
left, and the process that needs it may be another one. On the other hand, memory that goes back
after each call costs more than most calls: the system clears it again, page by page.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from itertools import takewhile
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: Growth from which on the heap is trimmed at once, and from which on it is after a while. Less is
#: not worth the time.
_MIN_TRIM_BYTES = 8 << 20
_MIN_LATER_BYTES = 1 << 18
_LATER_S = 60.0
#: The fraction of time that trimming may take: it visits all free memory, and other threads wait
#: for the allocator meanwhile.
_MAX_TIME_SHARE = 0.01
#: Parameters of `mallopt`: `M_TRIM_THRESHOLD`, `M_MMAP_THRESHOLD` and `M_ARENA_MAX`.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
#: Names of a process's own memory in /proc/self/smaps, and of the part that is swapped out.
_OWN = ("Anonymous:", "Swap:")
#: How much freed memory is kept at the end of the heap, and the largest allocations that come from
#: the heap, which glibc limits.
_KEPT_BYTES = 64 << 20
_MAX_HEAP_ALLOCATION = 32 << 20
#: About how large the blocks of Python's own allocator are, which takes them from no heap.
_BLOCK_BYTES = 64


def use_one_arena() -> None:
    """Makes the threads of this process that start from now on allocate from its main heap.

    In other heaps glibc keeps up to 64 MiB each at the end, which trimming does not return.
    Does nothing with another allocator.
    """
    _mallopt(_ARENA_MAX, 1)


def keep_freed_memory() -> None:
    """Keeps large memory that is freed for later allocations, until a `HeapTrimmer` returns it.

    Does nothing with another allocator.
    """
    _mallopt(_MMAP_THRESHOLD, _MAX_HEAP_ALLOCATION)
    _mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def _mallopt(parameter: int, value: int) -> None:
    if (function := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        function(parameter, value)


def _trim() -> Callable[[], object]:
    """Returns a function that returns free memory to the system, which glibc supports."""
    function = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if function is None:
        return lambda: None
    function.argtypes = (ctypes.c_size_t,)
    return lambda: function(0)


def resident_bytes() -> int:
    """Returns the resident memory of this process, except what is shared or backed by files."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return (int(resident) - int(shared)) * _PAGE_BYTES


class _Allocated(ctypes.Structure):
    """`struct mallinfo2` of glibc.

    Attributes:
        hblkhd: the bytes of what is allocated outside heaps.
        uordblks: the bytes of what is allocated in heaps.
    """

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )
    hblkhd: int
    uordblks: int


@cache
def _mallinfo() -> "Callable[[], _Allocated] | None":
    """Returns `mallinfo2`, which glibc has; made once, since ctypes makes a class for it."""
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is not None:
        function.restype = _Allocated
    return function


def live_bytes() -> int:
    """Returns the memory of this process that is in use, without what its main heap has freed.

    The freed memory of other heaps is included, see `use_one_arena`. With another allocator than
    that of glibc, which does not tell, these are the `resident_bytes`.
    """
    mallinfo = _mallinfo()
    if mallinfo is None:
        return resident_bytes()
    with Path("/proc/self/smaps_rollup").open(encoding="ascii", errors="replace") as rollup:
        own = _own_bytes(rollup)
    # The heap is among the first mappings, so that only these are looked through.
    with Path("/proc/self/smaps").open(encoding="ascii", errors="replace") as mappings:
        is_there = any(line.endswith("[heap]\n") for line in mappings)
        heap = (
            _own_bytes(takewhile(lambda line: not line.startswith("VmFlags:"), mappings)) if is_there else 0
        )
    return own - heap + mallinfo().uordblks


def allocated_bytes() -> int:
    """Returns about how much memory is allocated in this process.

    Unlike `live_bytes`, it does not look through mappings, which takes milliseconds for large ones,
    and leaves out those that allocators did not make. With another allocator than that of glibc,
    which does not tell, these are the `resident_bytes`.
    """
    mallinfo = _mallinfo()
    if mallinfo is None:
        return resident_bytes()
    allocated = mallinfo()
    return allocated.uordblks + allocated.hblkhd + sys.getallocatedblocks() * _BLOCK_BYTES


def _own_bytes(lines: Iterable[str]) -> int:
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(_OWN))


class HeapTrimmer:
    """Trims the heap of this process when one thread calls `trim_if_due` regularly.

    Args:
        resident: returns the resident memory in bytes.
        trim: returns free memory to the system.
        clock: returns seconds, as `time.monotonic` does.
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
        self._later_s = self._not_before_s + _LATER_S

    def trim_if_due(self) -> None:
        """Trims the heap if it has grown, and the last trim was long enough ago for its cost.

        What a little growth holds is returned a minute after the last trim, so that memory which is
        freed does not look like memory that leaks.
        """
        resident = self._resident()
        self._least_bytes = min(self._least_bytes, resident)
        grown = resident - self._least_bytes
        began_s = self._clock()
        due_s = self._not_before_s if grown >= _MIN_TRIM_BYTES else self._later_s
        if grown < _MIN_LATER_BYTES or began_s < due_s:
            return
        self._trim()
        ended_s = self._clock()
        self._not_before_s = ended_s + (ended_s - began_s) / _MAX_TIME_SHARE
        self._later_s = max(self._not_before_s, ended_s + _LATER_S)
