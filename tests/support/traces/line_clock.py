"""A clock that the execution of lines moves, so that coverage by spans depends on no load."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

#: What only records, and takes no time.
_RECORDING = ("runtime/tracing/", "hal/execution/recorded_calls.py")
_NS_PER_LINE = 1000


class LineClock:
    """Counts the lines of Python that are executed while it runs, without those that record."""

    def __init__(self) -> None:
        self._lines = 0

    def now_ns(self) -> int:
        """Returns the time: a microsecond for each line, and for each look at the clock."""
        self._lines += 1
        return self._lines * _NS_PER_LINE

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """Is told of each call by the interpreter; returns what is told of its lines."""
        return None if any(each in frame.f_code.co_filename for each in _RECORDING) else self._count

    def _count(self, frame: FrameType, event: str, argument: object) -> Any:
        self._lines += event == "line"
        return self._count


@contextmanager
def counted_lines() -> Iterator[None]:
    """Has `time.monotonic_ns` count lines, and traces record by Python, which uses that clock."""
    clock, before = LineClock(), (sys.gettrace(), threading.gettrace())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neurald.hal.execution.recorded_calls._offered", [])
        patch.setattr("neurald.runtime.tracing.span.get_ready", lambda driver: None)
        patch.setattr(time, "monotonic_ns", clock.now_ns)
        threading.settrace(clock.trace)
        sys.settrace(clock.trace)
        try:
            yield
        finally:
            sys.settrace(before[0])
            threading.settrace(before[1])
