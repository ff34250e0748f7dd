"""Events: how a background execution ends, and fences for other executions."""

import asyncio
import os
import threading

import pytest
from support.errors import error_code
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import DeadObject, MissedDeadlineTransient
from neurald.hal.sync.fence import Fence
from neurald.runtime.execution.background.event import Event


def test_wait_can_be_repeated() -> None:
    event = Event()
    assert not event.is_done
    event.signal(None)
    for _ in range(2):
        event.wait()
        assert event.code is nd.ResultCode.NO_ERROR
    assert event.is_done


def test_each_wait_raises_the_error() -> None:
    event = Event()
    event.signal(DeadObject("gone"))
    for _ in range(2):
        with pytest.raises(DeadObject, match="gone"):
            event.wait()
    assert event.code is nd.ResultCode.DEAD_OBJECT


def test_a_limited_wait() -> None:
    event = Event()
    with pytest.raises(MissedDeadlineTransient):
        event.wait(0.01)
    event.signal(None)
    event.wait(0.01)


def test_coroutines_run_while_another_awaits_an_event() -> None:
    event, failed, ran = Event(), Event.ended(), list[str]()
    failed.signal(DeadObject("gone"))

    async def waiting() -> None:
        await event
        ran.append("awaited")
        with pytest.raises(DeadObject, match="gone"):
            await failed

    async def other() -> None:
        ran.append("other")
        event.signal(None)

    async def both() -> None:
        await asyncio.gather(waiting(), other())

    asyncio.run(both())
    assert ran == ["other", "awaited"]


def test_the_fence_signals_with_the_event() -> None:
    event = Event(Fence())
    fd = event.fence_fd()
    other = Event.from_fence_fd(fd)
    os.close(fd)
    assert not other.is_done
    event.signal(None)
    assert other.is_done
    other.wait()
    assert other.code is nd.ResultCode.NO_ERROR


def test_a_fence_is_created_when_it_is_asked_for() -> None:
    event = Event(has_fence=True)
    assert event.fence is event.fence
    assert event.fence is not None
    assert not event.fence.is_signalled
    event.signal(None)
    assert event.fence.is_signalled
    late = Event.ended(has_fence=True)
    assert late.fence is not None
    assert late.fence.is_signalled
    assert Event.ended().fence is None


def test_threads_that_wait_finish_the_execution() -> None:
    event = Event(has_fence=True)
    is_over = threading.Event()
    waits: list[float | None] = []

    def finish(timeout_s: float | None) -> bool:
        waits.append(timeout_s)
        if is_over.wait(timeout_s):
            event.signal(None)
        return event.is_signalled

    event.finish_by(finish)
    assert not event.is_done
    assert not event.has_written
    assert not event.ends_within(0.01)
    assert waits == [0.0, 0.0, 0.01]
    fence = event.fence  # a thread waits now, to signal it
    assert fence is not None
    assert not fence.wait(0.01)
    is_over.set()
    assert fence.wait(30)
    event.wait()
    assert event.is_done


def test_an_event_without_a_fence_has_no_descriptor() -> None:
    assert error_code(Event().fence_fd) is nd.ResultCode.BAD_DATA


@sweep("fd", [-1, 0, 98765, 2**40])
def test_descriptors_that_are_no_fence(fd: int) -> None:
    assert error_code(lambda: Event.from_fence_fd(fd)) is nd.ResultCode.BAD_DATA


def test_a_file_is_no_fence() -> None:
    read, write = os.pipe()
    assert error_code(lambda: Event.from_fence_fd(read)) is nd.ResultCode.BAD_DATA
    os.close(read)
    os.close(write)
