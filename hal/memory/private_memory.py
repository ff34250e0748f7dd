"""Memory that only this process uses: on the heap, aligned, or on huge pages; and its addresses."""

import contextlib
import ctypes
import mmap
import sys
from functools import cache
from typing import Any, Final

from neurald.hal.lazy_numpy import np
from neurald.hal.memory.alignment import ALIGNMENT

#: Size of the huge pages of most machines, and the least size of memory that gets any.
_HUGE_BYTES: Final = 1 << 21
_MIN_HUGE_BYTES: Final = 1 << 19
#: Smaller memory is on the heap; mapping pages for it takes ten times as long.
_MIN_MAPPED_BYTES: Final = 1 << 16


def aligned_zeros(size_bytes: int, alignment: int = ALIGNMENT) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Returns zeroed memory of this process whose start is a multiple of `alignment`."""
    room = np.zeros(size_bytes + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    # The first slice is not empty, so that it starts where it says: NumPy lets an empty slice
    # start where its array starts.
    return room[start:][:size_bytes]


def anonymous(size_bytes: int, *, is_used_soon: bool = False) -> mmap.mmap:
    """Allocates zeroed private memory.

    A forked child gets a copy; `mmap.mmap(-1, …)` would be shared.

    Args:
        size_bytes: the size in bytes of the memory.
        is_used_soon: whether the system is to provide all its pages now.

    Raises:
        OSError: there is not enough memory.
    """
    populate = mmap.MAP_POPULATE if is_used_soon else 0
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | populate)


def anonymous_whole(size_bytes: int) -> memoryview:
    """Allocates zeroed private memory that is about to be filled as a whole.

    Large memory is on huge pages where the system has any: getting pages one by one takes longer
    than filling them. It begins at a multiple of `ALIGNMENT`.

    Raises:
        OSError: there is not enough memory.
    """
    if size_bytes < _MIN_MAPPED_BYTES:
        heap = memoryview(bytearray(size_bytes + ALIGNMENT))
        first = -buffer_address(heap) % ALIGNMENT
        return heap[first : first + size_bytes]
    if size_bytes < _MIN_HUGE_BYTES:
        return memoryview(anonymous(size_bytes, is_used_soon=True))
    # Its end is on a huge page, too, since a small page takes 1 µs on virtual machines: 100 of
    # them take longer than copying 2 MiB.
    huge_bytes = -(-size_bytes // _HUGE_BYTES) * _HUGE_BYTES
    room = anonymous(huge_bytes + _HUGE_BYTES)
    content = memoryview(room)
    start = -buffer_address(content) % _HUGE_BYTES
    with contextlib.suppress(OSError):  # A system without huge pages.
        room.madvise(mmap.MADV_HUGEPAGE, start, huge_bytes)
    return content[start : start + size_bytes]


class _Buffer(ctypes.Structure):
    """CPython's `Py_buffer`, up to the fields that are read."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("size_bytes", ctypes.c_ssize_t),
        ("others", ctypes.c_void_p * 8),
    )


def buffer_address(content: memoryview) -> int:
    """Returns the address of the first byte of contiguous bytes; 0 if there are none."""
    if not content.nbytes:
        return 0
    if not content.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(content))
    if sys.implementation.name != "cpython":
        address: int = np.frombuffer(content, np.uint8).ctypes.data
        return address
    buffer = _Buffer()
    _python().PyObject_GetBuffer(ctypes.py_object(content), ctypes.byref(buffer), 0)
    try:
        return int(buffer.address or 0)
    finally:
        _python().PyBuffer_Release(ctypes.byref(buffer))


@cache
def _python() -> Any:
    """Returns the interpreter's library; `ctypes.pythonapi` is shared with other modules."""
    return ctypes.PyDLL(None)
