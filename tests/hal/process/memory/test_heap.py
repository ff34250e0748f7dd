"""Freed memory that returns to the system."""

import os
import subprocess
import sys

import pytest

from neurald.hal.process.memory.heap import HeapTrimmer, allocated_bytes, live_bytes, resident_bytes

MIB = 1 << 20


class Process:
    """A process with this much memory, of which half can be returned in this long."""

    def __init__(self) -> None:
        self.bytes = 50 * MIB
        self.now = 100.0
        self.trim_s = 0.0
        self.trims = 0

    def trim(self) -> None:
        self.trims += 1
        self.now += self.trim_s

    def heap(self) -> HeapTrimmer:
        return HeapTrimmer(lambda: self.bytes, self.trim, lambda: self.now)


def test_only_what_is_worthwhile_is_given_back() -> None:
    process = Process()
    heap = process.heap()
    for process.bytes in (50 * MIB, 57 * MIB, 10 * MIB, 17 * MIB):
        heap.trim_if_due()
    assert process.trims == 0
    process.bytes = 18 * MIB
    heap.trim_if_due()
    heap.trim_if_due()
    assert process.trims == 2, "what is freed later looks like what is still used"


def test_a_little_is_given_back_after_a_while() -> None:
    process = Process()
    heap = process.heap()
    trims = []
    for grown in (51 * MIB, 50 * MIB + 4096):
        process.bytes = grown
        for _ in range(200):
            heap.trim_if_due()
            process.now += 1.0
        trims.append(process.trims)
    assert trims == [3, 3]
    process.bytes = 58 * MIB
    heap.trim_if_due()
    assert process.trims == 4, "much is given back at once"


@pytest.mark.parametrize("grown", [1 * MIB, 450 * MIB])
def test_it_takes_little_time(grown: int) -> None:
    process = Process()
    heap = process.heap()
    process.bytes, process.trim_s = 50 * MIB + grown, 0.2
    began = process.now
    while process.now < began + 200:
        heap.trim_if_due()
        process.now += 0.5
    assert (5 if grown >= 8 * MIB else 2) <= process.trims <= 10


def test_this_process_has_memory() -> None:
    assert 5 * MIB < resident_bytes() < 1 << 40


PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from neurald.hal.process.memory.heap import HeapTrimmer, resident_bytes, use_one_arena
use_one_arena()
heap = HeapTrimmer()
bytearray(30 << 20)  # glibc keeps this much from now on
before = resident_bytes()
with ThreadPoolExecutor(1) as thread:
    pieces = thread.submit(lambda: [bytearray(2000) for _ in range(20_000)]).result()
    kept = pieces[int(sys.argv[1])]
    del pieces
    freed = resident_bytes()
    heap.trim_if_due()
    print(before, freed, resident_bytes())
"""


@pytest.mark.skipif("glibc" not in os.confstr("CS_GNU_LIBC_VERSION").lower(), reason="another allocator")  # type: ignore[union-attr]
@pytest.mark.parametrize("kept", [0, -1])
def test_glibc_gives_back_what_a_thread_has_freed(kept: int) -> None:
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(kept)], capture_output=True, text=True, check=True
    ).stdout
    before, freed, after = map(int, output.split())
    assert freed > before + 30 * MIB, "it would have been kept"
    assert after < before + 8 * MIB


IN_USE = """
from neurald.hal.process.memory.heap import keep_freed_memory, live_bytes, resident_bytes, use_one_arena

use_one_arena()
keep_freed_memory()
live_bytes()

def memory():
    return live_bytes(), resident_bytes()

found = [memory()]
blocks = [b"x" * 300_000 for _ in range(50)]
small = [bytes(200) for _ in range(20_000)]
found.append(memory())
pinning = b"x" * 300_000
del blocks
found.append(memory())
del small
for live, resident in found:
    print(live, resident)
"""


@pytest.mark.skipif("glibc" not in os.confstr("CS_GNU_LIBC_VERSION").lower(), reason="another allocator")  # type: ignore[union-attr]
def test_freed_memory_is_not_in_use() -> None:
    output = subprocess.run([sys.executable, "-c", IN_USE], check=True, capture_output=True, text=True).stdout
    before, used, freed = (tuple(map(int, line.split())) for line in output.splitlines())
    assert used[0] - before[0] == pytest.approx(50 * 300_000 + 20_000 * 248, rel=0.05)
    assert freed[0] - before[0] == pytest.approx(300_000 + 20_000 * 248, rel=0.1)
    assert freed[1] > used[1] - MIB, "it has been kept"


def test_memory_in_use_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neurald.hal.process.memory.heap._mallinfo", lambda: None)
    assert live_bytes() == pytest.approx(resident_bytes(), abs=MIB)
    assert allocated_bytes() == pytest.approx(resident_bytes(), abs=MIB)


ALLOCATED = """
from neurald.hal.process.memory.heap import allocated_bytes, keep_freed_memory, use_one_arena

use_one_arena()
keep_freed_memory()
found = [allocated_bytes()]
large = [bytes(300_000) for _ in range(50)]
huge = bytes(40 << 20)
found.append(allocated_bytes())
small = [[number] for number in range(200_000)]
found.append(allocated_bytes())
del large, huge, small
found.append(allocated_bytes())
print(*found)
"""


@pytest.mark.skipif("glibc" not in os.confstr("CS_GNU_LIBC_VERSION").lower(), reason="another allocator")  # type: ignore[union-attr]
def test_large_and_small_objects_are_allocated_until_they_go() -> None:
    output = subprocess.run(
        [sys.executable, "-c", ALLOCATED], check=True, capture_output=True, text=True
    ).stdout
    before, large, small, after = map(int, output.split())
    assert large - before == pytest.approx(50 * 300_000 + (40 << 20), rel=0.05)
    # A list, its array and mostly a number, which take 120 bytes.
    assert 0.5 < (small - large) / (200_000 * 120) < 2
    assert after - before < MIB


KEPT = """
import resource
import sys
from neurald.hal.process.memory.heap import keep_freed_memory, use_one_arena

if sys.argv[1] == "kept":
    use_one_arena()
    keep_freed_memory()

def use():
    blocks = [b"x" * 600_000 for _ in range(4)]

for _ in range(5):
    use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif("glibc" not in os.confstr("CS_GNU_LIBC_VERSION").lower(), reason="another allocator")  # type: ignore[union-attr]
def test_freed_memory_is_kept_for_the_next_call() -> None:
    faults = {
        way: int(subprocess.run([sys.executable, "-c", KEPT, way], check=True, capture_output=True).stdout)
        for way in ("kept", "returned")
    }
    assert faults["kept"] < 100 < faults["returned"]
