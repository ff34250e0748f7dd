"""Units of LLVM's language that are to be compiled, handed out to the threads and processes that compile them."""

import threading
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A module that is compiled by itself. Two units of the same name have the same text."""

    name: str
    text: str


class Work:
    """Units that are to be compiled, and what became of them; several threads take and give them.

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
        """Of texts that nobody has taken."""
        with self._changed:
            return sum(len(unit.text) for unit in self._waiting)

    def add(self, unit: Unit) -> None:
        """Another unit."""
        with self._changed:
            self._waiting.append(unit)
            self._changed.notify()

    def close(self) -> None:
        """No further units will come. Those that take longest come first from now on, so that all end at about the same time."""
        with self._changed:
            self._is_closed = True
            self._waiting = deque(sorted(self._waiting, key=lambda unit: -len(unit.text)))
            self._changed.notify_all()

    def next(self, *, is_here: bool = False) -> Unit | None:
        """A unit for whoever asks; None: there are none left.

        Args:
            is_here: whether this process compiles it. Others wait for units to come, and do not get those that were given back.
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
        """The object code of a unit."""
        with self._changed:
            self._taken.pop(unit.name, None)
            self.codes[unit.name] = code
            self._changed.notify_all()

    def give_back(self, unit: Unit) -> None:
        """Another process has not compiled it."""
        with self._changed:
            if self._taken.pop(unit.name, None) is not None:
                self._returned.append(unit)
                self._changed.notify_all()

    def wait(self, patience_s: float) -> bool:
        """Waits until nobody compiles; whether that is so, unless nothing changed for so long."""
        with self._changed:
            while self._taken:
                if not self._changed.wait(patience_s):
                    return False
            return True

    def unfinished(self) -> list[Unit]:
        """What was given back, and what others still have."""
        with self._changed:
            return [*self._returned, *self._taken.values(), *self._waiting]
