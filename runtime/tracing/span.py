"""Spans: what a thread did from when to when."""

import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from neurald.hal.rpc.transport.call_times import CallTimes

#: Added to the numbers of processes of other hosts.
OTHER_HOST: Final = 1 << 32
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
        number: of the thread; 0 if it was not asked for.
    """

    call = 0
    number = 0


class Recorder:
    """Collects spans of this process. Thread-safe.

    Args:
        process: number of this process.
        trace_id: of the trace.
    """

    def __init__(self, process: int, trace_id: str = "") -> None:
        self.process = process
        self.trace_id = trace_id
        self.thread = _Thread()
        #: Compilations and executions that were called.
        self.callers: weakref.WeakSet[Any] = weakref.WeakSet()
        #: Rings whose daemons note when they do what.
        self.stamped: weakref.WeakSet[Any] = weakref.WeakSet()
        #: The number and the beginning of the latest submission to each ring.
        self.exchanges: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
        self._hosts: dict[str, int] = {}
        # What a thread did becomes a `Span` when somebody looks at it.
        self._spans: deque[Span | tuple[Any, ...]] = deque(maxlen=MAX_SPANS)
        self._added = 0
        self._calls = count(1)
        self._exchanges = count(1)

    def begin_call(self) -> int:
        """Numbers a call of the application, unless this thread is inside of one.

        Returns:
            The number; 0 inside of another call.
        """
        thread = self.thread
        if thread.call:
            return 0
        thread.call = number = next(self._calls)
        return number

    def end_call(self) -> None:
        """Ends the call of this thread."""
        self.thread.call = 0

    def next_exchange(self) -> int:
        """Returns a number for a request to a daemon and what the daemon does for it."""
        return next(self._exchanges)

    def process_on(self, host: str, process: int) -> int:
        """Returns a number for a process of another host, which no process of this host has."""
        return process + OTHER_HOST * self._hosts.setdefault(host, len(self._hosts) + 1)

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
        thread = self.thread
        number = thread.number
        if not number:
            thread.number = number = threading.get_native_id()
        self._spans.append((name, category, start_ns, end, self.process, number, thread.call, details))
        self._added += 1

    def add_daemon(self, exchange: int, process: int, times_ns: Sequence[int]) -> None:
        """Adds what a daemon did for a submission of this thread.

        Args:
            exchange: number of the submission.
            process: of the daemon.
            times_ns: it saw the call, the device was free, the driver had returned, it replied.
        """
        call, thread = self.thread.call, threading.get_native_id()
        arrived, admitted, ended, replied = times_ns
        details = {"exchange": exchange}
        self.put(Span("serve", "daemon", arrived, replied, process, thread, call, details))
        for name, start, end in (
            ("wait for the device", arrived, admitted),
            ("driver", admitted, ended),
            ("reply", ended, replied),
        ):
            self.put(Span(name, "daemon", start, end, process, thread, call))

    def add_call(self, method: str, exchange: int, process: int, times: CallTimes, host: str) -> None:
        """Adds what a daemon did for a call of gRPC.

        Args:
            method: name of the call.
            exchange: its number.
            process: of the daemon.
            times: on the clock of this process.
            host: where the daemon is; empty for this host.
        """
        call, thread = self.thread.call, threading.get_native_id()
        details: dict[str, Any] = {"exchange": exchange, **({"host": host} if host else {})}
        start, end = times.arrived_ns, times.replied_ns
        self.put(Span(f"serve {method}", "daemon", start, end, process, thread, call, details))
        for each in times.phases:
            self.put(Span(each.name, "daemon", each.start_ns, each.end_ns, process, thread, call))

    def put(self, span: Span) -> None:
        """Adds a span."""
        self._spans.append(span)
        self._added += 1

    def spans(self) -> list[Span]:
        """Returns the spans so far, in the order in which they ended."""
        return [each if isinstance(each, Span) else Span(*each) for each in tuple(self._spans)]

    @property
    def dropped(self) -> int:
        """How many spans were dropped because there were too many."""
        return max(0, self._added - MAX_SPANS)
