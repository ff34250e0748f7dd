"""Decides by measured times whether a plan or the CPU device runs a model faster: a sequential test.

Runs of both alternate. The first of each is cold and only tells orders of magnitude. The logarithms
of the ratios of later pairs are tested: as soon as their mean differs from zero with a confidence
of 99 % (Student's t), the faster side stays. The better mean decides once it is as certain that the
difference is below 5 %, after a hundred pairs, or as soon as the runs of the slower side have cost
as much as twenty runs of the faster one. So deciding costs at most 2 % of 1,000 runs, unless a
single run is that much slower. Only times that vary much need many pairs; after fewer of them, a
side that is a fifth slower would win too often.
"""

import math
from enum import Enum
from typing import Final

#: How many runs of the faster side the runs of the slower side may cost.
MAX_LOSS: Final = 20.0
MIN_PAIRS: Final = 3
MAX_PAIRS: Final = 100
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
    """What runs the model."""

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
        self._cold: dict[Side, float] = {}
        self._warm: dict[Side, list[float]] = {Side.PLAN: [], Side.CPU: []}

    @property
    def next_side(self) -> Side:
        """The side that runs next."""
        runs = {side: len(self._warm[side]) + (side in self._cold) for side in Side}
        return Side.CPU if runs[Side.CPU] < runs[Side.PLAN] else Side.PLAN

    def add(self, side: Side, seconds: float) -> None:
        """Adds the time of a run."""
        if self.winner is not None or seconds <= 0:
            return
        if side in self._cold:
            self._warm[side].append(seconds)
        else:
            self._cold[side] = seconds
        self._decide()

    def typical_s(self, side: Side) -> float | None:
        """Returns the median of the warm runs of a side, or its cold run; None without any."""
        warm = sorted(self._warm[side])
        return warm[len(warm) // 2] if warm else self._cold.get(side)

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
        runs = [*self._warm[slower], self._cold[slower]]
        loss = sum(max(0.0, run - faster_s) for run in runs) / faster_s
        if loss + (slower_s / faster_s - 1) > MAX_LOSS:
            self._end(slower.other, self._times())
            return
        pairs = list(zip(self._warm[Side.PLAN], self._warm[Side.CPU], strict=False))
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
        runs = sum(len(times) for times in self._warm.values()) + len(self._cold)
        return f"{_shown(plan_s)} by the plan and {_shown(cpu_s)} on the CPU device, measured in {runs} runs"

    def _end(self, winner: Side, reason: str) -> None:
        self.winner, self.reason = winner, reason


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
