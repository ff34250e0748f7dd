"""Spans: what a thread did from when to when.

While a trace is taken, what threads do is recorded as tuples of readings of the clock, with as little
work as possible. They become spans when somebody looks at them.
"""

import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

#: Added to the numbers of processes of other hosts.
OTHER_HOST: Final = 1 << 32
#: Most spans of a trace that has kernels.
MAX_SPANS: Final = 400_000
#: Most records of a trace, each of which is a few spans; the oldest are dropped.
MAX_RECORDS: Final = 400_000

#: A number that tells what makes spans of a record, and its arguments. The garbage collector looks
#: at what holds objects again and again, but only once at what holds numbers and texts.
Record: TypeAlias = tuple[Any, ...]
#: The number of records that are the values of one span of this process, and of those that are one.
SPAN: Final = 0
_WHOLE: Final = 1

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
        #: Executions whose fast paths may have been made in this trace, by their addresses.
        self.callers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        #: The latest `Exchange` of each ring, by the address of its end.
        self.exchanges: dict[int, Any] = {}
        #: The call that began the execution of an event, when, and when it returned.
        self.events: weakref.WeakKeyDictionary[Any, tuple[int, int, int]] = weakref.WeakKeyDictionary()
        self._hosts: dict[str, int] = {}
        self._records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self._kinds: list[Callable[..., Iterable[Span]]] = [self._span, lambda span: (span,)]
        self._added = itertools.count()
        #: How often the number of records was asked.
        self._asked = 0
        #: Adds a `Record`; `count` is called after it.
        self.append: Final[Callable[[Record], None]] = self._records.append
        self.count: Final = self._added.__next__
        #: Returns a number for a call of the application.
        self.next_call: Final = itertools.count(1).__next__
        #: Returns a number for a request to a daemon and what the daemon does for it.
        self.next_exchange: Final = itertools.count(1).__next__

    def kind(self, expand: Callable[..., Iterable[Span]]) -> int:
        """Returns the number of records whose spans a function makes."""
        self._kinds.append(expand)
        return len(self._kinds) - 1

    @property
    def thread(self) -> ThreadState:
        """The state of this thread."""
        return self.threads.state

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
        self.append((SPAN, name, category, start_ns, end, thread.number, thread.call, details))
        self.count()

    def add_span(self, span: Span) -> None:
        """Adds a span."""
        self.append((_WHOLE, span))
        self.count()

    def _span(
        self,
        name: str,
        category: str,
        start_ns: int,
        end_ns: int,
        thread: int,
        call: int,
        details: Mapping[str, Any] = _NOTHING,
    ) -> tuple[Span, ...]:
        """Makes the span of a record of this process."""
        return (Span(name, category, start_ns, end_ns, self.process, thread, call, details),)

    def spans(self) -> list[Span]:
        """Returns the spans so far, in the order in which they ended."""
        kinds = self._kinds
        return [span for kind, *values in tuple(self._records) for span in kinds[kind](*values)]

    @property
    def dropped(self) -> int:
        """How many records were dropped because there were too many."""
        added = next(self._added) - self._asked
        self._asked += 1
        return max(0, added - MAX_RECORDS)
