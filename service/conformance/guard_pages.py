"""Memory beside pages that must not be touched: the processor stops whatever reads or writes past its end, or before its start."""

import ctypes
import functools
import mmap
from collections.abc import Callable
from enum import Enum

import numpy as np

from neurald.hal.errors import OutOfMemory
from neurald.hal.memory.pool import HostMemory, anonymous

#: Bytes before and behind a buffer's pages that must not be touched: what misses them by more meets memory of others.
FENCE_BYTES = 1 << 18
_PROT_NONE = 0
#: What memory holds before anything is written to it: an output that nothing is written to must not pass for zeros.
_FILL = 0xA5


class Placement(Enum):
    """At which end of its pages a buffer lies. Its start is aligned for its elements only, as the HAL promises no more.

    BEFORE: its last byte is the last one before a page that must not be touched.
    BEHIND: its first byte is the first one behind such a page.
    """

    BEFORE = "before guard pages"
    BEHIND = "behind guard pages"


class FencedMemory(HostMemory):
    """Memory of this process whose neighbours are guard pages. They go with the last view of it.

    Attributes:
        mapped: where its pages and its guard pages begin and end in this process.

    Args:
        size: its bytes; a memory without any has one.
        placement: at which end of its pages it lies.
        content: what it holds; as many bytes, or none, which leaves it filled with a pattern.

    Raises:
        OutOfMemory: the system has no such memory left.
    """

    def __init__(self, size: int, placement: Placement, content: bytes = b"") -> None:
        size = max(1, size)
        inner = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            mapping = anonymous(inner + 2 * FENCE_BYTES)
        except OSError as error:
            raise OutOfMemory(f"{size} bytes between guard pages: {error}") from None
        whole = np.frombuffer(mapping, np.uint8)
        begin: int = whole.ctypes.data
        self.mapped = (begin, begin + whole.size)
        for fence in (begin, begin + FENCE_BYTES + inner):
            _protect(fence, FENCE_BYTES)
        pages = whole[FENCE_BYTES : FENCE_BYTES + inner]
        pages[:] = _FILL
        own = pages[inner - size :] if placement is Placement.BEFORE else pages[:size]
        super().__init__(own)
        self.view(0, len(content))[:] = content


def _protect(address: int, size: int) -> None:
    """Lets nobody touch these pages.

    Raises:
        OutOfMemory: the system can keep no more ranges of pages apart.
    """
    if _mprotect()(address, size, _PROT_NONE):
        raise OutOfMemory(f"guard pages of {size} bytes: errno {ctypes.get_errno()}")


@functools.cache
def _mprotect() -> Callable[[int, int, int], int]:
    call = ctypes.CDLL(None, use_errno=True).mprotect
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    call.restype = ctypes.c_int
    found: Callable[[int, int, int], int] = call
    return found
