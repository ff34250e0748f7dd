"""Pages are provided once, in order, and nothing else is written."""

import mmap
import resource

import numpy as np

from neurald.hal.memory.pool import HostMemory
from neurald.hal.memory.private_memory import anonymous
from neurald.hal.memory.untouched_pages import UntouchedPages

PAGES = 512


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def test_what_was_touched_is_written_without_faults() -> None:
    memories = [HostMemory(anonymous(PAGES * mmap.PAGESIZE)) for _ in range(2)]
    pages = UntouchedPages(memories)
    for _ in range(8):
        pages.touch(1 / 8)
    before = faults()
    for memory in memories:
        np.asarray(memory.view())[...] = 1
    assert faults() - before < PAGES / 4


def test_shares_reach_the_end_of_memories_of_any_size() -> None:
    memories = [HostMemory(bytearray(size)) for size in (1, 5000, 1 << 20, 3)]
    pages = UntouchedPages(memories)
    for share in (0.0, 1e-9, 0.3, 0.3, 0.5, 2.0):
        pages.touch(share)
    assert not any(bytes(memory.view()).strip(b"\0") for memory in memories)
    UntouchedPages(()).touch(1.0)
