"""Memory between guard pages: location, contents, and accesses outside of it."""

import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from neurald.service.conformance.guard.guard_pages import GUARD_PAGES_BYTES, GuardPageMemory, GuardPlacement

SIZES = (0, 1, 5, mmap.PAGESIZE - 1, mmap.PAGESIZE, mmap.PAGESIZE + 1)


@pytest.mark.parametrize("size", SIZES)
def test_memory_before_guard_pages(size: int) -> None:
    memory = GuardPageMemory(size, GuardPlacement.BEFORE)
    first, end = memory.mapped
    assert memory.address + memory.size == end - GUARD_PAGES_BYTES
    assert (end - GUARD_PAGES_BYTES) % mmap.PAGESIZE == 0
    assert first <= memory.address - GUARD_PAGES_BYTES


@pytest.mark.parametrize("size", SIZES)
def test_memory_behind_guard_pages(size: int) -> None:
    memory = GuardPageMemory(size, GuardPlacement.BEHIND)
    first, end = memory.mapped
    assert memory.address == first + GUARD_PAGES_BYTES
    assert memory.address % mmap.PAGESIZE == 0
    assert memory.address + memory.size <= end - GUARD_PAGES_BYTES


@pytest.mark.parametrize("placement", GuardPlacement)
def test_contents(placement: GuardPlacement) -> None:
    memory = GuardPageMemory(3, placement, b"abc")
    assert (memory.size, bytes(memory.view())) == (3, b"abc")
    memory.view(2, 1)[:] = b"d"
    assert bytes(memory.view()) == b"abd"
    assert any(GuardPageMemory(3, placement).view()), "what nothing was written to must not look like zeros"


@pytest.mark.parametrize("placement", GuardPlacement)
@pytest.mark.parametrize("offset", [-GUARD_PAGES_BYTES, -1, 0, 2, 3, GUARD_PAGES_BYTES - 1 + 3])
def test_accesses_outside_are_faults(placement: GuardPlacement, offset: int) -> None:
    """On the other side, the rest of the page can be accessed."""
    code = (
        "import ctypes\n"
        "from neurald.service.conformance.guard.guard_pages import GuardPageMemory, GuardPlacement\n"
        f"memory = GuardPageMemory(3, {placement}, b'abc')\n"
        f"print(ctypes.string_at(memory.address + {offset}, 1))\n"
    )
    paths = [str(Path(__file__).parents[4] / "src")]
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths}\n{code}"],
        capture_output=True,
        check=False,
    )
    is_inside = 0 <= offset < 3
    is_guarded = offset < 0 if placement is GuardPlacement.BEHIND else offset > 2
    is_far = abs(offset) > mmap.PAGESIZE
    assert process.returncode == (-11 if is_guarded or is_far else 0), process.stderr
    if is_inside:
        assert process.stdout.decode().strip() == str("abc"[offset].encode())


def test_pages_are_unmapped_with_the_last_view() -> None:
    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    kept = GuardPageMemory(5, GuardPlacement.BEFORE, b"12345").view()
    before = mappings()
    for _ in range(200):
        GuardPageMemory(5, GuardPlacement.BEFORE)
    assert mappings() < before + 50
    assert bytes(kept) == b"12345", "a view keeps them"
