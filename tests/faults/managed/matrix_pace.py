"""The times at which the cells of the kill matrix begin."""

import math
import threading
import time
from collections.abc import Iterable

from faults.managed.matrix_report import PlayedCell

#: Faults after which nothing but work delays the device's use.
_MEASURED = ("kill", "abort")
#: This many cells of these decide how many are played at a time.
_WINDOW = 100
#: Times in which the device is used again after nearly all of them: with less the machine has cores
#: to spare, with more processes wait for each other. The limit is 1 s.
_SPARE_S = 0.4
_BUSY_S = 0.55
_MORE = 4
_LESS = 0.85
#: How often a job that waits looks at the time.
_LOOK_S = 1.0


class Pace:
    """Limits how many cells are played at a time, so that they do not delay each other.

    Args:
        most: at most.
        first: at the beginning.
        slack: factor of all times.

    Attributes:
        now: the number at present.
        fewest, most: of them so far.
    """

    def __init__(self, most: int, first: int, slack: float = 1.0) -> None:
        self._limit = most
        self._slack = slack
        self._times_s: list[float] = []
        self.now = self.fewest = self.most = max(1, min(most, first))

    def played(self, cell: PlayedCell) -> None:
        """Notes how long a cell took."""
        if cell.fault not in _MEASURED:
            return
        self._times_s.append(math.inf if cell.recovery_s is None else cell.recovery_s / self._slack)
        if len(self._times_s) < _WINDOW:
            return
        nearly_all_s = sorted(self._times_s)[_WINDOW * 95 // 100]
        self._times_s.clear()
        if nearly_all_s < _SPARE_S:
            self.now = min(self._limit, self.now + _MORE)
        elif nearly_all_s > _BUSY_S:
            self.now = max(1, int(self.now * _LESS))
        self.fewest = min(self.fewest, self.now)
        self.most = max(self.most, self.now)


class Dealer:
    """Gives cells to jobs, in their order.

    Args:
        cells: faults and phases.
        jobs: how many there are; each must `arrive` or `leave`.
        pace: how many cells are played at a time.
        seconds: after which no further cell begins; None for no limit.
    """

    def __init__(
        self, cells: Iterable[tuple[str, str]], jobs: int, pace: Pace, seconds: float | None = None
    ) -> None:
        self._cells = iter(cells)
        self._pace = pace
        self._end_s = math.inf if seconds is None else time.monotonic() + seconds
        lock = threading.RLock()
        self._turn = threading.Condition(lock)
        self._changed = threading.Condition(lock)
        self._awaited = jobs
        self._arrived = 0
        self._playing = 0
        self._is_over = False
        self._is_stopped = False

    def arrive(self) -> None:
        """Waits until each of the other jobs is ready, too, or will not be."""
        with self._changed:
            self._arrived += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._arrived >= self._awaited or self._is_over)

    def take(self) -> tuple[str, str] | None:
        """Returns a cell for a job once it may begin; None if no further one does."""
        with self._turn:
            while self._playing >= self._pace.now and not self._is_late():
                self._turn.wait(_LOOK_S)
            cell = None if self._is_late() else next(self._cells, None)
            if cell is None:
                self._end()
            else:
                self._playing += 1
            return cell

    def _is_late(self) -> bool:
        return self._is_over or time.monotonic() > self._end_s

    def _end(self) -> None:
        self._is_over = True
        self._turn.notify_all()
        self._changed.notify_all()

    def give_back(self, cell: PlayedCell | None) -> None:
        """Notes that a job has played a cell, or has died of it."""
        with self._turn:
            self._playing -= 1
            if cell is not None:
                self._pace.played(cell)
            self._turn.notify(_MORE)
            if self._is_over:
                self._changed.notify_all()

    def leave(self) -> None:
        """Notes that a job plays no further cell; waits until the others have played theirs."""
        with self._changed:
            self._awaited -= 1
            if not self._awaited:
                self._end()
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._is_stopped or not self._awaited or (self._is_over and not self._playing)
            )

    def stop(self) -> None:
        """Lets no further cell begin, and nobody wait."""
        with self._changed:
            self._is_stopped = True
            self._end()
