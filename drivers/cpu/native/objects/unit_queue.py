"""Units of LLVM IR to compile, distributed to the threads and processes that compile them."""

import threading
from collections import deque

from msgspec import Struct


class Unit(Struct, frozen=True, kw_only=True):
    """A module compiled on its own. Units with the same name have the same text."""

    name: str
    text: str


class UnitQueue:
    """Thread-safe queue of units to compile, and their results.

    Attributes:
        codes: object code by name.
    """

    def __init__(self) -> None:
        self.codes: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._waiting: deque[Unit] = deque()
        self._returned: list[Unit] = []
        self._taken: dict[str, Unit] = {}
        self._is_closed = False

    @property
    def waiting_bytes(self) -> int:
        """Total size of the texts not taken yet."""
        with self._changed:
            return sum(len(unit.text) for unit in self._waiting)

    def add(self, unit: Unit) -> None:
        """Adds a unit."""
        with self._changed:
            self._waiting.append(unit)
            self._changed.notify()

    def close(self) -> None:
        """Marks the queue as complete.

        From now on the longest units are taken first, to balance the load of the helpers.
        """
        with self._changed:
            self._is_closed = True
            self._waiting = deque(sorted(self._waiting, key=lambda unit: -len(unit.text)))
            self._changed.notify_all()

    def next(self, *, is_here: bool = False) -> Unit | None:
        """Takes a unit; None if there are none left.

        Args:
            is_here: True if this process compiles it. Helpers wait for new units, and do not get
                returned ones.
        """
        with self._changed:
            while not is_here and not self._waiting and not self._is_closed:
                self._changed.wait()
            if is_here and self._returned:
                unit = self._returned.pop()
            elif self._waiting:
                unit = self._waiting.popleft()
            else:
                return None
            self._taken[unit.name] = unit
            return unit

    def finished(self, unit: Unit, code: bytes) -> None:
        """Records the object code of a unit."""
        with self._changed:
            self._taken.pop(unit.name, None)
            self.codes[unit.name] = code
            self._changed.notify_all()

    def give_back(self, unit: Unit) -> None:
        """Returns a unit that a helper failed to compile."""
        with self._changed:
            if self._taken.pop(unit.name, None) is not None:
                self._returned.append(unit)
                self._changed.notify_all()

    def wait(self, patience_s: float) -> bool:
        """Waits until no unit is being compiled.

        Args:
            patience_s: how long to wait without any change.

        Returns:
            False if nothing changed for `patience_s` seconds.
        """
        with self._changed:
            while self._taken:
                if not self._changed.wait(patience_s):
                    return False
            return True

    def unfinished(self) -> list[Unit]:
        """Returns the units without object code."""
        with self._changed:
            return [*self._returned, *self._taken.values(), *self._waiting]
