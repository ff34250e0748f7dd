"""Memory between guard pages: an access outside of it is a fault."""

import ctypes
import functools
import mmap
from collections.abc import Callable
from enum import Enum

import numpy as np

from neurald.hal.errors import OutOfMemory
from neurald.hal.memory.pool import HostMemory
from neurald.hal.memory.private_memory import anonymous

#: Size of the guard pages on each side. Accesses farther away are not detected.
GUARD_PAGES_BYTES = 1 << 18
_PROT_NONE = 0
#: Initial contents, which distinguish an unwritten output from zeros.
_FILL = 0xA5


class GuardPlacement(Enum):
    """The side of a buffer on which guard pages are adjacent.

    A buffer before guard pages may start at any address, since the HAL promises no alignment.

    Attributes:
        BEFORE: the buffer ends where guard pages begin.
        BEHIND: the buffer begins where guard pages end.
    """

    BEFORE = "before guard pages"
    BEHIND = "behind guard pages"


class GuardPageMemory(HostMemory):
    """Memory of this process between guard pages, which are unmapped with its last view.

    Attributes:
        mapped: the start of the guard pages before it, and the end of those behind it.

    Args:
        size: the size in bytes. A size of 0 is increased to 1.
        placement: the side with adjacent guard pages.
        content: the contents, of `size` bytes. Without them a pattern fills the memory.

    Raises:
        OutOfMemory: the memory cannot be allocated or protected.
    """

    def __init__(self, size: int, placement: GuardPlacement, content: bytes = b"") -> None:
        size = max(1, size)
        inner = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            mapping = anonymous(inner + 2 * GUARD_PAGES_BYTES)
        except OSError as error:
            raise OutOfMemory(f"cannot allocate {size} bytes between guard pages: {error}") from None
        whole = np.frombuffer(mapping, np.uint8)
        begin: int = whole.ctypes.data
        self.mapped = (begin, begin + whole.size)
        for guard in (begin, begin + GUARD_PAGES_BYTES + inner):
            _protect(guard, GUARD_PAGES_BYTES)
        pages = whole[GUARD_PAGES_BYTES : GUARD_PAGES_BYTES + inner]
        pages[:] = _FILL
        own = pages[inner - size :] if placement is GuardPlacement.BEFORE else pages[:size]
        super().__init__(own)
        self.view(0, len(content))[:] = content


def _protect(address: int, size: int) -> None:
    """Forbids every access to these pages.

    Raises:
        OutOfMemory: the process has too many mappings.
    """
    if _mprotect()(address, size, _PROT_NONE):
        raise OutOfMemory(f"cannot protect {size} bytes of guard pages: errno {ctypes.get_errno()}")


@functools.cache
def _mprotect() -> Callable[[int, int, int], int]:
    """Returns mprotect(2)."""
    call = ctypes.CDLL(None, use_errno=True).mprotect
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    call.restype = ctypes.c_int
    found: Callable[[int, int, int], int] = call
    return found
