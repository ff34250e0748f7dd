"""Memory that only this process uses: its content, its alignment, and its addresses."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from support.daemon.forking import in_child

from neurald.hal.memory.alignment import ALIGNMENT
from neurald.hal.memory.private_memory import aligned_zeros, anonymous, anonymous_whole, buffer_address

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    "size", [1, 4097, 1 << 16, (1 << 19) - 1, 1 << 19, 1 << 21, (2 << 20) + 1, (5 << 20) + 3]
)
def test_private_memory_of_any_size_is_zero_and_can_be_filled(size: int) -> None:
    memory = anonymous_whole(size)
    assert memory.nbytes == size
    assert not memory.readonly
    assert buffer_address(memory) % ALIGNMENT == 0
    assert memory == bytes(size)
    content = os.urandom(size)
    memory[:] = content
    assert memory == content


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has no huge pages"
)
@pytest.mark.parametrize("size", [1 << 19, 1 << 21, (2 << 20) + 1, (5 << 20) + 3])
def test_large_private_memory_is_on_huge_pages_up_to_its_end(size: int) -> None:
    memory = anonymous_whole(size)
    huge_bytes = 1 << 21
    first = buffer_address(memory)
    assert first % huge_bytes == 0
    end = -(-(first + size) // huge_bytes) * huge_bytes
    advised = 0
    mappings = re.findall(
        r"^([0-9a-f]+)-([0-9a-f]+) .*?^VmFlags:(.*?)$",
        Path("/proc/self/smaps").read_text("ascii"),
        re.M | re.S,
    )
    for begin, limit, flags in mappings:
        if "hg" in flags.split():
            advised += max(0, min(end, int(limit, 16)) - max(first, int(begin, 16)))
    assert advised == end - first


@pytest.mark.parametrize(("size", "alignment"), [(0, 64), (1, 64), (1000, 4096)])
def test_zeros_on_the_heap_are_aligned(size: int, alignment: int) -> None:
    memory = aligned_zeros(size, alignment)
    assert (memory.nbytes, bool(memory.any()), memory.ctypes.data % alignment) == (size, False, 0)


@pytest.mark.forks
@pytest.mark.parametrize("is_used_soon", [False, True])
def test_a_forked_child_gets_a_copy(is_used_soon: bool) -> None:
    memory = anonymous(4096, is_used_soon=is_used_soon)

    def write() -> None:
        memory[:] = b"x" * 4096

    in_child(write)
    assert memory[:] == bytes(4096)


def test_addresses_of_bytes_that_can_be_written_or_not() -> None:
    array = np.arange(8, dtype=np.uint8)
    writable = array.data
    for view in (writable, writable.toreadonly()):
        assert buffer_address(view) == array.ctypes.data
        assert buffer_address(view[3:]) == array.ctypes.data + 3
        assert buffer_address(view[:0]) == 0
