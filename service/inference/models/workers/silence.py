"""Tells a process that hangs from one that is only given no processor.

A process that owes an answer hangs if it is stopped, if all of its threads sleep, or if those that
do not sleep have computed meanwhile without answering. On a crowded machine, a thread that could
answer waits for a processor, or for memory from the disk. Such a process is believed for longer.
"""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
#: A process that has not answered for this long hangs, unless it is only given no processor; then
#: it does after `_CROWDED_S`, since it serves nobody anyway.
_HANGS_S: Final = 0.1
_CROWDED_S: Final = 1.0
#: A process that has hung, or has been given no processor, for this long is given up.
_HOPELESS_S: Final = 3.0
_HOPELESSLY_CROWDED_S: Final = 30.0
#: How much one look adds to these times. If the next look comes later, the process that looks was
#: given no processor itself.
_MAX_LOOK_S: Final = 0.1
#: How many looks in a row must say that a process is not short of a processor.
_LOOKS: Final = 2
#: How long a thread computes for an answer at most.
_COMPUTED_S: Final = 0.02
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
#: Fields of `stat` behind the name: the state, and the user and system time in ticks.
_STATE, _USER, _SYSTEM = 0, 11, 12
#: The states of threads that wait for a processor or have one, and of those that wait for a disk.
_WAITING: Final = "RD"
_STOPPED: Final = "TtZX"


class Silence:
    """Judges a process by what its threads do while it owes an answer.

    Args:
        pid: the process ID of a process of this user.
        clock: returns seconds.
        proc: the folder with what the kernel says of processes.
    """

    def __init__(self, pid: int, clock: Callable[[], float] = time.monotonic, proc: Path = _PROC) -> None:
        self._tasks = proc / str(pid) / "task"
        self._clock = clock
        #: When it was last checked; None if it owes no answer.
        self._looked_s: float | None = None
        #: The processor time of each thread when it was first checked.
        self._computed_s: dict[str, float] = {}
        self.answered()

    def asked(self) -> None:
        """Notes that the process owes an answer, perhaps already."""
        if self._looked_s is None:
            self._looked_s = self._clock()

    def answered(self) -> None:
        """Notes that it has answered."""
        self._looked_s = None
        self._computed_s.clear()
        self._lasts_s = self._hangs_s = 0.0
        self._looks = 0
        self._is_stopped = False

    @property
    def is_hang(self) -> bool:
        """True if the process hangs."""
        is_long = self._lasts_s >= _HANGS_S and self._looks >= _LOOKS
        return self._is_stopped or is_long or self._lasts_s >= _CROWDED_S

    @property
    def is_hopeless(self) -> bool:
        """True if it has hung for so long that it should be ended."""
        return self._hangs_s >= _HOPELESS_S or self._lasts_s >= _HOPELESSLY_CROWDED_S

    def look(self) -> None:
        """Looks at the process, unless it owes no answer. Call it from time to time."""
        if self._looked_s is None:
            return
        now_s = self._clock()
        passed_s = min(_MAX_LOOK_S, now_s - self._looked_s)
        self._looked_s = now_s
        self._lasts_s += passed_s
        threads = self._threads()
        self._is_stopped = bool(threads) and all(state in _STOPPED for state, _ in threads.values())
        is_first = not self._computed_s
        for thread, (_, computed_s) in threads.items():
            self._computed_s.setdefault(thread, computed_s)
        is_short = any(
            state in _WAITING and computed_s - self._computed_s[thread] < _COMPUTED_S
            for thread, (state, computed_s) in threads.items()
        )
        if is_short and not self._is_stopped:
            self._looks, self._hangs_s = 0, 0.0
        elif not is_first:
            self._looks += 1
            self._hangs_s += passed_s

    def _threads(self) -> dict[str, tuple[str, float]]:
        """Returns the state and the processor time of each thread."""
        found: dict[str, tuple[str, float]] = {}
        with contextlib.suppress(OSError):
            for thread in os.listdir(self._tasks):  # noqa: PTH208 - names only
                with contextlib.suppress(OSError, IndexError, ValueError):
                    fields = (self._tasks / thread / "stat").read_text().rpartition(")")[2].split()
                    ticks = int(fields[_USER]) + int(fields[_SYSTEM])
                    found[thread] = fields[_STATE], ticks * _TICK_S
        return found
