"""Decides when a driver that died is started again."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

#: The pause after the second death, and the longest one. After the first death there is none;
#: each pause is twice as long as the one before.
_FIRST_PAUSE_S: Final = 0.1
_MAX_PAUSE_S: Final = 10.0
#: Number of times that a pause is doubled at most.
_MAX_DOUBLINGS: Final = 16
#: Pauses vary by this factor, so that several drivers do not start at the same moment.
_JITTER: Final = 0.2
#: A driver that has served for this long is regarded as healthy: the next pause is the first again.
_HEALTHY_S: Final = 60.0
#: This many deaths within this many seconds lead to quarantine.
_DEATHS: Final = 5
_PERIOD_S: Final = 60.0


@dataclass(slots=True, kw_only=True)
class RestartPolicy:
    """The recent deaths of a driver, and what follows from them.

    Attributes:
        chance: returns a random number between 0 and 1.
    """

    chance: Callable[[], float] = random.random
    _deaths: deque[float] = field(default_factory=lambda: deque(maxlen=_DEATHS))
    _count: int = 0
    _resumes_at_s: float = 0.0

    def died(self, now_s: float, served_s: float) -> float | None:
        """Records a death; returns the pause before the next start, or None for quarantine.

        Args:
            now_s: the time, on any monotonic clock.
            served_s: for how long the driver had served.
        """
        if served_s >= _HEALTHY_S:
            self.forget()
        self._deaths.append(now_s)
        if len(self._deaths) == _DEATHS and now_s - self._deaths[0] <= _PERIOD_S:
            return None
        before, self._count = self._count, self._count + 1
        pause_s = 0.0
        if before:
            pause_s = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * float(1 << min(before - 1, _MAX_DOUBLINGS)))
            pause_s *= 1 + _JITTER * (2 * self.chance() - 1)
        self._resumes_at_s = now_s + pause_s
        return pause_s

    def pause_left_s(self, now_s: float) -> float:
        """Returns how much of the pause after the last death is left at a time, at least 0."""
        return max(0.0, self._resumes_at_s - now_s)

    def forget(self) -> None:
        """Forgets all deaths."""
        self._deaths.clear()
        self._count = 0

    @property
    def deaths(self) -> int:
        """The number of recent deaths that are remembered."""
        return len(self._deaths)

    @staticmethod
    def describe_quarantine() -> str:
        """Describes what led to quarantine."""
        return f"it died {_DEATHS} times within {_PERIOD_S:g} s"
