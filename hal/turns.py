"""Turns: which execution a device runs next when more are waiting than it runs at the same time.

The highest priority goes first, and among equals who came first. Waiting raises a priority, by one step in `AGEING_S`, so
that low ones are served too however many high ones there are.
"""

import threading
import time

from neurald.hal.errors import MissedDeadlineTransient
from neurald.hal.types import Priority

#: A LOW execution that has waited this long goes before a MEDIUM one that has just come.
AGEING_S = 0.5

_RANKS = {priority: rank for rank, priority in enumerate(sorted(Priority))}


class _Waiting:
    """One execution in the queue."""

    __slots__ = ("came_at", "may_run", "rank")

    def __init__(self, priority: Priority) -> None:
        self.rank = _RANKS[priority]
        self.came_at = time.monotonic()
        self.may_run = threading.Event()

    def urgency(self, now: float) -> float:
        return self.rank + (now - self.came_at) / AGEING_S


class Turns:
    """Lets at most `slots` executions run at the same time. Thread-safe."""

    def __init__(self, slots: int) -> None:
        self._lock = threading.Lock()
        self._free = slots
        self._queue: list[_Waiting] = []

    def take(self, priority: Priority, deadline_s: float | None) -> None:
        """Returns when the execution has its turn, which lasts until `pass_on`.

        Raises:
            MissedDeadlineTransient: the deadline passed before that.
        """
        with self._lock:
            if self._free:
                self._free -= 1
                return
            waiting = _Waiting(priority)
            self._queue.append(waiting)
        left = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        if not waiting.may_run.wait(left) and self._gave_up(waiting):
            raise MissedDeadlineTransient("the deadline passed while other executions had their turn")

    def pass_on(self) -> None:
        """Ends a turn: who waits for one most urgently has it now."""
        with self._lock:
            if not self._queue:
                self._free += 1
                return
            now = time.monotonic()
            following = max(self._queue, key=lambda waiting: waiting.urgency(now))
            self._queue.remove(following)
            following.may_run.set()

    def _gave_up(self, waiting: _Waiting) -> bool:
        """Whether it left the queue without a turn; else the turn came just now."""
        with self._lock:
            if waiting not in self._queue:
                return False
            self._queue.remove(waiting)
            return True

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)
