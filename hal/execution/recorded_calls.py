"""Records of calls that native code makes, for traces.

A driver in this process that has native code for that offers it here; whoever takes a trace asks for
it. Without such a driver, calls are recorded by Python.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

from msgspec import Struct


class CallRecord(Struct, frozen=True, gc=False):
    """A call that was made.

    Attributes:
        start_ns, end_ns: on the clock of `time.monotonic_ns()`.
        thread: the address of the state of its thread.
        call: number of the call of the application that it belongs to; 0 for none.
        subject: number of what was called.
    """

    start_ns: int
    end_ns: int
    thread: int
    call: int
    subject: int


class RecorderOfCalls(Struct, frozen=True, kw_only=True, eq=False):
    """Functions by which native code asks and tells about calls.

    Attributes:
        thread: returns the state of the thread that asks, an object with slots of which the first one
            is the number of the call under way. It must keep that object.
        failed: takes the exception of a call, its start, its number, and the number of what was
            called. Such a call is not among the records.
        first_call: the number of the first call of the application; each further one is greater by 2.
    """

    thread: Callable[[], object]
    failed: Callable[[BaseException, int, int, int], None]
    first_call: int


class ShortCut(Struct, frozen=True, kw_only=True, eq=False):
    """A way to do without a method what it does, if the object has a function for that.

    Attributes:
        path: one or two names of attributes, which lead from the object to the function. That one is
            called with the arguments of the method, unless it is None.
        most_arguments: with more arguments, or with named ones, the method is called.
        owner: name of the attribute with the compilation; None if it is the object.
        subject: returns a number for the compilation and its executor, which it must keep.
        expected: what the function returns if it has succeeded; the method then returns None. Without
            it, the method returns what the function returns, and is called if that is None.
        finish: takes the object and what else the function returned. It returns `expected` if that is
            a success, too, and otherwise does what the method does.
    """

    path: tuple[str, ...]
    most_arguments: int
    owner: str | None = None
    subject: Callable[[Any, Any], int]
    expected: object = None
    finish: Callable[[Any, Any], object] | None = None


class RecordedCalls(Protocol):
    """Records of calls, of which the last ones are kept. Thread-safe."""

    @property
    def count(self) -> int:
        """Number of calls that were recorded."""
        ...

    def recorded(self, function: Callable[..., Any], subject: int, *, is_call: bool) -> Callable[..., Any]:
        """Returns a function that calls another one and records it.

        Args:
            function: the other one.
            subject: its number.
            is_call: whether applications call it.
        """
        ...

    def shortened(self, function: Callable[..., Any], short_cut: ShortCut) -> Callable[..., Any]:
        """Returns a function that takes a short cut and records it, or else calls another one.

        Args:
            function: the other one, which records its calls itself.
            short_cut: of calls of applications.
        """
        ...

    def as_method(self, function: Callable[..., Any]) -> Any:
        """Returns what makes a function, which may be a native one, a method of a class."""
        ...

    def records(self) -> Iterator[CallRecord]:
        """Yields the records that are kept, in the order in which the calls ended."""
        ...


#: Makes records of which so many are kept, a power of two.
Make: TypeAlias = Callable[[int, RecorderOfCalls], RecordedCalls]

_offered: list[Callable[[], Make | None]] = []


def offer_recorded_calls(find: Callable[[], Make | None]) -> None:
    """Offers native code that records calls.

    Args:
        find: returns what makes records; None if it cannot be used in this interpreter.
    """
    _offered[:] = [find]


def recorded_calls(capacity: int, asked: RecorderOfCalls) -> RecordedCalls | None:
    """Returns new records of calls; None if no native code is there for them.

    Args:
        capacity: how many records are kept, a power of two.
        asked: answers what native code does not know.
    """
    make = _offered[0]() if _offered else None
    return None if make is None else make(capacity, asked)
