"""Notes of a daemon for clients that take a trace."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from neurald.hal.rpc.server.call_trace import (
    phase,
    timed_call,
    timed_stream,
    times_of_request,
)
from neurald.hal.rpc.transport.call_times import request_times, times_from, trace_header


class Context:
    """The part of a call of gRPC that is used."""

    def __init__(self, *, is_traced: bool) -> None:
        self._metadata = (("other", "1"), *([trace_header("1" * 32, 1)] if is_traced else []))
        self.sent: Any = None

    def invocation_metadata(self) -> Any:
        return self._metadata

    def set_trailing_metadata(self, metadata: Any) -> None:
        self.sent = metadata


def work(request: Any, context: Any) -> int:
    with phase("first"):
        pass
    with phase("second"):
        return int(request)


def stream(request: Any, context: Any) -> Iterator[int]:
    yield work(request, context)
    with phase("third"):
        yield 2


def test_nothing_is_noted_without_a_trace() -> None:
    context: Any = Context(is_traced=False)
    assert timed_call(work)(5, context) == 5
    assert list(timed_stream(stream)(5, context)) == [5, 2]
    assert context.sent is None


def test_the_phases_of_a_traced_call() -> None:
    context: Any = Context(is_traced=True)
    assert timed_call(work)(5, context) == 5
    times = times_from(context.sent)
    assert times is not None
    assert [each.name for each in times.phases] == ["first", "second"]
    assert list(timed_stream(stream)(6, context)) == [6, 2]
    times = times_from(context.sent)
    assert times is not None
    assert [each.name for each in times.phases] == ["first", "second", "third"]


def test_a_failed_call_sends_no_times_and_ends_the_notes() -> None:
    context: Any = Context(is_traced=True)
    with pytest.raises(ValueError, match="invalid literal"):
        timed_call(work)("x", context)
    assert context.sent is None
    untraced: Any = Context(is_traced=False)
    assert timed_call(work)(5, untraced) == 5
    assert untraced.sent is None


def test_the_times_of_a_request_of_a_call_that_stays_open() -> None:
    before = time.monotonic_ns()
    times = request_times(times_of_request([before - 3, before - 2, before - 1, before]))
    assert times is not None
    assert (times.process, times.arrived_ns) == (os.getpid(), before - 3)
    assert before <= times.replied_ns <= time.monotonic_ns()
    assert [each.name for each in times.phases] == ["receive", "wait for the device", "driver", "reply"]
