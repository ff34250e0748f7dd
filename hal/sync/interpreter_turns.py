"""Lets work in the background use the Python interpreter beside threads that call it all the time.

A thread that makes system calls or runs native code in a loop releases the interpreter's lock each
time, and takes it again before a thread that waits for it has woken up. With a core for each
thread, work in the background can so wait for minutes, although it needs the interpreter for a
tenth of a second in all. If the result of such work makes calls faster, its callers give way to it.
"""

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Every interval of calls ends with a turn of the work, which takes at most 5 % of the time.
_INTERVAL_S: Final = 0.2
_TURN_S: Final = 0.01
#: The largest part of the time until its deadline for which a call pauses.
_MAX_SHARE: Final = 0.05
#: After this time a turn ends if no work needs the interpreter.
_STEP_S: Final = 0.001


class InterpreterTurns:
    """Makes threads pause at the same time. Thread-safe without a lock.

    Threads that read each other's times too early or too late pause a little more or less.
    """

    def __init__(self) -> None:
        self._begin_s = self._end_s = 0.0
        self._working: set[int] = set()
        os.register_at_fork(after_in_child=self._working.clear)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Marks the calling thread as work that needs the interpreter."""
        thread = threading.get_ident()
        self._working.add(thread)
        try:
            yield
        finally:
            self._working.discard(thread)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Marks the calling thread, if it is such work, as one that does not need it now."""
        thread = threading.get_ident()
        is_working = thread in self._working
        self._working.discard(thread)
        try:
            yield
        finally:
            if is_working:
                self._working.add(thread)

    def give_way(self, deadline_s: float | None = None) -> None:
        """Waits for the end of a turn, if there is one. No lock that the work takes may be held.

        Args:
            deadline_s: the deadline of what the thread is about to do, on the clock of
                `time.monotonic()`; None for none.
        """
        now_s = time.monotonic()
        if self._end_s <= now_s < self._begin_s + _INTERVAL_S:
            return  # So it is with most calls, which may be short.
        past_s = now_s - self._begin_s
        if past_s >= _INTERVAL_S:
            # After a time without calls there is no turn, since the work had the interpreter.
            self._begin_s = now_s
            self._end_s = now_s + _TURN_S if past_s < 2 * _INTERVAL_S else now_s
        limit_s = math.inf if deadline_s is None else now_s + _MAX_SHARE * (deadline_s - now_s)
        while (left_s := min(self._end_s, limit_s) - now_s) > 0:
            time.sleep(min(_STEP_S, left_s))
            now_s = time.monotonic()
            if not self._working:
                self._end_s = now_s


#: The turns of this process.
turns: Final = InterpreterTurns()
