"""Divides the commands of a long execution, so that it can be stopped soon.

Enqueued commands cannot be cancelled. They are therefore enqueued in portions of about `PORTION_S`,
each while the device works on the previous one. The durations are learned from execution to
execution.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from neurald.hal.process.fork import forkable_lock

#: Target duration of a portion. Two are in flight, so up to 10 ms, and 15 with the tolerance,
#: cannot be stopped.
PORTION_S: Final = 0.005
#: A portion that takes this many times as long is divided.
_TOLERANCE: Final = 1.5


class Portions:
    """Division of a list of commands. All lists of one prepared model have the same commands.

    Thread-safe.

    Args:
        total_s: the known duration of all commands together.
    """

    def __init__(self, total_s: float = 0.0) -> None:
        self._total_s = total_s
        self._lock = forkable_lock()
        self._bounds: tuple[int, ...] = ()

    def bounds(self, count: int) -> tuple[int, ...]:
        """Returns the start of each portion and the end of the last one.

        Before the first measurement, all commands are assumed to take equally long.
        """
        with self._lock:
            if not self._bounds or self._bounds[-1] != count:
                self._bounds = (0, *_divided(0, count, self._total_s))
            return self._bounds

    def learn(self, bounds: Sequence[int], taken_s: Sequence[float]) -> None:
        """Splits portions that took too long and joins short ones, for the next execution.

        Args:
            bounds: the division that the execution used.
            taken_s: the duration of each portion.
        """
        found: list[tuple[int, float]] = []
        for (first, last), seconds in zip(pairwise(bounds), taken_s, strict=True):
            if seconds > _TOLERANCE * PORTION_S:
                # This end is never joined with another portion.
                found += [(end, math.inf) for end in _divided(first, last, seconds)]
            elif found and found[-1][1] + seconds <= PORTION_S:
                found[-1] = last, found[-1][1] + seconds
            else:
                found.append((last, seconds))
        with self._lock:
            self._bounds = (0, *(end for end, _ in found))


def _divided(first: int, last: int, seconds: float) -> list[int]:
    """Returns the ends of equal portions of commands that take `seconds` in total."""
    parts = max(1, min(last - first, math.ceil(seconds / PORTION_S)))
    if seconds <= _TOLERANCE * PORTION_S:
        parts = 1
    return [first + (last - first) * part // parts for part in range(1, parts + 1)]
