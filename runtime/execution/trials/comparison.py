"""Decides by measured times whether a plan or the CPU device runs a model faster: a sequential test.

Both run in turns of four runs. The first of a turn is not counted: the runs of the other side have
let its threads fall asleep and its data leave the caches, which does not happen once it runs alone.
The very first run of each side is cold, and only tells orders of magnitude; the plan's would be as
cold without a trial, so that this costs nothing. The logarithms of the ratios of the medians of
adjacent turns are tested: as soon as their mean differs from zero with a confidence of 99 %
(Student's t), the faster side stays. The better mean decides once it is as
certain that the difference is below 5 %, after 25 pairs of turns, or as soon as the runs of the
slower side have cost as much as 19 runs of the faster one. So deciding costs at most 2 % of
1,000 runs, unless a single run is that much slower. Only times that vary much need many pairs;
after fewer of them, a side that is a fifth slower would win too often.
"""

import math
from enum import Enum
from typing import Final

from neurald.runtime.execution.medians import median

#: How many runs of the faster side the runs of the slower side may cost.
MAX_LOSS: Final = 19.0
#: Runs of a side in sequence.
TURN: Final = 4
MIN_PAIRS: Final = 3
MAX_PAIRS: Final = 25
#: Without a clear difference the plan stays.
_CLEAR: Final = math.log(1.02)
#: A smaller difference is not worth more runs.
_LITTLE: Final = math.log(1.05)
#: Two-sided 99 % quantiles of Student's t, by the number of pairs. That of the last one is used for
#: more of them, too, since they are tested again and again.
_QUANTILES: Final = {
    3: 9.925,
    4: 5.841,
    5: 4.604,
    6: 4.032,
    7: 3.707,
    8: 3.499,
    9: 3.355,
    10: 3.250,
    11: 3.169,
    12: 3.106,
}


class Side(Enum):
    """The two sides that are compared: the plan, and the CPU device."""

    PLAN = "the plan"
    CPU = "the CPU device"

    @property
    def other(self) -> "Side":
        """The other one."""
        return Side.CPU if self is Side.PLAN else Side.PLAN


class Comparison:
    """One test. Not thread-safe.

    Args:
        predicted_cpu_s: what the CPU device is predicted to take; None if that is not known. It is
            not even tried if that would cost too much.

    Attributes:
        winner: None until it is decided.
        reason: of the decision.
    """

    def __init__(self, predicted_cpu_s: float | None = None) -> None:
        self.winner: Side | None = None
        self.reason = ""
        self._predicted_cpu_s = predicted_cpu_s
        #: The times of the first runs of each side, until its first turn is complete.
        self._first: dict[Side, float] = {}
        self._side = Side.PLAN
        self._turn: list[float] = []
        self._medians: dict[Side, list[float]] = {Side.PLAN: [], Side.CPU: []}
        # The first run of each side, and all since both have run.
        self._runs: dict[Side, list[float]] = {Side.PLAN: [], Side.CPU: []}

    @property
    def next_side(self) -> Side:
        """The side that runs next."""
        if self._first and Side.CPU not in self._first:
            return Side.CPU
        if 0 < len(self._turn) < TURN:
            return self._side
        return Side.CPU if len(self._medians[Side.CPU]) < len(self._medians[Side.PLAN]) else Side.PLAN

    def add(self, side: Side, seconds: float) -> None:
        """Adds the time of a run, which may also be of the other side than the next one."""
        if self.winner is not None or seconds <= 0:
            return
        if side not in self._first or side.other in self._first:
            self._runs[side].append(seconds)
        self._first.setdefault(side, seconds)
        if side is not self._side or len(self._turn) == TURN:
            if len(self._turn) > 1:
                self._first[self._side] = median(self._turn[1:])
            self._side, self._turn = side, []
        self._turn.append(seconds)
        if len(self._turn) == TURN:
            medians = self._medians[side]
            # The plan runs several turns until the CPU device is prepared.
            if len(medians) > len(self._medians[side.other]):
                medians.pop()
            medians.append(median(self._turn[1:]))
        self._decide()

    def typical_s(self, side: Side) -> float | None:
        """Returns the median of the turns of a side, or what its first runs tell; None without any."""
        if medians := self._medians[side]:
            return median(medians)
        if side is self._side and len(self._turn) > 1:
            return median(self._turn[1:])
        return self._first.get(side)

    def _decide(self) -> None:
        plan_s, cpu_s = self.typical_s(Side.PLAN), self.typical_s(Side.CPU)
        if plan_s is None:
            return
        if cpu_s is None:
            predicted_s = self._predicted_cpu_s
            if predicted_s is not None and predicted_s > (MAX_LOSS + 1) * plan_s:
                self._end(Side.PLAN, f"{_shown(plan_s)}; {_shown(predicted_s)} predicted on the CPU device")
            return
        slower = Side.PLAN if plan_s > cpu_s else Side.CPU
        faster_s, slower_s = min(plan_s, cpu_s), max(plan_s, cpu_s)
        runs = self._runs[slower]
        if slower is Side.PLAN:
            # Without a trial the plan's first run would be as cold.
            runs = [min(runs[0], slower_s), *runs[1:]]
        loss = sum(max(0.0, run - faster_s) for run in runs) / faster_s
        if loss + (slower_s / faster_s - 1) > MAX_LOSS:
            self._end(slower.other, self._times())
            return
        pairs = list(zip(self._medians[Side.PLAN], self._medians[Side.CPU], strict=False))
        if len(pairs) < MIN_PAIRS:
            return
        ratios = [math.log(plan / cpu) for plan, cpu in pairs]
        count = len(ratios)
        mean = sum(ratios) / count
        deviation = math.sqrt(sum((each - mean) ** 2 for each in ratios) / (count - 1))
        error = _QUANTILES[min(count, max(_QUANTILES))] * deviation / math.sqrt(count)
        if abs(mean) > error or abs(mean) + error < _LITTLE or count >= MAX_PAIRS:
            self._end(Side.CPU if mean > _CLEAR else Side.PLAN, self._times())

    def _times(self) -> str:
        plan_s, cpu_s = self.typical_s(Side.PLAN), self.typical_s(Side.CPU)
        assert plan_s is not None  # noqa: S101 - both have run
        assert cpu_s is not None  # noqa: S101
        runs = sum(len(each) for each in self._runs.values())
        return f"{_shown(plan_s)} by the plan and {_shown(cpu_s)} on the CPU device, measured in {runs} runs"

    def _end(self, winner: Side, reason: str) -> None:
        self.winner, self.reason = winner, reason


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
