"""Pacing: long Python work for one client gives way to the calls of other clients.

Python runs one thread at a time. An execution of many small operations, such as an endless loop,
wants the interpreter all the time, and a few of them would leave hardly any of it to calls that
need it briefly. So a daemon records for which client each thread works, and code that takes long in
Python calls `step` regularly. The work of a client that has used more than its share sleeps after
every `SLICE_S` while other clients are present: all such work together gets an eighth of the
interpreter, divided evenly between clients. Time that native code computes without the interpreter
does not count.

In the process of an application nothing is paced, and `step` costs next to nothing.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, TypeVar

_T = TypeVar("_T")

#: How much of the interpreter a client may use at once before its work is paced. It may use as much
#: again after eight times as long.
FREE_S: Final = 2e-3
#: Paced work sleeps whenever it has used the interpreter for this long.
SLICE_S: Final = 1e-3
#: The longest sleep, and how often sleeping work checks whether it must stop.
MAX_REST_S: Final = 0.5
_POLL_S: Final = 0.02
#: How long a client counts as present after its last call.
_PRESENCE_S: Final = 0.25
#: All paced work together gets 1 / `_PACED_SHARE` of the interpreter while other clients are
#: present.
_PACED_SHARE: Final = 8
#: A step that takes longer was native code.
_INTERPRETED_S: Final = 5e-4
#: With more clients than that, those that have not called for a while are removed.
_MAX_CLIENTS: Final = 64


class Interpreter:
    """The interpreter of a daemon, which the work of all clients shares. Thread-safe.

    Args:
        clock: returns seconds, as `time.monotonic` does.
        used: returns how many seconds of processor time the calling thread has used.
        rest: sleeps for this many seconds.
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
        #: How much each client has used beyond its due, and when that was recorded.
        self._overuse_s: dict[Hashable, tuple[float, float]] = {}

    def begin(self, client: Hashable) -> "PacedWork":
        """Begins work of the calling thread for a client; `end` follows."""
        self._seen_s[client] = self._clock()
        if len(self._seen_s) > _MAX_CLIENTS:
            self._forget()
        enclosing = _current.work
        while enclosing is not None and enclosing.is_over:
            enclosing = enclosing.enclosing
        _current.work = PacedWork(self, client, enclosing)
        return _current.work

    def end(self, work: "PacedWork") -> None:
        """Ends work. Another thread may call this to clean up after the one that began it."""
        if _current.work is work:
            _current.work = work.enclosing
        self._seen_s[work.client] = self._clock()
        work.end()

    @contextlib.contextmanager
    def working(self, client: Hashable) -> Iterator[None]:
        """Records the calling thread as working for a client within the context."""
        work = self.begin(client)
        try:
            yield
        finally:
            self.end(work)

    def count(self, client: Hashable, change: int) -> None:
        """Adds `change` to the number of paced works of a client."""
        with self._lock:
            count = self._paced.get(client, 0) + change
            if count:
                self._paced[client] = count
            else:
                self._paced.pop(client, None)

    def charge(self, client: Hashable, seconds: float) -> bool:
        """Records interpreter time of a client; returns whether it exceeds the free allowance."""
        with self._lock:
            now_s = self._clock()
            overuse_s, noted_s = self._overuse_s.get(client, (0.0, now_s))
            overuse_s = max(0.0, overuse_s - (now_s - noted_s) / _PACED_SHARE) + seconds
            self._overuse_s[client] = min(overuse_s, 2 * FREE_S), now_s
        return overuse_s > FREE_S

    def rest_s(self, client: Hashable, slices: float = 1.0) -> float:
        """Returns how long paced work of a client must sleep after this many slices."""
        limit_s = self._clock() - _PRESENCE_S
        with self._lock:
            clients, own = len(self._paced), self._paced.get(client, 1)
        is_alone = clients <= 1 and not any(
            seen_s > limit_s and other != client for other, seen_s in tuple(self._seen_s.items())
        )
        return 0.0 if is_alone else min(MAX_REST_S, slices * SLICE_S * (_PACED_SHARE * clients * own - 1))

    def _forget(self) -> None:
        limit_s = self._clock() - _PRESENCE_S
        for client, seen_s in tuple(self._seen_s.items()):
            if seen_s <= limit_s:
                self._seen_s.pop(client, None)
                self._overuse_s.pop(client, None)


class PacedWork:
    """The work of one thread for a client, nested in `enclosing` work; see `Interpreter.begin`."""

    __slots__ = (
        "_interpreter",
        "_is_paced",
        "_slice_s",
        "_used_s",
        "client",
        "enclosing",
        "is_over",
    )

    def __init__(self, interpreter: Interpreter, client: Hashable, enclosing: "PacedWork | None") -> None:
        self._interpreter = interpreter
        self.client = client
        self.enclosing = enclosing
        self._used_s: float | None = None
        self._slice_s = 0.0
        self._is_paced = False
        self.is_over = False

    def step(self, is_interpreted: bool, beside_s: float, stops: Callable[[], bool]) -> None:
        """Sleeps if the work is paced and has used up its slice; see the function `step`."""
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
            self._interpreter.rest(min(left_s, _POLL_S))
            left_s -= _POLL_S

    def end(self) -> None:
        """Ends the counting of the work, see `Interpreter.end`."""
        self.is_over = True
        if self._slice_s:
            self._interpreter.charge(self.client, self._slice_s)
        if self._is_paced:
            self._interpreter.count(self.client, -1)


class _Current(threading.local):
    work: PacedWork | None = None


_current: Final = _Current()


def _never_stops() -> bool:
    return False


def step(
    *, is_interpreted: bool = False, beside_s: float = 0.0, stops: Callable[[], bool] = _never_stops
) -> None:
    """Gives way to other clients if the current work is paced. Call it between steps of long work.

    Args:
        is_interpreted: the last step was Python code, however long it took. If False, a long step
            counts as native code.
        beside_s: the time that other threads, such as those that serve all clients, have spent on
            the last step.
        stops: returns whether the work must stop, which ends the sleep.
    """
    work = _current.work
    if work is not None and not work.is_over:
        work.step(is_interpreted, beside_s, stops)


def paced(items: Iterable[_T]) -> Iterable[_T]:
    """Iterates over the same items with a `step` after each, for Python loops over client data."""
    return items if _current.work is None else _stepping(items)


def _stepping(items: Iterable[_T]) -> Iterator[_T]:
    for item in items:
        yield item
        step(is_interpreted=True)
