"""Fences, which signal once, in any process."""

import os
import threading

import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.memory import pool
from neurald.hal.sync import fence as fences
from neurald.hal.sync.fence import Fence

pytestmark = pytest.mark.quick


def test_a_fence_signals_once_and_for_all() -> None:
    fence = Fence()
    assert not fence.is_signalled
    fence.signal()
    fence.signal()
    assert fence.is_signalled
    assert fence.wait(0)
    assert fence.wait()


def test_waiting_ends_with_the_time() -> None:
    assert not Fence().wait(0.01)


def test_waiting_ends_with_the_signal() -> None:
    fence = Fence()
    thread = threading.Thread(target=fence.signal)
    thread.start()
    assert fence.wait(30)
    thread.join()


def test_a_received_descriptor_is_the_same_fence() -> None:
    fence = Fence()
    other = Fence.received(os.dup(fence.fd))
    other.signal()
    assert fence.is_signalled


def test_nothing_else_is_a_fence() -> None:
    read, write = os.pipe()
    with pytest.raises(BadData, match="eventfd"):
        Fence.received(read)
    os.close(write)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read)


def test_a_closed_descriptor_is_refused() -> None:
    with pytest.raises(BadData, match="descriptor 12345"):
        Fence.received(12345)


def test_a_fence_that_its_holder_has_filled_still_signals() -> None:
    fence = Fence()
    os.eventfd_write(fence.fd, 2**64 - 2)
    fence.signal()
    assert fence.is_signalled


@sweep("is_full", [True, False])
def test_a_fence_whose_holder_made_it_block_never_blocks_another_one(is_full: bool) -> None:
    descriptor = os.eventfd(0, os.EFD_CLOEXEC)
    fence = Fence.received(os.dup(descriptor))
    if is_full:
        os.eventfd_write(descriptor, 2**64 - 2)
    thread = threading.Thread(target=fence.signal, daemon=True)
    thread.start()
    thread.join(60)
    was_waiting = thread.is_alive()
    if is_full:
        os.eventfd_read(descriptor)  # which lets it go
    assert not was_waiting
    os.close(descriptor)


def test_a_holder_that_fills_a_fence_at_the_last_moment_does_not_block_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    descriptor = os.eventfd(0, os.EFD_CLOEXEC)
    fence = Fence.received(os.dup(descriptor))
    # What the poll of `signal` sees is an empty one.
    monkeypatch.setattr(Fence, "wait", lambda fence, timeout_s=None: False)
    os.eventfd_write(descriptor, 2**64 - 2)
    thread = threading.Thread(target=fence.signal, daemon=True)
    thread.start()
    thread.join(60)
    was_waiting = thread.is_alive()
    os.eventfd_read(descriptor)
    assert not was_waiting
    os.close(descriptor)


@sweep("kind", ["a fence", "a memory"])
def test_descriptors_are_closed_without_the_names_of_their_module(kind: str) -> None:
    """When the interpreter ends, modules may lose their names before their objects."""
    made, module = (Fence(), fences) if kind == "a fence" else (pool.SharedMemory.allocate(8), pool)
    descriptor = made.fd
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "os", None)
        made.__del__()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
