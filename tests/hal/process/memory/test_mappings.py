"""Memory that is mapped at addresses."""

import ctypes
import errno
import mmap
import os
import tempfile
from pathlib import Path

import pytest

from neurald.hal.process.memory.mappings import (
    MAP_FIXED,
    map_anonymous,
    map_memory,
    protect_memory,
    unmap_memory,
)

SIZE = 2 * mmap.PAGESIZE


def test_memory_is_mapped_and_unmapped() -> None:
    address = map_anonymous(SIZE)
    assert ctypes.string_at(address, SIZE) == bytes(SIZE)
    ctypes.memset(address, 7, SIZE)
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * SIZE)
        file.flush()
        over = map_memory(
            address, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED | MAP_FIXED, file.fileno(), 0
        )
    assert over == address
    assert ctypes.string_at(address, SIZE) == b"x" * mmap.PAGESIZE + b"\7" * mmap.PAGESIZE
    unmap_memory(address, SIZE)
    maps = Path("/proc/self/maps").read_text()
    assert not any(line.startswith(f"{address:x}-") for line in maps.splitlines())


def test_memory_is_protected() -> None:
    address = map_anonymous(SIZE)
    protect_memory(address, SIZE, mmap.PROT_READ)
    reading, writing = os.pipe()
    # The system call reports what cannot be written to, instead of a signal.
    os.write(writing, b"a")
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.read(reading, ctypes.c_void_p(address), 1) == -1
    assert ctypes.get_errno() == errno.EFAULT
    os.close(reading)
    os.close(writing)
    unmap_memory(address, SIZE)


def test_failures_are_errors() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        map_memory(None, SIZE, mmap.PROT_READ, mmap.MAP_SHARED, -1, 0)
    with pytest.raises(OSError, match="Invalid argument"):
        protect_memory(1, SIZE, mmap.PROT_READ)
