"""The distribution of latencies: a histogram since the start, and quantiles of the last minute."""

import math
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

#: Quantiles are of this time, in parts of which the oldest goes at once.
_WINDOW_S: Final = 60.0
_PART_S: Final = 10.0
#: Latencies with the same logarithm, times this and rounded down, count as equal. They differ by
#: 1 %, so that a quantile is at most half a percent away.
_STEPS: Final = 100


class MeasuredLatencies(Struct, frozen=True, kw_only=True):
    """The distributions of latencies that are measured.

    Attributes:
        histogram: whether there is a histogram of requests.
        quantiles: the quantiles of requests and their parts; empty for none.
    """

    histogram: bool = False
    quantiles: tuple[float, ...] = ()


NOTHING_MEASURED: Final = MeasuredLatencies()


class LatencyHistogram:
    """Counts latencies between bounds. The caller keeps two threads from adding at once.

    Args:
        bounds_ms: the upper bounds in milliseconds, each above the one before.
    """

    def __init__(self, bounds_ms: Sequence[float]) -> None:
        self.bounds_ms = tuple(bounds_ms)
        self._bounds_ns = [each * 1e6 for each in bounds_ms]
        self._counts = [0] * (len(self.bounds_ms) + 1)
        self._ns = 0

    def add(self, ns: int) -> None:
        """Adds a latency."""
        self._counts[bisect_left(self._bounds_ns, ns)] += 1
        self._ns += ns

    @property
    def total_ms(self) -> float:
        """The sum of all latencies."""
        return self._ns / 1e6

    def cumulative(self) -> list[int]:
        """Returns how many latencies are up to each bound, and at the end how many there are."""
        total, found = 0, []
        for count in self._counts:
            total += count
            found.append(total)
        return found


class LatencyQuantiles:
    """Estimates quantiles of latencies of the last minute.

    The caller keeps two threads from using it at once.

    Args:
        clock: returns seconds, as `time.monotonic` does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: When each part has begun, and how many latencies it has of each step.
        self._parts: deque[tuple[float, Counter[int]]] = deque(maxlen=round(_WINDOW_S / _PART_S))

    def add(self, ns: int) -> None:
        """Adds a latency."""
        now_s = self._clock()
        if not self._parts or now_s - self._parts[-1][0] >= _PART_S:
            self._parts.append((now_s, Counter()))
        self._parts[-1][1][int(math.log(ns) * _STEPS) if ns > 1 else 0] += 1

    def of(self, quantiles: Sequence[float]) -> list[float]:
        """Returns each quantile in nanoseconds; NaN for all if there is no latency."""
        since_s = self._clock() - _WINDOW_S
        counts: Counter[int] = Counter()
        for began_s, part in self._parts:
            if began_s > since_s:
                counts.update(part)
        total = counts.total()
        if not total:
            return [math.nan] * len(quantiles)
        return [_at(counts, max(1, math.ceil(each * total))) for each in quantiles]


def _at(counts: Counter[int], rank: int) -> float:
    """Returns about how long the latency of a rank is, where the shortest has rank 1."""
    for step in sorted(counts):
        rank -= counts[step]
        if rank <= 0:
            break
    return math.exp((step + 0.5) / _STEPS)
