"""Memory that many executions use is pinned for as long as it exists."""

import gc
import mmap
import os
from typing import Any

import numpy as np
import pytest

from neurald.drivers.opencl.platform import pinned_memory
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.pinned_memory import PinnedMemory
from neurald.hal.memory.pool import HostMemory, Memory

_BYTES = 1 << 18


@pytest.fixture
def pinned(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> PinnedMemory:
    """Returns what pins memory for a device that passes for one of NVIDIA."""
    monkeypatch.setattr(type(opencl.facts), "is_nvidia", True)
    return PinnedMemory(opencl.facts, opencl.state, opencl.context)


def pinned_ranges(pinned: PinnedMemory) -> list[tuple[int, int]]:
    return [place for each in pinned._buffers.values() for place in each]


def host_memory(size_bytes: int = _BYTES) -> HostMemory:
    return HostMemory(np.zeros(size_bytes, np.uint8))


def test_a_range_is_pinned_once_and_until_its_memory_is_garbage(pinned: PinnedMemory) -> None:
    shared, private = Memory.allocate(2 * _BYTES), host_memory()
    for _ in range(2):
        assert pinned.pin(shared, 0, _BYTES)
        assert pinned.pin(shared, _BYTES, _BYTES)
        assert pinned.pin(private, 0, _BYTES)
    assert sorted(pinned_ranges(pinned)) == [(0, _BYTES), (0, _BYTES), (_BYTES, _BYTES)]
    shared.close()
    assert len(pinned_ranges(pinned)) == 3
    del shared
    gc.collect()
    assert pinned_ranges(pinned) == [(0, _BYTES)]
    del private
    gc.collect()
    assert not pinned_ranges(pinned)


def test_contents_are_those_of_the_memory(pinned: PinnedMemory, opencl: DeviceContext) -> None:
    import pyopencl as cl

    array = np.random.default_rng(1).integers(0, 256, _BYTES + 100, np.uint8)
    before = array.copy()
    assert pinned.pin(HostMemory(array), 100, _BYTES)
    np.testing.assert_array_equal(array, before)
    array += 1
    read = np.empty(_BYTES, np.uint8)
    queue = opencl.queue()
    buffer = cl.Buffer(opencl.context, cl.mem_flags.READ_WRITE, _BYTES)
    cl.enqueue_copy(queue, buffer, array[100:], is_blocking=True)
    cl.enqueue_copy(queue, read, buffer, is_blocking=True)
    np.testing.assert_array_equal(read, array[100:])


def test_what_cannot_be_pinned_or_does_not_pay_is_not(
    pinned: PinnedMemory, opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = np.zeros(_BYTES, np.uint8)
    fixed.flags.writeable = False
    assert not pinned.pin(HostMemory(fixed), 0, _BYTES)
    assert not pinned.pin(host_memory(), 0, 100)
    with mmap.mmap(-1, _BYTES, access=mmap.ACCESS_READ) as mapping:
        memory = HostMemory(mapping)
        assert not pinned.pin(memory, 0, _BYTES)
        del memory
    monkeypatch.setattr(pinned_memory, "MAX_PINNED_BYTES", 2 * _BYTES)
    kept = [host_memory() for _ in range(3)]
    assert [pinned.pin(each, 0, _BYTES) for each in kept] == [True, True, False]
    kept.pop(0)
    gc.collect()
    assert pinned.pin(kept[-1], 0, _BYTES)
    monkeypatch.setattr(type(opencl.facts), "is_nvidia", False)
    others = PinnedMemory(opencl.facts, opencl.state, opencl.context)
    assert not others.pin(Memory.allocate(_BYTES), 0, _BYTES)


@pytest.mark.parametrize(
    ("release", "keeps"), [("5.12.0-1-generic", True), ("6.1", True), ("5.4.0", False), ("odd", False)]
)
def test_private_memory_is_pinned_where_forks_keep_its_pages(
    pinned: PinnedMemory, monkeypatch: pytest.MonkeyPatch, release: str, keeps: bool
) -> None:
    fields = list(os.uname())
    fields[2] = release
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(fields))
    assert pinned.pin(host_memory(), 0, _BYTES) is keeps
    assert pinned.pin(Memory.allocate(_BYTES), 0, _BYTES)


def test_executions_go_on_if_the_device_cannot_pin(
    pinned: PinnedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyopencl as cl

    def refuse(*_: Any, **__: Any) -> None:
        raise cl.MemoryError("pinning", cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE)

    monkeypatch.setattr(cl, "Buffer", refuse)
    assert not pinned.pin(host_memory(), 0, _BYTES)
    assert not pinned_ranges(pinned)


def test_a_forked_child_releases_nothing(pinned: PinnedMemory) -> None:
    memory = host_memory()
    assert pinned.pin(memory, 0, _BYTES)
    pinned_memory._release(pinned._buffers, id(memory), os.getpid() + 1)
    assert pinned_ranges(pinned) == [(0, _BYTES)]
