"""Tells how much programs waited for a processor, which makes measurements of times too long."""

import time
from pathlib import Path
from typing import Final

#: Linux's pressure stall information; absent where the kernel does not keep it.
_PRESSURE: Final = Path("/proc/pressure/cpu")


class ProcessorPressure:
    """Measures the share of time since its creation in which any program waited for a processor."""

    def __init__(self) -> None:
        self._waited_s = _waited_s()
        self._started_s = time.monotonic()

    def share(self) -> float | None:
        """Returns the share so far, or None if this system does not tell."""
        waited_s = _waited_s()
        if waited_s is None or self._waited_s is None:
            return None
        passed_s = max(time.monotonic() - self._started_s, 1e-6)
        return min(1.0, (waited_s - self._waited_s) / passed_s)


def _waited_s() -> float | None:
    """Returns for how long any program has waited since the system started."""
    try:
        some = next(line for line in _PRESSURE.read_text("ascii").splitlines() if line.startswith("some "))
        return int(some.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError, StopIteration):
        return None
