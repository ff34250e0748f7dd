"""Records of calls, for traces.

A driver in this process that has native code for that offers it here; the code that takes a trace
asks for it. Without such a driver, Python records the calls.
"""

import ctypes
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import wraps
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

#: The number of a call takes this many bits beside that of a trace; see `PartOf`.
CALL_BITS: Final = 40
#: By how much the times of records may differ from the clock's, where a counter of the processor
#: tells them. The counter is compared with the clock once in a millisecond or so; an error of less
#: than two microseconds is borne then, and may be the same for the next times.
MAX_CLOCK_ERROR_NS: Final = 5_000
#: How many bytes of a note are recorded with a call.
NOTE_BYTES: Final = 48


class CallRecord(Struct, frozen=True, gc=False):
    """A call that was made.

    Attributes:
        start_ns, end_ns: the start and end on the clock of `time.monotonic_ns()`.
        thread: the address of the state of its thread.
        call: number of the call of the application that it belongs to; 0 for none.
        subject: number of what was called.
        note: what was noted of the call where its `Subjects` say; empty without such a place.
    """

    start_ns: int
    end_ns: int
    thread: int
    call: int
    subject: int
    note: bytes = b""


class RecorderOfCalls(Struct, frozen=True, kw_only=True, eq=False):
    """Functions by which native code asks and tells about calls.

    Attributes:
        thread: returns the state of the thread that asks, an object with slots of which the first
            one is the number of the call under way. It must keep that object.
        failed: takes the exception of a call, its start, its number, and the number of what was
            called. Such a call is not among the records.
        first_call: the number of the first call of the application; each further one is greater by
            2.
    """

    thread: Callable[[], object]
    failed: Callable[[BaseException, int, int, int], None]
    first_call: int


class Subjects(Struct, frozen=True, kw_only=True, eq=False):
    """A function that a method calls, and that depends on the object.

    Attributes:
        owner: name of the object's attribute with the owner of the key; None if it is the object.
        key: name of the owner's attribute by which calls are told apart.
        find: takes the owner and the key, and returns the number of what is called. It must keep
            the key, and is asked again for a key that was not met for long.
        note: name of the key's attribute with an address. The `NOTE_BYTES` that are there after
            each call are recorded with it. None for no notes.
    """

    owner: str | None = None
    key: str = "executor"
    find: Callable[[Any, Any], int]
    note: str | None = None


class ShortCut(Struct, frozen=True, kw_only=True, eq=False):
    """A way to do without a method what it does, if the object has a function for that.

    Attributes:
        path: one or two names of attributes, which lead from the object to the function. That one
            is called with the arguments of the method, unless it is None.
        most_arguments: with more arguments, or with named ones, the method is called.
        subjects: what is called.
        expected: what the function returns if it has succeeded; the method then returns what
            `answer` does. Without it, the method returns what the function returns, and is called
            if that is None.
        finish: takes the object and what else the function returned. It returns `expected` if that
            is a success, too, and otherwise does what the method does, and returns what that does.
        answer: returns what the method returns after a success; None if that is None.
    """

    path: tuple[str, ...]
    most_arguments: int
    subjects: Subjects
    expected: object = None
    finish: Callable[[Any, Any], object] | None = None
    answer: Callable[[], object] | None = None


class UnusualResults(Struct, frozen=True, kw_only=True, eq=False):
    """Results by which calls are told apart: None, and objects of a type.

    Attributes:
        kind: the type. Objects of derived types are results like others.
        find: takes such a result, and returns the number of what was called.
    """

    kind: type
    find: Callable[[Any], int]

    def contain(self, result: object) -> bool:
        """Returns whether a result is one of them."""
        return result is None or type(result) is self.kind


class PartOf(Struct, frozen=True, kw_only=True, eq=False):
    """A call that another thread may have begun, and what a method does is part of.

    Attributes:
        attribute: name of the object's attribute that says it: a number of 64 bits, whose lower
            `CALL_BITS` are the number of the call, which is not 0. None for no call.
        trace: what the bits above must be. Objects may have been left by earlier traces.
    """

    attribute: str
    trace: int

    def call_of(self, instance: Any) -> int:
        """Returns the number of the call that an object names; 0 for none."""
        value = getattr(instance, self.attribute)
        if value is None or value >> CALL_BITS != self.trace:
            return 0
        call: int = value & ((1 << CALL_BITS) - 1)
        return call


class RecordedCalls(Protocol):
    """Records of calls, of which the last ones are kept. Thread-safe."""

    @property
    def count(self) -> int:
        """Number of recorded calls, and of what takes the place of records beside them."""
        ...

    def recorded(
        self,
        function: Callable[..., Any],
        subject: int | Subjects,
        *,
        is_call: bool,
        expected: object = None,
        otherwise: int | None = None,
        part_of: PartOf | None = None,
        unusual: UnusualResults | None = None,
    ) -> Callable[..., Any]:
        """Returns a function that calls another one and records it, also as a method of a class.

        Args:
            function: the other one.
            subject: its number, or that of a method for each object.
            is_call: whether applications call it.
            expected: what calls return that are recorded, unless they fail; None for anything.
            otherwise: the number of what was called if it fails, or returns something else than is
                expected; None for the same, and not to record calls that return something else.
            part_of: what tells the call that it is part of; None for the one under way. If the
                object names none, nothing is recorded.
            unusual: the results that have numbers of their own, if they are expected; None for
                none.
        """
        ...

    def shortened(self, function: Callable[..., Any], short_cut: ShortCut) -> Callable[..., Any]:
        """Returns a function that takes a short cut and records it, or else calls another one.

        Args:
            function: the other one, which records its calls itself.
            short_cut: the short cut of calls of applications.
        """
        ...

    def records(self) -> Iterator[CallRecord]:
        """Yields the records that are kept, in the order in which the calls ended."""
        ...


class PythonRecorder:
    """Implements `RecordedCalls` without native code.

    Args:
        capacity: how many records are kept.
        asked: answers what is not known here.
    """

    def __init__(self, capacity: int, asked: RecorderOfCalls) -> None:
        # Tuples of numbers, which the garbage collector does not look at one by one.
        self._records: deque[tuple[int, int, int, int, int, bytes]] = deque(maxlen=capacity)
        self._asked = asked
        self._next_call = asked.first_call
        self._count = 0

    @property
    def count(self) -> int:
        """Number of calls that were recorded."""
        return self._count

    def recorded(
        self,
        function: Callable[..., Any],
        subject: int | Subjects,
        *,
        is_call: bool,
        expected: object = None,
        otherwise: int | None = None,
        part_of: PartOf | None = None,
        unusual: UnusualResults | None = None,
    ) -> Callable[..., Any]:
        """Returns a function that calls another one and records it; see `RecordedCalls`."""
        known = None if isinstance(subject, int) else _KnownSubjects(subject)
        fixed = subject if isinstance(subject, int) else 0

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            if (known is not None or part_of is not None) and not arguments:
                return function(**named)
            part = 0 if part_of is None else part_of.call_of(arguments[0])
            if part_of is not None and not part:
                return function(*arguments, **named)
            number, note = (fixed, 0) if known is None else known.of(arguments[0])

            def subject_of(result: Any) -> int | None:
                if expected is not None and result is not expected:
                    return otherwise
                return number if unusual is None or not unusual.contain(result) else unusual.find(result)

            return self._made(
                lambda: function(*arguments, **named),
                number if otherwise is None else otherwise,
                note,
                subject_of,
                is_call=is_call,
                part=part,
            )

        return call

    def _made(
        self,
        work: Callable[[], Any],
        subject: int,
        note: int,
        subject_of: Callable[[Any], int | None],
        *,
        is_call: bool,
        part: int = 0,
    ) -> Any:
        """Makes a call, and records it.

        Args:
            work: makes it.
            subject: the number of what is called if it fails.
            note: the address of its notes; 0 for none.
            subject_of: returns the number of what was called from what it returned; None not to
                record it.
            is_call: whether applications call it.
            part: the number of the call that it is part of; 0 for the one under way.
        """
        thread: Any = self._asked.thread()
        outer = thread.call
        if part:
            thread.call = part
        elif is_call and not outer:
            thread.call, self._next_call = self._next_call, self._next_call + 2
        number = thread.call
        start = time.monotonic_ns()
        try:
            result = work()
            end = time.monotonic_ns()
        except BaseException as error:
            thread.call = outer
            self._asked.failed(error, start, number, subject)
            raise
        thread.call = outer
        noted = ctypes.string_at(note, NOTE_BYTES) if note else b""
        made = subject_of(result)
        if made is not None:
            self._records.append((start, end, id(thread), number, made, noted))
            self._count += 1
        return result

    def shortened(self, function: Callable[..., Any], short_cut: ShortCut) -> Callable[..., Any]:
        """Returns a function that takes a short cut; see `RecordedCalls`."""
        known, find = _KnownSubjects(short_cut.subjects), attrgetter(".".join(short_cut.path))
        expected, finish, answer = short_cut.expected, short_cut.finish, short_cut.answer

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            if named or not arguments or len(arguments) > short_cut.most_arguments:
                return function(*arguments, **named)
            instance, *others = arguments
            short = find(instance)
            if short is None:
                return function(*arguments)

            subject, note = known.of(instance)
            finished: object = expected

            def subject_of(result: Any) -> int | None:
                nonlocal finished
                if expected is None:
                    return None if result is None else subject
                finished = result
                if finish is not None and result is not expected:
                    finished = finish(instance, result)
                return subject if finished is expected else None

            result = self._made(lambda: short(*others), subject, note, subject_of, is_call=True)
            if expected is None:
                return function(*arguments) if result is None else result
            if answer is None:
                return None
            return answer() if finished is expected else finished

        return call

    def records(self) -> Iterator[CallRecord]:
        """Yields the records that are kept, in the order in which the calls ended."""
        for record in tuple(self._records):
            yield CallRecord(*record)


class _KnownSubjects:
    """The numbers of `Subjects` that are known, and the addresses of their notes, for each key."""

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._known: dict[int, tuple[int, int]] = {}

    def of(self, instance: Any) -> tuple[int, int]:
        """Returns what belongs to an object."""
        subjects = self._subjects
        owner = instance if subjects.owner is None else getattr(instance, subjects.owner)
        key = getattr(owner, subjects.key)
        found = self._known.get(id(key))
        if found is None:
            note = 0 if subjects.note is None else getattr(key, subjects.note)
            found = self._known[id(key)] = subjects.find(owner, key), note
        return found


#: Makes records of which this many are kept, a power of two.
Make: TypeAlias = Callable[[int, RecorderOfCalls], RecordedCalls]

_offered: list[Callable[[], Make | None]] = []


def offer_recorded_calls(find: Callable[[], Make | None]) -> None:
    """Offers native code that records calls.

    Args:
        find: returns what makes records; None if it cannot be used in this interpreter.
    """
    _offered[:] = [find]


def recorded_calls(capacity: int, asked: RecorderOfCalls) -> RecordedCalls:
    """Returns new records of calls, which native code makes if there is any for that.

    Args:
        capacity: how many records are kept, a power of two.
        asked: answers what native code does not know.
    """
    make = _offered[0]() if _offered else None
    return PythonRecorder(capacity, asked) if make is None else make(capacity, asked)
