"""Finds out whether more threads want to run than there are processors.

A thread that polls for another one's result gains time while a processor is idle, and takes it from
others while none is.
"""

import os
from collections.abc import Callable
from typing import Final

#: Its fourth field is `RUNNING/ALL`: how many threads run or want to run now, and how many exist.
_LOAD_FILE: Final = "/proc/loadavg"
_LOAD_BYTES: Final = 64
#: How long a count is valid. Counting takes several microseconds.
_VALID_S: Final = 1e-3


def running_threads() -> int:
    """Returns how many threads of this machine run or want to run; 0 if that is not known."""
    try:
        file = os.open(_LOAD_FILE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fields = os.read(file, _LOAD_BYTES).split()
        finally:
            os.close(file)
        return int(fields[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):
        return 0


class Processors:
    """The processors of this machine. Thread-safe.

    Args:
        count: how many this process may use; None asks the system.
        running: returns how many threads run or want to run; 0 if that is not known.

    Attributes:
        count: how many this process may use.
    """

    def __init__(self, count: int | None = None, running: Callable[[], int] = running_threads) -> None:
        self.count = count or len(os.sched_getaffinity(0))
        self._running = running
        self._valid_until = 0.0
        self._are_crowded = True

    def are_crowded(self, now: float) -> bool:
        """Returns whether more threads than processors wanted to run a moment ago.

        Returns True also if that is not known.

        Args:
            now: the present time, on the clock of `time.perf_counter()`.
        """
        if now >= self._valid_until:
            self._valid_until = now + _VALID_S
            self._are_crowded = not 0 < self._running() <= self.count
        return self._are_crowded


#: The processors of this process.
PROCESSORS: Final = Processors()
