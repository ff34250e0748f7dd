"""Memory between guard pages: where it lies, what it holds, and what an access beside it does."""

import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from neurald.service.conformance.guard.guard_pages import FENCE_BYTES, FencedMemory, Placement

SIZES = (0, 1, 5, mmap.PAGESIZE - 1, mmap.PAGESIZE, mmap.PAGESIZE + 1)


@pytest.mark.parametrize("size", SIZES)
def test_it_ends_where_guard_pages_begin(size: int) -> None:
    memory = FencedMemory(size, Placement.BEFORE)
    first, end = memory.mapped
    assert memory.address + memory.size == end - FENCE_BYTES
    assert (end - FENCE_BYTES) % mmap.PAGESIZE == 0
    assert first <= memory.address - FENCE_BYTES


@pytest.mark.parametrize("size", SIZES)
def test_it_begins_where_guard_pages_end(size: int) -> None:
    memory = FencedMemory(size, Placement.BEHIND)
    first, end = memory.mapped
    assert memory.address == first + FENCE_BYTES
    assert memory.address % mmap.PAGESIZE == 0
    assert memory.address + memory.size <= end - FENCE_BYTES


@pytest.mark.parametrize("placement", Placement)
def test_it_is_memory_as_any_other(placement: Placement) -> None:
    memory = FencedMemory(3, placement, b"abc")
    assert (memory.size, bytes(memory.view())) == (3, b"abc")
    memory.view(2, 1)[:] = b"d"
    assert bytes(memory.view()) == b"abd"
    assert any(FencedMemory(3, placement).view()), "what nothing was written to must not look like zeros"


@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize("offset", [-FENCE_BYTES, -1, 0, 2, 3, FENCE_BYTES - 1 + 3])
def test_the_processor_stops_who_leaves_it(placement: Placement, offset: int) -> None:
    """The page itself may be touched, on the side that is not guarded."""
    code = (
        "import ctypes\n"
        "from neurald.service.conformance.guard.guard_pages import FencedMemory, Placement\n"
        f"memory = FencedMemory(3, {placement}, b'abc')\n"
        f"print(ctypes.string_at(memory.address + {offset}, 1))\n"
    )
    paths = [str(Path(__file__).parents[4] / "src")]
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths}\n{code}"],
        capture_output=True,
        check=False,
    )
    is_inside = 0 <= offset < 3
    is_guarded = offset < 0 if placement is Placement.BEHIND else offset > 2
    is_far = abs(offset) > mmap.PAGESIZE
    assert process.returncode == (-11 if is_guarded or is_far else 0), process.stderr
    if is_inside:
        assert process.stdout.decode().strip() == str("abc"[offset].encode())


def test_pages_go_with_the_memory() -> None:
    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    kept = FencedMemory(5, Placement.BEFORE, b"12345").view()
    before = mappings()
    for _ in range(200):
        FencedMemory(5, Placement.BEFORE)
    assert mappings() < before + 50
    assert bytes(kept) == b"12345", "a view keeps them"
