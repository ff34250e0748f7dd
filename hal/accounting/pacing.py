"""Pacing: what a client has the interpreter do for long gives way to what other clients want of it.

One thread of Python runs at a time. An execution of many small operations, such as a loop that never ends, wants the
interpreter all the time, and a few of them would leave hardly any of it to calls that need it for a moment. So the daemon notes
for whom a thread works, and whatever takes long in Python calls `step` now and then. The work of a client that has had more
than its share rests after every `SLICE_S`, if others are there: all such work together gets an eighth of the interpreter, shared
evenly between clients. What native code computes without the interpreter does not count.

In the process of an application nobody paces, and `step` costs next to nothing.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, TypeVar

_T = TypeVar("_T")

#: A client may have so much of the interpreter at once before its work is paced, and has it again after eight times as long.
FREE_S: Final = 2e-3
#: Paced work rests whenever it has had the interpreter for so long.
SLICE_S: Final = 1e-3
#: The longest rest, and how often work that rests looks whether it is to stop.
MAX_REST_S: Final = 0.5
_LOOK_S: Final = 0.02
#: How long a client counts as there after its last call.
_PRESENCE_S: Final = 0.25
#: Paced work gets one part in so many while others are there.
_PARTS: Final = 8
#: A step that takes longer was native code.
_INTERPRETED_S: Final = 5e-4
#: So many clients are remembered before those are forgotten that have not called for a while.
_REMEMBERED: Final = 64


class Interpreter:
    """The interpreter of a daemon, which the work of its clients shares. Thread-safe.

    Args:
        clock: tells seconds, as `time.monotonic` does.
        used: tells how many seconds of a processor the calling thread has had.
        rest: waits for so many seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.thread_time,
        rest: Callable[[float], object] = time.sleep,
    ) -> None:
        self._clock = clock
        self.used = used
        self.rest = rest
        self._lock = threading.Lock()
        self._seen_s: dict[Hashable, float] = {}
        self._paced: dict[Hashable, int] = {}
        #: What each client has had beyond what it was due, and when that was noted.
        self._had_s: dict[Hashable, tuple[float, float]] = {}

    def begin(self, client: Hashable) -> "Work":
        """The calling thread begins to work for a client; `end` follows."""
        self._seen_s[client] = self._clock()
        if len(self._seen_s) > _REMEMBERED:
            self._forget()
        around = _current.work
        while around is not None and around.is_over:
            around = around.around
        _current.work = Work(self, client, around)
        return _current.work

    def end(self, work: "Work") -> None:
        """Work is done; by the thread that began it, or by another one that cleans up after it."""
        if _current.work is work:
            _current.work = work.around
        self._seen_s[work.client] = self._clock()
        work.end()

    @contextlib.contextmanager
    def working(self, client: Hashable) -> Iterator[None]:
        """The time in which the calling thread works for a client."""
        work = self.begin(client)
        try:
            yield
        finally:
            self.end(work)

    def count(self, client: Hashable, change: int) -> None:
        """Counts work of a client that is paced."""
        with self._lock:
            count = self._paced.get(client, 0) + change
            if count:
                self._paced[client] = count
            else:
                self._paced.pop(client, None)

    def charge(self, client: Hashable, seconds: float) -> bool:
        """Notes what a client has had of the interpreter; whether that is more than it may have at once."""
        with self._lock:
            now_s = self._clock()
            had_s, noted_s = self._had_s.get(client, (0.0, now_s))
            had_s = max(0.0, had_s - (now_s - noted_s) / _PARTS) + seconds
            self._had_s[client] = min(had_s, 2 * FREE_S), now_s
        return had_s > FREE_S

    def rest_s(self, client: Hashable, slices: float = 1.0) -> float:
        """How long paced work of a client rests after so many slices."""
        limit_s = self._clock() - _PRESENCE_S
        with self._lock:
            clients, own = len(self._paced), self._paced.get(client, 1)
        is_alone = clients <= 1 and not any(
            seen_s > limit_s and other != client for other, seen_s in tuple(self._seen_s.items())
        )
        return 0.0 if is_alone else min(MAX_REST_S, slices * SLICE_S * (_PARTS * clients * own - 1))

    def _forget(self) -> None:
        limit_s = self._clock() - _PRESENCE_S
        for client, seen_s in tuple(self._seen_s.items()):
            if seen_s <= limit_s:
                self._seen_s.pop(client, None)
                self._had_s.pop(client, None)


class Work:
    """What one thread does for a client, as a part of what it does `around` that; see `Interpreter.begin`."""

    __slots__ = (
        "_interpreter",
        "_is_paced",
        "_slice_s",
        "_used_s",
        "around",
        "client",
        "is_over",
    )

    def __init__(self, interpreter: Interpreter, client: Hashable, around: "Work | None") -> None:
        self._interpreter = interpreter
        self.client = client
        self.around = around
        self._used_s: float | None = None
        self._slice_s = 0.0
        self._is_paced = False
        self.is_over = False

    def step(self, is_interpreted: bool, beside_s: float, stops: Callable[[], bool]) -> None:
        """See `step`."""
        used_s = self._interpreter.used()
        step_s = beside_s if self._used_s is None else used_s - self._used_s + beside_s
        self._used_s = used_s
        if step_s > _INTERPRETED_S and not is_interpreted:
            return
        self._slice_s += step_s
        if self._slice_s < SLICE_S:
            return
        slice_s, self._slice_s = self._slice_s, 0.0
        if not self._interpreter.charge(self.client, slice_s):
            return
        if not self._is_paced:
            self._is_paced = True
            self._interpreter.count(self.client, 1)
        left_s = self._interpreter.rest_s(self.client, slice_s / SLICE_S)
        while left_s > 0 and not stops():
            self._interpreter.rest(min(left_s, _LOOK_S))
            left_s -= _LOOK_S

    def end(self) -> None:
        """Counts no more, see `Interpreter.end`."""
        self.is_over = True
        if self._slice_s:
            self._interpreter.charge(self.client, self._slice_s)
        if self._is_paced:
            self._interpreter.count(self.client, -1)


class _Current(threading.local):
    work: Work | None = None


_current: Final = _Current()


def _goes_on() -> bool:
    return False


def step(
    *, is_interpreted: bool = False, beside_s: float = 0.0, stops: Callable[[], bool] = _goes_on
) -> None:
    """Is called between two steps of work that may take long; rests where that work is paced.

    Args:
        is_interpreted: the last step was Python, however long it took. Else one that took long was native code.
        beside_s: what the last step took of other threads, such as those that serve all clients.
        stops: says whether the work is to stop, which ends a rest.
    """
    work = _current.work
    if work is not None and not work.is_over:
        work.step(is_interpreted, beside_s, stops)


def paced(items: Iterable[_T]) -> Iterable[_T]:
    """The same items, with a `step` after each that was worked on: for loops in Python over what a client has sent."""
    return items if _current.work is None else _stepping(items)


def _stepping(items: Iterable[_T]) -> Iterator[_T]:
    for item in items:
        yield item
        step(is_interpreted=True)
