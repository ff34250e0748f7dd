"""Measures how much of the machine processes use."""

import os
import time
from pathlib import Path
from typing import Final

import msgspec

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
#: Fields of /proc/PID/stat after the name of the command: user and system time of the process, and
#: those of its children that have ended; and its resident pages.
_TIMES: Final = slice(11, 15)
_RESIDENT: Final = 21


class ProcessUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The processors and the memory that a process and its children use.

    Attributes:
        cores: the processors that they used since the measurement before, on average; 1.0 is a
            whole one.
        memory_bytes: their resident memory; what they share counts once for each.
        processes: their number.
    """

    cores: float
    memory_bytes: int
    processes: int


class UsageMeter:
    """Measures processes again and again.

    Args:
        proc: the folder in which the kernel describes processes.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        #: When each process was measured, and its processor time then, in seconds.
        self._before: dict[int, tuple[float, float]] = {}

    def measure(self, process: int) -> ProcessUsage | None:
        """Returns what a process uses; None if it has ended.

        The first measurement of a process covers its whole life.
        """
        found = [self._read(each) for each in self._family(process)]
        alive = [each for each in found if each is not None]
        if found[0] is None:
            self._before.pop(process, None)
            return None
        now, used_s = time.monotonic(), sum(seconds for seconds, _ in alive)
        since, before_s = self._before.get(process, (None, 0.0))
        elapsed_s = self._age_s(process) if since is None else now - since
        self._before[process] = now, used_s
        return ProcessUsage(
            # Time of a child that ended without its parent's wait is lost.
            cores=max(0.0, used_s - before_s) / max(elapsed_s, 1 / _TICKS_PER_S),
            memory_bytes=sum(resident for _, resident in alive),
            processes=len(alive),
        )

    def _family(self, process: int) -> list[int]:
        """Returns a process and its descendants."""
        family = [process]
        for each in family:
            for listed in (self._proc / str(each) / "task").glob("*/children"):
                try:
                    family += map(int, listed.read_text().split())
                except (OSError, ValueError):
                    continue
        return family

    def _fields(self, process: int) -> list[str]:
        # The name of the command may contain anything, a parenthesis as well.
        return (self._proc / str(process) / "stat").read_text().rpartition(")")[2].split()

    def _read(self, process: int) -> tuple[float, int] | None:
        """Returns the processor time in seconds and the resident memory of one process."""
        try:
            fields = self._fields(process)
            return sum(map(int, fields[_TIMES])) / _TICKS_PER_S, int(fields[_RESIDENT]) * _PAGE_BYTES
        except (OSError, ValueError, IndexError):
            return None

    def _age_s(self, process: int) -> float:
        try:
            started_s = int(self._fields(process)[19]) / _TICKS_PER_S
            return float((self._proc / "uptime").read_text().split()[0]) - started_s
        except (OSError, ValueError, IndexError):
            return 0.0
