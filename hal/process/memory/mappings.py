"""Maps memory at addresses, which Python's `mmap` module does not do."""

import ctypes
import mmap
import os
from functools import cache
from typing import Any, Final

#: The same on all architectures with Python wheels; the module `mmap` lacks it.
MAP_FIXED: Final = 0x10
_FAILED: Final = ctypes.c_void_p(-1).value


def map_memory(address: int | None, size: int, protection: int, flags: int, fd: int, offset: int) -> int:
    """Maps memory as `mmap(2)` does, and returns its address.

    Raises:
        OSError: it cannot be mapped.
    """
    start: int | None = _calls().mmap(address, size, protection, flags, fd, offset)
    if start is None or start == _FAILED:
        raise _error()
    return start


def map_anonymous(size: int) -> int:
    """Maps writable memory of this process alone, and returns its address; see `map_memory`."""
    return map_memory(
        None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )


def unmap_memory(address: int, size: int) -> None:
    """Unmaps what `map_memory` has mapped."""
    _calls().munmap(address, size)


def protect_memory(address: int, size: int, protection: int) -> None:
    """Changes how memory can be used, in whole pages.

    Raises:
        OSError: it cannot be used so.
    """
    if _calls().mprotect(address, size, protection):
        raise _error()


def _error() -> OSError:
    """Returns the error of the call that has failed in this thread."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


@cache
def _calls() -> Any:
    """Returns the C library with the signatures of the functions used here."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library
