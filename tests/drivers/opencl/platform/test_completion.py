"""Waiting for commands on implementations that wait only for those that were not flushed."""

from typing import Any

import pytest

from neurald.drivers.opencl.platform.completion import wait_for_all
from neurald.drivers.opencl.platform.discovery import DeviceContext


class _FlushedQueue:
    """Queue of such an implementation with a command that was flushed."""

    def __init__(self) -> None:
        self.running = 1
        self.pending = 0

    def finish(self) -> None:
        if self.pending:
            self.running = self.pending = 0


def test_commands_that_were_flushed_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cl = pytest.importorskip("pyopencl")
    queue: Any = _FlushedQueue()
    queue.finish()
    assert queue.running

    def enqueue_marker(queue: _FlushedQueue) -> None:
        queue.pending += 1

    monkeypatch.setattr(cl, "enqueue_marker", enqueue_marker)
    wait_for_all(queue)
    assert not queue.running


def test_the_queue_of_a_device(opencl: DeviceContext) -> None:
    wait_for_all(opencl.queue())
