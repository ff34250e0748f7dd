"""Executions that do not end: a daemon's watch over what its device has under way.

A thread that is stuck in a driver cannot be ended. What can be done is to tell its client, to give its turn to others, and
to take no new work until it comes back after all.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")

#: How much longer than its deadline an execution may take: what a driver has begun, many cannot stop.
OVERDUE_S = 10.0
#: How often executions under way are looked at: so many times within the limit, within bounds.
_LOOKS = 10
_MIN_INTERVAL_S = 0.02
_MAX_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run(Generic[_T]):
    """An execution under way.

    Attributes:
        owner: who is told if it does not end.
        started_s: on the clock of `time.monotonic()`.
        end_s: when it should have ended, on the same clock.
    """

    owner: _T
    started_s: float
    end_s: float


class Watchdog(Generic[_T]):
    """Watches executions, of which a thread runs one at a time. Thread-safe.

    Args:
        limit_s: how long an execution may take that has no deadline, or a later one.
        found: called, by a thread of its own, for an execution that does not end: with its owner, and how long it has taken.
    """

    def __init__(self, limit_s: float, found: Callable[[_T, float], None]) -> None:
        self._limit_s = limit_s
        self._look_s = min(_MAX_INTERVAL_S, max(_MIN_INTERVAL_S, limit_s / _LOOKS))
        self._found = found
        # Both by the number of the thread. An entry leaves the first by one atomic `pop`: whoever gets it decides.
        self._under_way: dict[int, _Run[_T]] = {}
        self._hanging: dict[int, _Run[_T]] = {}
        self._wake = threading.Event()
        self._sleeps = False
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def hanging(self) -> int:
        """How many executions should have ended and have not."""
        return len(self._hanging)

    def begin(self, owner: _T, deadline_s: float | None) -> None:
        """The calling thread begins an execution; `end` follows."""
        now = time.monotonic()
        end_s = now + self._limit_s
        if deadline_s is not None:
            end_s = min(end_s, deadline_s + OVERDUE_S)
        self._under_way[threading.get_ident()] = _Run(owner=owner, started_s=now, end_s=end_s)
        if self._sleeps or self._thread is None:
            self._wake.set()
            self._ensure_thread()

    def end(self) -> bool:
        """The execution of the calling thread has ended; whether it had not been given up before."""
        number = threading.get_ident()
        if self._under_way.pop(number, None) is not None:
            return True
        self._hanging.pop(number, None)
        return False

    def _ensure_thread(self) -> None:
        with self._start:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="neurald watchdog", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            if not self._under_way:
                self._wake.clear()
                self._sleeps = True
                if not self._under_way:  # one that began meanwhile may not have seen that this thread sleeps
                    self._wake.wait()
                self._sleeps = False
            time.sleep(self._look_s)
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        for number, run in tuple(self._under_way.items()):
            if now < run.end_s:
                continue
            self._hanging[number] = run
            if self._under_way.pop(number, None) is not run:
                # It ended just now, and its thread may even have begun the next one.
                self._hanging.pop(number, None)
                continue
            self._found(run.owner, now - run.started_s)
