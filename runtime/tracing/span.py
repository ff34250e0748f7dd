"""Spans: what a thread did from when to when."""

import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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


class ThreadState:
    """What a thread is doing.

    Attributes:
        call: number of the call under way; 0 for none.
        number: of the thread.
    """

    __slots__ = ("call", "number")

    def __init__(self) -> None:
        self.call = 0
        self.number = threading.get_native_id()


class Threads(threading.local):
    """Has the state of the thread that asks."""

    def __init__(self) -> None:
        # Once in each thread.
        self.state = ThreadState()


class Recorder:
    """Collects spans of this process. Thread-safe.

    Args:
        process: number of this process.
        trace_id: of the trace.

    Attributes:
        threads: the state of each thread. What records each run takes it from here, since methods
            would take longer than what they do.
    """

    def __init__(self, process: int, trace_id: str = "") -> None:
        self.process = process
        self.trace_id = trace_id
        self.threads = Threads()
        #: Compilations and executions that were called, by their addresses, with details.
        self.callers: dict[int, tuple[Any, Mapping[str, Any]]] = {}
        #: Rings whose daemons note when they do what.
        self.stamped: weakref.WeakSet[Any] = weakref.WeakSet()
        #: The number and the beginning of the latest submission to each ring.
        self.exchanges: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
        #: The call that began the execution of an event, and when.
        self.events: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
        self._hosts: dict[str, int] = {}
        # What a thread did becomes a `Span` when somebody looks at it.
        self._spans: deque[tuple[Any, ...]] = deque(maxlen=MAX_SPANS)
        self._added = itertools.count()
        #: How often the number of spans was asked.
        self._asked = 0
        #: Adds a span, the values of its attributes in their order; `count` is called after it.
        self.append: Final = self._spans.append
        self.count: Final = self._added.__next__
        #: Returns a number for a call of the application.
        self.next_call: Final = itertools.count(1).__next__
        #: Returns a number for a request to a daemon and what the daemon does for it.
        self.next_exchange: Final = itertools.count(1).__next__

    @property
    def thread(self) -> ThreadState:
        """The state of this thread."""
        return self.threads.state

    def begin_call(self) -> int:
        """Numbers a call of the application, unless this thread is inside of one.

        Returns:
            The number; 0 inside of another call.
        """
        thread = self.thread
        if thread.call:
            return 0
        thread.call = number = self.next_call()
        return number

    def end_call(self) -> None:
        """Ends the call of this thread."""
        self.thread.call = 0

    @contextmanager
    def as_part_of(self, number: int) -> Iterator[None]:
        """Has what this thread does be part of a call that another thread, or this one, has begun."""
        thread = self.thread
        before, thread.call = thread.call, number
        try:
            yield
        finally:
            thread.call = before

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
        thread = self.threads.state
        self._append((name, category, start_ns, end, self.process, thread.number, thread.call, details))

    def add_daemon(self, exchange: int, process: int, times_ns: Sequence[int]) -> None:
        """Adds what a daemon did for a submission of this thread.

        Args:
            exchange: number of the submission.
            process: of the daemon.
            times_ns: it saw the call, the device was free, the driver had returned, it replied.
        """
        call, thread = self.thread.call, self.thread.number
        arrived, admitted, ended, replied = times_ns
        details = {"exchange": exchange}
        self._append(("serve", "daemon", arrived, replied, process, thread, call, details))
        for name, start, end in (
            ("wait for the device", arrived, admitted),
            ("driver", admitted, ended),
            ("reply", ended, replied),
        ):
            self._append((name, "daemon", start, end, process, thread, call))

    def add_call(self, method: str, exchange: int, process: int, times: CallTimes, host: str) -> None:
        """Adds what a daemon did for a call of gRPC.

        Args:
            method: name of the call.
            exchange: its number.
            process: of the daemon.
            times: on the clock of this process.
            host: where the daemon is; empty for this host.
        """
        call, thread = self.thread.call, self.thread.number
        details: dict[str, Any] = {"exchange": exchange, **({"host": host} if host else {})}
        start, end = times.arrived_ns, times.replied_ns
        self._append((f"serve {method}", "daemon", start, end, process, thread, call, details))
        for each in times.phases:
            self._append((each.name, "daemon", each.start_ns, each.end_ns, process, thread, call))

    def _append(self, span: tuple[Any, ...]) -> None:
        self.append(span)
        self.count()

    def spans(self) -> list[Span]:
        """Returns the spans so far, in the order in which they ended."""
        return [Span(*each) for each in tuple(self._spans)]

    @property
    def dropped(self) -> int:
        """How many spans were dropped because there were too many."""
        added = next(self._added) - self._asked
        self._asked += 1
        return max(0, added - MAX_SPANS)
