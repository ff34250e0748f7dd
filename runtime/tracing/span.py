"""Spans: what a thread did from when to when."""

import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

#: Most spans of a trace; the oldest are dropped.
MAX_SPANS: Final = 400_000

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Span(Struct, frozen=True, array_like=True):
    """What a thread did.

    Attributes:
        name: for people.
        category: `call`, `compile`, `device`, `daemon`, `kernel` or `step`.
        start_ns, end_ns: on the clock of `time.monotonic_ns()`.
        process, thread: their numbers.
        call: number of the call of the application that it belongs to; 0 for none.
        details: for people.
    """

    name: str
    category: str
    start_ns: int
    end_ns: int
    process: int
    thread: int
    call: int
    details: Mapping[str, Any] = _NOTHING


class _Thread(threading.local):
    """What a thread is doing.

    Attributes:
        call: number of the call under way; 0 for none.
    """

    call = 0


class Recorder:
    """Collects spans of this process. Thread-safe.

    Args:
        process: number of this process.
    """

    def __init__(self, process: int) -> None:
        self.process = process
        self.thread = _Thread()
        #: Compilations and executions that were called.
        self.callers: weakref.WeakSet[Any] = weakref.WeakSet()
        #: Rings whose daemons note when they do what.
        self.stamped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._spans: deque[Span] = deque(maxlen=MAX_SPANS)
        self._added = 0
        self._calls = 0
        self._lock = threading.Lock()

    def begin_call(self) -> int:
        """Numbers a call of the application, unless this thread is inside of one.

        Returns:
            The number; 0 inside of another call.
        """
        if self.thread.call:
            return 0
        with self._lock:
            self._calls += 1
            number = self._calls
        self.thread.call = number
        return number

    def end_call(self) -> None:
        """Ends the call of this thread."""
        self.thread.call = 0

    def add(
        self,
        name: str,
        category: str,
        start_ns: int,
        details: Mapping[str, Any] = _NOTHING,
        end_ns: int | None = None,
    ) -> None:
        """Adds a span of this thread, which ends now unless stated otherwise."""
        end = time.monotonic_ns() if end_ns is None else end_ns
        self.put(
            Span(
                name,
                category,
                start_ns,
                end,
                self.process,
                threading.get_native_id(),
                self.thread.call,
                details,
            )
        )

    def add_daemon(self, process: int, times_ns: Sequence[int]) -> None:
        """Adds what a daemon did for the call of this thread.

        Args:
            process: of the daemon.
            times_ns: it saw the call, the device was free, the driver had returned, it replied.
        """
        call, thread = self.thread.call, threading.get_native_id()
        arrived, admitted, ended, replied = times_ns
        for name, start, end in (
            ("serve", arrived, replied),
            ("wait for the device", arrived, admitted),
            ("driver", admitted, ended),
            ("reply", ended, replied),
        ):
            self.put(Span(name, "daemon", start, end, process, thread, call))

    def put(self, span: Span) -> None:
        """Adds a span."""
        self._spans.append(span)
        self._added += 1

    def spans(self) -> list[Span]:
        """Returns the spans so far, in the order in which they ended."""
        return list(self._spans)

    @property
    def dropped(self) -> int:
        """How many spans were dropped because there were too many."""
        return max(0, self._added - MAX_SPANS)
