"""Leaves time between runs, as applications that do not compute all the time do."""

import time
from collections.abc import Sequence


class Pacing:
    """Waits between runs.

    Args:
        delay_s: pause after each run.
        frequency_hz: starts this many runs per second instead, from now on; 0 for no rate. Runs
            that are late follow each other without a pause until they have caught up.
    """

    def __init__(self, delay_s: float = 0.0, frequency_hz: float = 0.0) -> None:
        self._delay_s = delay_s
        self._period_s = 1 / frequency_hz if frequency_hz > 0 else 0.0
        self._next_s = time.monotonic()

    def rate(self, seconds: Sequence[float], elapsed_s: float) -> float | None:
        """Returns the runs that began per second.

        Args:
            seconds: the duration of each run.
            elapsed_s: the time from the begin of the first run to the end of the last one.

        Returns:
            None if there are no pauses, or too few runs.
        """
        between_s = elapsed_s - seconds[-1]
        if len(seconds) < 2 or between_s <= 0 or not (self._delay_s or self._period_s):
            return None
        return (len(seconds) - 1) / between_s

    def wait(self) -> None:
        """Waits until the next run may start; called after each run."""
        if not self._period_s:
            if self._delay_s > 0:
                time.sleep(self._delay_s)
            return
        self._next_s += self._period_s
        time.sleep(max(0.0, self._next_s - time.monotonic()))
