"""Usage of the processors and the memory of this host."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from neurald.hal.accounting.exposition import Metric, Sample

#: Less time between two readings says little, since the kernel counts in hundredths of a second.
_MIN_INTERVAL_S: Final = 1.0
#: Where the times of all processors are in the first line of /proc/stat that the kernel counts as
#: idle: doing nothing, and waiting for disks. The last ones, of guests, are part of others.
_IDLE: Final = slice(3, 5)
_COUNTED: Final = 8
_NAMES: Final = ("MemTotal", "MemAvailable")


class _Times(NamedTuple):
    """Times of all processors since the start of the host, in the same unit."""

    idle: int
    all: int


class HostUsage:
    """Reads the usage of the host again and again. Any thread may ask for it.

    Args:
        folder: the folder /proc.
    """

    def __init__(self, folder: Path = Path("/proc")) -> None:
        self._folder = folder
        self._read_s = time.monotonic()
        self._times = self._read_times()
        self._utilization = 0.0

    def metrics(self) -> Iterator[Metric]:
        """Yields the metrics of the host that Triton has; none of what cannot be read here."""
        utilization = self.utilization()
        if utilization is not None:
            yield _gauge(
                "nv_cpu_utilization",
                "Share of time in which the processors of this host were busy, from 0 to 1",
                utilization,
            )
        memory = self._memory()
        if memory is not None:
            total, available = memory
            yield _gauge("nv_cpu_memory_total_bytes", "Memory of this host", total)
            yield _gauge("nv_cpu_memory_used_bytes", "Memory of this host that is in use", total - available)

    def utilization(self) -> float | None:
        """Returns the share of time in which processors were busy; None if it cannot be read here.

        It is that since the last reading that is long enough ago.
        """
        before = self._times
        if before is None:
            return None
        now_s = time.monotonic()
        if now_s - self._read_s >= _MIN_INTERVAL_S:
            times = self._read_times()
            if times is not None and times.all > before.all:
                idle = (times.idle - before.idle) / (times.all - before.all)
                self._utilization = min(1.0, max(0.0, 1.0 - idle))
                self._read_s, self._times = now_s, times
        return self._utilization

    def memory_utilization(self) -> float | None:
        """Returns the share of memory that is in use; None if it cannot be read here."""
        memory = self._memory()
        return None if memory is None or not memory[0] else 1.0 - memory[1] / memory[0]

    def _read_times(self) -> _Times | None:
        try:
            with (self._folder / "stat").open() as file:
                found = [int(each) for each in file.readline().split()[1:]][:_COUNTED]
        except (OSError, ValueError):
            return None
        return _Times(sum(found[_IDLE]), sum(found)) if len(found) == _COUNTED else None

    def _memory(self) -> tuple[int, int] | None:
        """Returns the bytes of all memory, and of what programs can still get."""
        found: dict[str, int] = {}
        try:
            with (self._folder / "meminfo").open() as file:
                for line in file:
                    name, _, rest = line.partition(":")
                    if name in _NAMES:
                        found[name] = int(rest.split()[0]) * 1024
        except (OSError, ValueError, IndexError):
            return None
        return (found[_NAMES[0]], found[_NAMES[1]]) if len(found) == len(_NAMES) else None


def _gauge(name: str, description: str, value: float) -> Metric:
    return Metric(name=name, kind="gauge", description=description, samples=[Sample({}, value)])
