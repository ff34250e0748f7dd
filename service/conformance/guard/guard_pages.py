"""Memory between guard pages: the processor stops any access beyond its end or before its start."""

import ctypes
import functools
import mmap
from collections.abc import Callable
from enum import Enum

import numpy as np

from neurald.hal.errors import OutOfMemory
from neurald.hal.memory.pool import HostMemory, anonymous

#: Size of the guard pages on each side of a buffer. Accesses farther away are not detected.
FENCE_BYTES = 1 << 18
_PROT_NONE = 0
#: Initial contents, so that an unwritten output is not mistaken for zeros.
_FILL = 0xA5


class Placement(Enum):
    """End of its pages at which a buffer lies.

    The start has at most the alignment of the elements, as the HAL promises nothing more.

    BEFORE: the buffer ends where guard pages begin.
    BEHIND: the buffer begins where guard pages end.
    """

    BEFORE = "before guard pages"
    BEHIND = "behind guard pages"


class FencedMemory(HostMemory):
    """Memory of this process between guard pages, which are unmapped with the last view of it.

    Attributes:
        mapped: the first address of the guard pages before it, and the end of those behind it.

    Args:
        size: in bytes; a memory of no bytes is given one.
        placement: at which end of its pages it lies.
        content: `size` bytes to hold; without them a pattern fills it.

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
    """Forbids every access to these pages.

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
