"""Spans: pieces of work of a thread, with their start and end.

While a trace is taken, the work of threads is recorded as readings of the clock, with as little
work as possible. The readings become spans when they are read.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from neurald.hal.execution.recorded_calls import RecordedCalls, RecorderOfCalls, recorded_calls
from neurald.hal.process.fork import forkable_lock
from neurald.hal.registry import get_ready

#: Added to the numbers of processes of other hosts.
OTHER_HOST: Final = 1 << 32
#: The detail `role` of spans of processes that are not daemons.
SERVED_MODEL: Final = "served model"
#: The name of spans of calls that begin an execution.
STARTED: Final = "start to compute"
#: Maximum number of spans of a trace that has kernels.
MAX_SPANS: Final = 400_000
#: Maximum number of records of a trace, each of a few spans; the oldest are dropped.
MAX_RECORDS: Final = 400_000

#: The numbers of the recorders of this process.
_numbers: Final = itertools.count(1)
#: The number of records of calls of methods that are kept, a power of two.
_CALL_RECORDS: Final = 1 << 19
#: Makes spans of a call of a method: takes its start, end, thread, call and note. The note is empty
#: if there is none, or if the call has failed.
ExpandCall: TypeAlias = Callable[[int, int, int, int, bytes], "Iterable[Span]"]

#: Makes spans of a record: takes its start, end, thread and call, and four other values.
Expand: TypeAlias = Callable[[int, int, int, int, Any, Any, Any, Any], "Iterable[Span]"]
#: How many values a record has: its `Expand`, and the eight values that this takes.
_RECORD_SIZE: Final = 9


# There may be a million, and none is part of a cycle.
class Span(Struct, frozen=True, array_like=True, gc=False):
    """Work of a thread.

    Attributes:
        name: the name for display.
        category: `call`, `compile`, `device`, `daemon`, `kernel` or `step`.
        start_ns, end_ns: the start and end on the clock of `time.monotonic_ns()`.
        process, thread: their numbers.
        call: number of the call of the application that it belongs to; 0 for none.
        details: the details for display.
    """

    name: str
    category: str
    start_ns: int
    end_ns: int
    process: int
    thread: int
    call: int
    details: Mapping[str, Any] = {}


class ThreadState:
    """Work of a thread that is under way. Native code finds the call in the first slot.

    Attributes:
        call: number of the call under way; 0 for none.
        number: the number of the thread.
    """

    __slots__ = ("call", "number")

    def __init__(self) -> None:
        self.call = 0
        self.number = threading.get_native_id()


class Threads(threading.local):
    """Holds the state of the thread that asks."""

    def __init__(self) -> None:
        # Once in each thread.
        self.state = ThreadState()


class Beginnings:
    """The starts of executions that waiting threads finish, by the numbers of calls.

    Args:
        process: its number.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._times_ns: dict[int, tuple[int, int]] = {}

    def started(self, start: int, end: int, thread: int, call: int, compilation: Any) -> tuple[Span, ...]:
        """Makes the span of the call that began an execution, before that of its wait."""
        self._times_ns[call] = start, end
        details = {"_compilation": compilation}
        return (Span(STARTED, "call", start, end, self._process, thread, call, details),)

    def awaited(self, start: int, end: int, thread: int, call: int, note: bytes) -> tuple[Span, ...]:
        """Makes the span of a wait for an event; see `ExpandCall`.

        Args:
            start, end: the start and end of the wait.
            thread, call: the thread that waited, and the call that began the execution.
            note: nothing.
        """
        del note
        return (Span("wait for the event", "step", start, end, self._process, thread, call),)

    def ended(self, start: int, end: int, thread: int, call: int, note: bytes) -> Iterator[Span]:
        """Makes the spans of a wait that has seen the end of the execution; see `awaited`."""
        yield from self.awaited(start, end, thread, call, note)
        # Another thread may have waited for it as well, and have seen its end first.
        times = self._times_ns.pop(call, None)
        if times is not None:
            submitted, started = times
            own = partial(Span, process=self._process, thread=thread, call=call)
            yield own("under way", "step", started, end)
            yield own("compute in the background", "call", submitted, end)


class Recorder:
    """Collects spans of this process. Thread-safe.

    Args:
        process: number of this process.
        trace_id: the trace ID of the trace.

    Attributes:
        number: tells it from other recorders of this process.
        threads: the state of each thread. What records each run takes it from here, since methods
            would take longer than what they do.
    """

    def __init__(self, process: int, trace_id: str = "") -> None:
        self.process = process
        self.trace_id = trace_id
        self.number = next(_numbers)
        self.threads = Threads()
        self.beginnings: Final = Beginnings(process)
        #: The `RingCalls` of each ring, by the address of its end, which they keep.
        self.rings: dict[int, Any] = {}
        self._hosts: dict[str, int] = {}
        #: The values of all records, one after the other. Were records objects of their own, the
        #: garbage collector would look at them again and again, which takes longer than what it
        #: takes to make them.
        self.values: Final[list[Any]] = []
        #: How many values make it worth while to drop some.
        self.most_values: Final = _RECORD_SIZE * (MAX_RECORDS + MAX_RECORDS // 8)
        self._lock = forkable_lock()
        #: How many records were dropped because there were too many, without those of methods.
        self._dropped = 0
        #: Adds the values of a record. Afterwards `trim` is called if there are too many values.
        self.extend: Final[Callable[[tuple[Any, ...]], None]] = self.values.extend
        #: Returns a number for a call of the application; `calls` use those in between.
        self.next_call: Final = itertools.count(1, 2).__next__
        #: Returns a number for a request to a daemon and what the daemon does for it.
        self.next_exchange: Final = itertools.count(1).__next__
        #: The states of threads by their addresses, and for each number of a subject what makes the
        #: spans of its calls. The numbers of subjects that have keys.
        self._states: dict[int, ThreadState] = {}
        self._expanders: list[ExpandCall] = []
        self._numbers: dict[tuple[str, int], int] = {}

    @cached_property
    def calls(self) -> RecordedCalls:
        """Records of calls of methods, in native code if there is any."""
        # The driver of this process has it. Without it, Python records.
        with contextlib.suppress(Exception):
            get_ready("cpu")
        return recorded_calls(
            _CALL_RECORDS,
            RecorderOfCalls(thread=self._known_thread, failed=self._add_failure, first_call=2),
        )

    @property
    def dropped(self) -> int:
        """The number of records that were dropped because there were too many."""
        return self._dropped + max(0, self.calls.count - _CALL_RECORDS)

    def subject(self, expand: ExpandCall) -> int:
        """Returns a number for what is recorded in `calls`.

        Args:
            expand: makes the spans of a call.
        """
        with self._lock:
            self._expanders.append(expand)
            return len(self._expanders) - 1

    def subject_of(self, name: str, key: object, make: Callable[[], ExpandCall]) -> int:
        """Returns the number for what is recorded by a name of an object; see `subject`.

        Args:
            name: tells what is called from other things that have the same key.
            key: the object.
            make: returns what makes the spans of a call, and keeps the key.
        """
        found = self._numbers.get((name, id(key)))
        if found is None:
            found = self._numbers[name, id(key)] = self.subject(make())
        return found

    def _known_thread(self) -> ThreadState:
        """Returns the state of this thread, and keeps it."""
        state = self.threads.state
        self._states[id(state)] = state
        return state

    def _add_failure(self, error: BaseException, start_ns: int, call: int, subject: int) -> None:
        """Adds the spans of a call of a method that ends now with an exception."""
        end, number = time.monotonic_ns(), self.threads.state.number
        for span in self._expanders[subject](start_ns, end, number, call, b""):
            self.add_span(replace(span, details={**span.details, **failure(error)}))

    def trim(self) -> None:
        """Drops the oldest records if there are more than there may be."""
        with self._lock:
            excess = max(0, len(self.values) // _RECORD_SIZE - MAX_RECORDS)
            # Kept until the lock is free: their ends may run any code.
            dropped = self.values[: excess * _RECORD_SIZE]
            del self.values[: excess * _RECORD_SIZE]
            self._dropped += excess
        del dropped

    @property
    def thread(self) -> ThreadState:
        """The state of this thread."""
        return self.threads.state

    @contextlib.contextmanager
    def as_part_of(self, number: int) -> Iterator[None]:
        """Records what this thread does as part of a call that any thread has begun."""
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
        details: Mapping[str, Any] | None = None,
        end_ns: int | None = None,
    ) -> None:
        """Adds a span of this thread, which ends now unless stated otherwise."""
        end = time.monotonic_ns() if end_ns is None else end_ns
        thread = self.threads.state
        self.add_record(self.span, start_ns, end, thread.number, thread.call, name, category, details)

    def add_span(self, span: Span) -> None:
        """Adds a span."""
        self.add_record(_unchanged, 0, 0, 0, 0, span)

    def add_record(
        self,
        expand: Expand,
        start_ns: int,
        end_ns: int,
        thread: int,
        call: int,
        first: Any,
        second: Any = None,
        third: Any = None,
    ) -> None:
        """Adds a record; what is recorded often does so itself."""
        self.extend((expand, start_ns, end_ns, thread, call, first, second, third, None))
        if len(self.values) > self.most_values:
            self.trim()

    def span(
        self,
        start_ns: int,
        end_ns: int,
        thread: int,
        call: int,
        name: str,
        category: str,
        details: Mapping[str, Any] | None,
        _: None,
    ) -> tuple[Span, ...]:
        """Makes the span of a record of this process."""
        return (Span(name, category, start_ns, end_ns, self.process, thread, call, details or {}),)

    def spans(self) -> list[Span]:
        """Returns the spans so far, in the order in which they ended."""
        found: list[Span] = []
        # First, since waits need to know what began.
        for each in self.calls.records():
            thread = self._states[each.thread].number
            expand = self._expanders[each.subject]
            found += expand(each.start_ns, each.end_ns, thread, each.call, each.note)
        values = iter(self.values.copy())
        # The same iterator as often as a record has values.
        for make, *given in zip(*[values] * _RECORD_SIZE, strict=True):
            found += make(*given)
        return sorted(found, key=attrgetter("end_ns"))


def _unchanged(*values: Any) -> tuple[Span, ...]:
    return (values[4],)


def failure(error: BaseException) -> Mapping[str, Any]:
    """Returns the details of a call that has failed."""
    return {"error": f"{type(error).__name__}: {error}"}
