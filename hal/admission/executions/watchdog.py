"""Finds executions that do not end.

A thread that is stuck in a driver cannot be stopped. What a daemon can do is to tell its client, to
give its slot to others, and to take no new models until it returns after all.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from neurald.hal.process.threads.checked_thread import CheckedThread

_T = TypeVar("_T")

#: How often executions under way are checked: this many times within the limit, within bounds.
_CHECKS_PER_LIMIT = 10
_MIN_INTERVAL_S = 0.02
_MAX_INTERVAL_S = 0.2
#: How long the thread waits for an execution before it ends.
_IDLE_S = 2.0


@dataclass(slots=True, kw_only=True, eq=False)  # creating a frozen one takes longer
class _WatchedRun(Generic[_T]):
    """An execution under way.

    Attributes:
        owner: the object that is passed to the callback if the execution does not end.
        started_s: when it started, on the clock of `time.monotonic()`.
        end_s: when it should have ended, on the same clock.
    """

    owner: _T
    started_s: float
    end_s: float


class NativeRuns(Protocol):
    """The executions of a thread that are begun and ended by native code."""

    @property
    def started_ns(self) -> int:
        """Since when one runs, on the clock of `time.monotonic_ns()`; 0 if none does."""
        ...

    def give_up(self, started_ns: int) -> bool:
        """Gives up the one that has run since then; returns False if it has ended."""
        ...


class Watchdog(Generic[_T]):
    """Watches executions; each thread runs one at a time. Thread-safe.

    Args:
        limit_s: how long an execution may take that has no deadline, or a later one.
        grace_s: how much longer than its deadline an execution may take: drivers cannot stop at
            once what they have begun.
        on_hang: the function that is called, in a thread of its own, for an execution that does not
            end, with its owner, how many seconds it has taken, and the identifier of its thread.
        on_look: the function that is called in the watchdog's thread several times a second while
            executions are under way.
    """

    def __init__(
        self,
        limit_s: float,
        grace_s: float,
        on_hang: Callable[[_T, float, int], None],
        on_look: Callable[[], object] = lambda: None,
    ) -> None:
        self._limit_s = limit_s
        self._grace_s = grace_s
        self._interval_s = min(_MAX_INTERVAL_S, max(_MIN_INTERVAL_S, limit_s / _CHECKS_PER_LIMIT))
        self._on_hang = on_hang
        self._on_look = on_look
        # Both by thread identifier. One atomic `pop` removes an entry from the first: the thread
        # that gets it decides whether the execution has ended or hangs.
        self._under_way: dict[int, _WatchedRun[_T]] = {}
        self._hanging: dict[int, _T] = {}
        self._native: dict[int, tuple[_T, NativeRuns]] = {}
        self._wake = threading.Event()
        self._sleeps = False
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def hanging(self) -> int:
        """The number of executions that should have ended and have not."""
        return len(self._hanging)

    def begin(self, owner: _T, deadline_s: float | None) -> None:
        """Begins an execution of the calling thread; `end` follows."""
        now = time.monotonic()
        end_s = now + self._limit_s
        if deadline_s is not None:
            end_s = min(end_s, deadline_s + self._grace_s)
        self._under_way[threading.get_ident()] = _WatchedRun(owner=owner, started_s=now, end_s=end_s)
        self._look()

    def end(self) -> bool:
        """Ends the execution of the calling thread; returns False if it was given up before."""
        number = threading.get_ident()
        if self._under_way.pop(number, None) is not None:
            return True
        self._hanging.pop(number, None)
        return False

    def begin_native(self, owner: _T, runs: NativeRuns) -> None:
        """Begins to watch native code's executions in the calling thread; `end_native` follows."""
        self._native[threading.get_ident()] = owner, runs
        self._look()

    def end_native(self) -> None:
        """Ends `begin_native`."""
        number = threading.get_ident()
        self._native.pop(number, None)
        self._hanging.pop(number, None)

    def _look(self) -> None:
        """Makes the thread of the watchdog look at what has begun."""
        if self._sleeps or self._thread is None:
            self._wake.set()
            self._ensure_thread()

    def _ensure_thread(self) -> None:
        with self._start:
            if self._thread is None:
                thread = CheckedThread(target=self._run, name="neurald watchdog", daemon=True)
                # Without a thread the execution is watched from the next one on that finds one.
                with contextlib.suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def _run(self) -> None:
        self._sleeps = False
        while True:
            if not (self._under_way or self._native):
                self._wake.clear()
                self._sleeps = True
                # One that began meanwhile may not have seen `_sleeps`.
                if not (self._under_way or self._native or self._wake.wait(_IDLE_S)):
                    with self._start:
                        # One that begins later sees `_sleeps`, and starts a thread.
                        if not (self._under_way or self._native):
                            self._thread = None
                            return
                self._sleeps = False
            time.sleep(self._interval_s)
            self._check()
            self._on_look()

    def _check(self) -> None:
        now = time.monotonic()
        for number, run in tuple(self._under_way.items()):
            if now < run.end_s:
                continue
            self._hanging[number] = run.owner
            if self._under_way.pop(number, None) is not run:
                # It has just ended, and its thread may have begun the next one.
                self._hanging.pop(number, None)
                continue
            self._on_hang(run.owner, now - run.started_s, number)
        now_ns = time.monotonic_ns()
        for number, (owner, runs) in tuple(self._native.items()):
            started_ns = runs.started_ns
            taken_s = (now_ns - started_ns) / 1e9
            if started_ns <= 0 or taken_s < self._limit_s:
                continue
            self._hanging[number] = owner
            if runs.give_up(started_ns):
                self._on_hang(owner, taken_s, number)
            else:
                self._hanging.pop(number, None)
