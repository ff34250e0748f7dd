"""A sequential test of measured times decides whether a plan or a rival is fastest.

Rivals are devices that run the whole model, of which the CPU device is one. All run in turns of
four runs. The first of a turn is not counted: the runs of the others have let its threads fall
asleep and its data leave the caches, which does not happen once it runs alone. The very first run
of each is cold, and only tells orders of magnitude; the plan's would be as cold without a trial, so
that this costs nothing. The logarithms of the ratios of the medians of adjacent turns of two are
tested: as soon as their mean differs from zero with a confidence of 99 % (Student's t), the slower
one is out. The better mean decides once it is as certain that the difference is below 5 %, after 25
pairs of turns, or as soon as the runs of one have cost its share of 19 runs of the fastest. So
deciding costs at most 2 % of 1,000 runs, unless a single run is that much slower. Only times that
vary much need many pairs; after fewer of them, one that is a fifth slower would win too often.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Final

from msgspec import Struct

from neurald.hal.wording import counted, listed, milliseconds
from neurald.runtime.execution.medians import median

#: The number of the plan; rivals have those after it.
PLAN: Final = 0
#: How many runs of the fastest one the runs of all others may cost. Rivals have equal shares.
MAX_LOSS: Final = 19.0
#: Runs in sequence.
TURN: Final = 4
MIN_PAIRS: Final = 3
MAX_PAIRS: Final = 25
#: Without a clear difference the plan stays, or the rival that is named first.
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


class Expectation(Struct, frozen=True, kw_only=True):
    """Knowledge about a rival before it runs.

    Attributes:
        name: the name of the device, for reasons.
        seconds: the seconds that it is expected to take; None if that is not known.
    """

    name: str
    seconds: float | None = None


class Comparison:
    """One test. Not thread-safe.

    Args:
        rivals: the rivals of the plan. One that is expected to cost too much is not even tried.

    Attributes:
        winner: the number of the fastest; None until it is decided.
        reason: the reason of the decision.
    """

    def __init__(self, rivals: Sequence[Expectation]) -> None:
        self.winner: int | None = None
        self.reason = ""
        self._expected_s = {number: each.seconds for number, each in enumerate(rivals, start=1)}
        self._places = ["by the plan", *[f"on {each.name}" for each in rivals]]
        #: The numbers of those that are not slower than another one, as far as it is known.
        self._left = list(range(len(self._places)))
        #: Why places were excluded that have not run.
        self._untried: list[str] = []
        #: The times of first runs, until the first turn is complete.
        self._first: dict[int, float] = {}
        self._latest = PLAN
        self._turn: list[float] = []
        self._medians: list[list[float]] = [[] for _ in self._places]
        # The first run of each, and all since a rival has run.
        self._runs: list[list[float]] = [[] for _ in self._places]

    @property
    def next_one(self) -> int:
        """The number of the one that runs next."""
        if self._first:
            for number in self._left:
                if number not in self._first:
                    return number
        if 0 < len(self._turn) < TURN and self._latest in self._left:
            return self._latest
        return min(self._left, key=lambda number: len(self._medians[number]))

    def is_left(self, number: int) -> bool:
        """Returns whether it may still win."""
        return number in self._left

    def expect(self, number: int, seconds: float) -> None:
        """Sets what a rival is expected to take."""
        self._expected_s[number] = seconds
        self._decide()

    def drop(self, number: int, reason: str) -> None:
        """Leaves out a rival, for a reason that names it."""
        if self.winner is None and number in self._left:
            self._untried.append(reason)
            self._left.remove(number)
            self._decide()

    def add(self, number: int, seconds: float) -> None:
        """Adds the time of a run, which may also be of another one than the next one."""
        if self.winner is not None or seconds <= 0 or number not in self._left:
            return
        if number not in self._first or any(other != PLAN for other in self._first):
            self._runs[number].append(seconds)
        self._first.setdefault(number, seconds)
        if number != self._latest or len(self._turn) == TURN:
            if len(self._turn) > 1:
                self._first[self._latest] = median(self._turn[1:])
            self._latest, self._turn = number, []
        self._turn.append(seconds)
        if len(self._turn) == TURN:
            medians = self._medians[number]
            # The plan runs several turns until its rivals are prepared.
            if any(len(medians) > len(self._medians[other]) for other in self._left):
                medians.pop()
            medians.append(median(self._turn[1:]))
        self._decide()

    def typical_s(self, number: int) -> float | None:
        """Returns the median of the turns of one, or what its first runs tell; None without any."""
        if medians := self._medians[number]:
            return median(medians)
        if number == self._latest and len(self._turn) > 1:
            return median(self._turn[1:])
        return self._first.get(number)

    def likely_s(self, number: int) -> float | None:
        """Returns what a run of one takes, as far as it is known or expected."""
        typical_s = self.typical_s(number)
        return self._expected_s.get(number) if typical_s is None else typical_s

    def _decide(self) -> None:
        if self.winner is not None or self.typical_s(PLAN) is None:
            return
        self._leave_out_hopeless()
        self._leave_out_costly()
        self._leave_out_slower()
        if len(self._left) == 1:
            (self.winner,) = self._left
            self.reason = self._times()

    @property
    def _share(self) -> float:
        """Number of runs of the fastest one that those of another one may cost."""
        return MAX_LOSS / max(1, sum(n in self._first or n in self._left for n in self._expected_s))

    def _leave_out_hopeless(self) -> None:
        """Leaves out rivals that are expected to cost too much."""
        best_s = min(seconds for n in self._left if (seconds := self.typical_s(n)) is not None)
        for number in self._left[:]:
            expected_s = self._expected_s.get(number)
            if number in self._first or expected_s is None or expected_s <= (self._share + 1) * best_s:
                continue
            self._left.remove(number)
            self._untried.append(f"{milliseconds(expected_s)} predicted {self._places[number]}")

    def _leave_out_costly(self) -> None:
        """Leaves out those whose runs have cost their share."""
        while True:
            times = {n: seconds for n in self._left if (seconds := self.typical_s(n)) is not None}
            slowest, best_s = max(times, key=times.__getitem__), min(times.values())
            runs = self._runs[slowest]
            if slowest == PLAN:
                # Without a trial the plan's first run would be as cold.
                runs = [min(runs[0], times[PLAN]), *runs[1:]]
            loss = sum(max(0.0, run - best_s) for run in runs) / best_s
            if len(times) == 1 or loss + (times[slowest] / best_s - 1) <= self._share:
                return
            self._left.remove(slowest)

    def _leave_out_slower(self) -> None:
        """Leaves out those that are certainly slower than another one, or not certainly faster."""
        for one, other in combinations(self._left[:], 2):
            pairs = list(zip(self._medians[one], self._medians[other], strict=False))
            if len(pairs) < MIN_PAIRS or one not in self._left or other not in self._left:
                continue
            ratios = [math.log(first_s / second_s) for first_s, second_s in pairs]
            count = len(ratios)
            mean = sum(ratios) / count
            deviation = math.sqrt(sum((each - mean) ** 2 for each in ratios) / (count - 1))
            error = _QUANTILES[min(count, max(_QUANTILES))] * deviation / math.sqrt(count)
            if abs(mean) > error or abs(mean) + error < _LITTLE or count >= MAX_PAIRS:
                self._left.remove(one if mean > _CLEAR else other)

    def _times(self) -> str:
        times = [
            f"{milliseconds(seconds)} {place}"
            for number, place in enumerate(self._places)
            if (seconds := self.typical_s(number)) is not None
        ]
        runs = counted(sum(len(each) for each in self._runs), "run")
        return "; ".join([f"{listed(times)}, measured in {runs}", *self._untried])
