"""Tells whether a run had a device for itself, as far as this process knows.

A run that waits for others takes longer than the device needs for it, so its time says nothing
about the device.
"""

from typing import Final

from neurald.hal.process.fork import at_fork, forkable_lock

_lock: Final = forkable_lock()
_uses: Final[dict[str, "DeviceUse"]] = {}


class DeviceUse:
    """The runs of one device at the moment. Thread-safe."""

    def __init__(self) -> None:
        self._lock = forkable_lock()
        self._running = 0
        #: How many runs have begun so far.
        self._begun = 0
        at_fork(self)

    def forked(self) -> None:
        """Forgets the runs of other threads, which do not exist in a child."""
        self._running = 0

    def begin(self) -> int:
        """Notes the begin of a run, and returns what `end` needs; negative if others run."""
        with self._lock:
            self._running += 1
            self._begun += 1
            return self._begun if self._running == 1 else -1

    def end(self, begun: int) -> bool:
        """Notes the end of a run. True if no other one ran in the meantime."""
        with self._lock:
            # A run in which the process was forked has been forgotten, and ends in the child as
            # well.
            self._running = max(0, self._running - 1)
            return begun == self._begun


def use_of(device: str) -> DeviceUse:
    """Returns the use of the device of this name."""
    found = _uses.get(device)
    if found is None:
        with _lock:
            found = _uses.setdefault(device, DeviceUse())
    return found
