"""Waiting for the calls that no caller waits for."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from support.waiting import wait_until

from neurald._proto import device_pb2
from neurald.hal.rpc.client.calls.background_calls import (
    BackgroundQueue,
    PendingCalls,
    run_background_calls,
)
from neurald.hal.rpc.client.connection_life import ConnectionLife

#: Long enough for a test that waits in vain to fail.
LATE_S = 0.2


class Rings:
    """The rings of a connection that has none."""

    def close_idle(self) -> bool:
        return False

    def close(self) -> None:
        pass


class SlowThread(BackgroundQueue):
    """A queue whose thread has taken its work for a while before it can begin with it."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        work = super().get(block, timeout)
        time.sleep(LATE_S)
        return work


class Daemon:
    """Notes the calls that it is asked for."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None

    def ReleaseMemory(self, *_: object, **__: object) -> None:  # noqa: N802
        self.calls += 1
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def thread_of(work: BackgroundQueue, daemon: Daemon) -> Iterator[threading.Thread]:
    life, rings = ConnectionLife("the daemon"), Rings()
    arguments: Any = (work, daemon, (), contextlib.ExitStack(), life, PendingCalls(), rings)
    thread = threading.Thread(target=run_background_calls, args=arguments)
    thread.start()
    try:
        yield thread
    finally:
        work.put(None)
        thread.join(60)
        assert not thread.is_alive()


def release(work: BackgroundQueue) -> None:
    work.put(("ReleaseMemory", device_pb2.ReleaseMemoryRequest()))


@pytest.mark.parametrize("error", [None, grpc.RpcError(), ValueError()])
@pytest.mark.parametrize("queue", [BackgroundQueue, SlowThread])
def test_calls_are_waited_for(queue: type[BackgroundQueue], error: Exception | None) -> None:
    work, daemon = queue(), Daemon()
    daemon.error = error
    with thread_of(work, daemon):
        assert not work.wait(None)
        for count in (1, 2):
            release(work)
            assert work.wait(None)
            assert daemon.calls == count
        assert not work.wait(None)


def test_a_call_that_the_thread_has_taken_but_not_begun_is_waited_for() -> None:
    work, daemon = SlowThread(), Daemon()
    with thread_of(work, daemon):
        release(work)
        wait_until(work.empty)
        assert daemon.calls == 0
        assert work.wait(None)
        assert daemon.calls == 1


def test_the_wait_ends_at_the_deadline() -> None:
    work, daemon = SlowThread(), Daemon()
    with thread_of(work, daemon):
        release(work)
        assert work.wait(time.monotonic())
        assert daemon.calls == 0


def test_nobody_waits_for_a_thread_that_has_ended() -> None:
    work, daemon = BackgroundQueue(), Daemon()
    with thread_of(work, daemon) as thread:
        work.put(None)
        reached = threading.Event()
        work.put(reached)
        thread.join(60)
        assert reached.is_set()
        start = time.monotonic()
        assert not work.wait(None)
        assert time.monotonic() - start < 1
