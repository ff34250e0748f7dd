"""How the commands of a long execution are divided, so that little is on its way to the device when it is to stop.

What is enqueued cannot be called back. So commands are enqueued in portions of about `PORTION_S`, one while the device works
on the one before. How long commands take is learned from execution to execution.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from neurald.hal.process.fork import forkable_lock

#: What a portion is to take: two of them are under way, which makes 20 ms that nobody can stop.
PORTION_S: Final = 0.01
#: A portion that takes this many times as long is divided.
_TOLERANCE: Final = 1.5


class Portions:
    """Where a list of commands is divided. All lists of one prepared model have the same commands. Thread-safe.

    Args:
        total_s: how long all of them take together, as far as that is known.
    """

    def __init__(self, total_s: float = 0.0) -> None:
        self._total_s = total_s
        self._lock = forkable_lock()
        self._bounds: tuple[int, ...] = ()

    def bounds(self, count: int) -> tuple[int, ...]:
        """Where portions of so many commands begin, and the end of the last one; at first all are taken for equal."""
        with self._lock:
            if not self._bounds or self._bounds[-1] != count:
                self._bounds = (0, *_divided(0, count, self._total_s))
            return self._bounds

    def learn(self, bounds: Sequence[int], taken_s: Sequence[float]) -> None:
        """Divides what took too long, and joins what took little, for the next execution.

        Args:
            bounds: of the execution.
            taken_s: by each portion.
        """
        found: list[tuple[int, float]] = []
        for (first, last), seconds in zip(pairwise(bounds), taken_s, strict=True):
            if seconds > _TOLERANCE * PORTION_S:
                # An end that is joined with no other one.
                found += [(end, math.inf) for end in _divided(first, last, seconds)]
            elif found and found[-1][1] + seconds <= PORTION_S:
                found[-1] = last, found[-1][1] + seconds
            else:
                found.append((last, seconds))
        with self._lock:
            self._bounds = (0, *(end for end, _ in found))


def _divided(first: int, last: int, seconds: float) -> list[int]:
    """The ends of equal portions of the commands from `first` to `last` that take so long together."""
    parts = max(1, min(last - first, math.ceil(seconds / PORTION_S)))
    if seconds <= _TOLERANCE * PORTION_S:
        parts = 1
    return [first + (last - first) * part // parts for part in range(1, parts + 1)]
