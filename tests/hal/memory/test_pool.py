"""Memory pools: bounds, seals, and invalid descriptors."""

import fcntl
import gc
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.daemon.open_files import open_files
from support.process.resident import resident_bytes
from support.sweeps import sweep
from support.waiting import wait_until

import neurald as nd
from neurald.hal.errors import BadData, BadState, OutOfMemory, Unmappable, WrongType
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory, checked_range, leave_all_pages
from neurald.hal.memory.private_memory import anonymous

pytestmark = pytest.mark.quick


def test_parts_that_are_read_once_leave_the_process() -> None:
    size = (1 << 20) + 100
    content = os.urandom(size)
    memory = SharedMemory.constant(memoryview(content))
    assert resident_bytes(memory) == 0
    assert b"".join(map(bytes, memory.parts())) == content
    assert resident_bytes(memory) == 0
    # Pages that are only in part in the range may stay.
    for offset, length in ((100, 5000), (12345, 900_000), (mmap.PAGESIZE, 3 * mmap.PAGESIZE)):
        assert b"".join(map(bytes, memory.parts(offset, length))) == content[offset : offset + length]
        assert resident_bytes(memory) <= 1 << 17
    assert bytes(memory.view()) == content
    assert resident_bytes(memory) >= size
    assert [*memory.parts(size, 0)] == []
    with pytest.raises(BadData):
        next(memory.parts(size, 1))


def test_all_pages_leave_the_process_and_come_back() -> None:
    content = os.urandom((1 << 20) + 100)
    memory = SharedMemory.constant(memoryview(content))
    for _ in range(2):
        assert bytes(memory.view()) == content
        assert resident_bytes(memory) >= len(content)
        leave_all_pages(memory)
        assert resident_bytes(memory) == 0


def test_parts_of_private_memory_stay() -> None:
    private = anonymous(3 * mmap.PAGESIZE)
    private[:] = b"x" * len(private)
    assert b"".join(HostMemory(private).parts()) == b"x" * len(private)
    leave_all_pages(HostMemory(private))
    assert private[:] == b"x" * len(private)


def test_ranges_are_copied_one_after_the_other() -> None:
    first, second = HostMemory(bytes(range(200))), SharedMemory.constant(memoryview(b"abcdef" * 70_000))
    copied = SharedMemory.constants([(first, 3, 100), (second, 6, 400_000), (first, 0, 1)])
    assert copied.readonly
    assert copied.size == 128 + 400_000 + 1
    assert bytes(copied.view(0, 100)) == bytes(range(3, 103))
    assert bytes(copied.view(100, 28)) == bytes(28)
    assert bytes(copied.view(128, 400_000)) == (b"abcdef" * 70_000)[6:400_006]
    assert bytes(copied.view(128 + 400_000)) == b"\0"
    SharedMemory.check(copied.fd, copied.size, constant=True)
    with pytest.raises(BadData):
        SharedMemory.constants([(first, 100, 101)])


@given(st.integers(-5, 50), st.integers(-5, 50), st.integers(0, 50))
def test_checked_range_accepts_exactly_what_lies_inside(offset: int, length: int, size: int) -> None:
    inside = 0 <= offset <= offset + length <= size and length >= 0
    if inside:
        checked_range(offset, length, size, "it")
    else:
        with pytest.raises(BadData, match="it: "):
            checked_range(offset, length, size, "it")


def test_checked_range_with_huge_numbers() -> None:
    with pytest.raises(BadData):
        checked_range(2**64 - 8, 16, 2**32, "it")


def test_host_memory_is_not_copied() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    memory = HostMemory(array)
    assert memory.size == 48
    assert not memory.readonly
    np.frombuffer(memory.view(4, 4), np.int32)[0] = 77
    assert array[0, 1] == 77


def test_host_memory_of_nothing_and_of_bytes() -> None:
    assert HostMemory(np.zeros((0, 3), np.float32)).size == 0
    assert HostMemory(b"abc").readonly
    assert bytes(HostMemory(b"abc").view(1)) == b"bc"


def test_host_memory_must_be_contiguous() -> None:
    with pytest.raises(BadData, match="contiguous"):
        HostMemory(np.zeros((4, 4))[:, ::2])


@sweep("value", [None, "a", 1.5, b"", [1], object(), np.zeros(3), np.zeros((2, 3), np.float32)])
def test_arguments_of_other_types_are_refused(value: Any) -> None:
    memory = Memory.allocate(24)
    calls: list[Callable[[], object]] = [
        lambda: memory.view(value),
        lambda: list(memory.parts(value)),
        lambda: memory.read(value),
        lambda: memory.write(value),
    ]
    if value is not None:
        calls += [lambda: memory.view(0, value), lambda: list(memory.parts(0, value))]
    for call in calls:
        with pytest.raises(WrongType):
            call()


def test_views_are_checked() -> None:
    memory = HostMemory(bytes(10))
    for offset, length in ((0, 11), (10, 1), (-1, 2), (11, None), (5, -1)):
        with pytest.raises(BadData):
            memory.view(offset, length)
    assert memory.view(10).nbytes == 0


@sweep("size", [0, -1])
def test_shared_memory_of_no_size(size: int) -> None:
    with pytest.raises(BadData):
        nd.Memory.allocate(size)


def test_shared_memory_beyond_all_limits() -> None:
    with pytest.raises(OutOfMemory):
        nd.Memory.allocate(1 << 62)


def test_shared_memory_cannot_change_its_size() -> None:
    memory = nd.Memory.allocate(5000)
    for size in (0, 4999, 5001):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.fd, size)
    again = SharedMemory.received(os.dup(memory.fd), 5000, constant=False)
    again.view()[:3] = b"abc"
    assert bytes(memory.view(0, 3)) == b"abc"


def test_constants_cannot_be_written() -> None:
    memory = SharedMemory.constant(memoryview(b"abcdef"))
    assert memory.readonly
    assert bytes(memory.view()) == b"abcdef"
    with pytest.raises(PermissionError):
        os.pwrite(memory.fd, b"x", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(memory.fd, 6)
    assert bytes(SharedMemory.received(os.dup(memory.fd), 6, constant=True).view()) == b"abcdef"


def unsealed(size: int) -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    return fd


def test_received_memory_must_be_sealed_and_of_the_announced_size(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(64))
    partly = unsealed(64)
    fcntl.fcntl(partly, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    writable = nd.Memory.allocate(64)
    for fd, size, constant in (
        (unsealed(64), 64, False),
        (partly, 64, False),
        (os.dup(writable.fd), 63, False),
        (os.dup(writable.fd), 65, False),
        (os.dup(writable.fd), 64, True),
        (os.open(path, os.O_RDWR), 64, False),
        (os.pipe()[0], 64, False),
    ):
        with pytest.raises(BadData):
            SharedMemory.received(fd, size, constant=constant)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_descriptors_are_closed() -> None:
    before = open_files()
    kept = [nd.Memory.allocate(4096) for _ in range(20)]
    kept += [SharedMemory.constant(memoryview(b"x")) for _ in range(20)]
    wait_until(lambda: len(open_files() - before) == 40 * 2)  # mmap duplicates the descriptor
    view = kept[0].view()
    kept[0].close()
    view[:3] = b"abc"
    with pytest.raises(BadState):
        _ = kept[0].fd
    del kept, view
    gc.collect()
    wait_until(lambda: not open_files() - before)


@sweep("offset", [0, 5, 4096, 4100])
def test_from_fd(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "file"
    content = os.urandom(9000)
    path.write_bytes(content)
    with path.open("rb") as file:
        memory = Memory.from_fd(file.fileno(), 1000, offset)
    assert memory.readonly
    assert bytes(memory.view()) == content[offset : offset + 1000]
    with path.open("r+b") as file:
        Memory.from_fd(file.fileno(), 10, offset).view()[:2] = b"ab"
    assert path.read_bytes()[offset : offset + 2] == b"ab"


@sweep("buffer", [np.zeros(6), memoryview(b"four").cast("i"), b"bytes", None], ids=str)
def test_a_memory_is_made_of_bytes(buffer: Any) -> None:
    with pytest.raises(WrongType, match=r"a memoryview of single bytes is expected\. Memory\.allocate"):
        Memory(buffer)
    assert Memory(memoryview(b"bytes")).size == 5


def test_from_fd_refuses(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    with path.open("rb") as file:
        fd = file.fileno()
        for size, offset in ((101, 0), (1, 100), (0, 0), (-1, 0), (10, -1)):
            with pytest.raises(BadData):
                Memory.from_fd(fd, size, offset)
    for bad in (fd, -1, 10**6):
        with pytest.raises(BadData):
            Memory.from_fd(bad, 1)
    with path.open("wb") as file:
        file.write(bytes(10))
        file.flush()
        with pytest.raises(Unmappable):
            Memory.from_fd(file.fileno(), 5)
