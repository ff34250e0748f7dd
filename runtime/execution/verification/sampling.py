"""Decides which executions of a step are verified, so that they take a small share of its time.

Verification is given a *share* of the time of the executions. For each verified execution, inputs
and outputs are copied, and the CPU device computes in the background while the device goes on. What
the application waits for is the copying, what other executions take longer meanwhile, and noting
the time of each execution; this is limited to the share. The CPU device's time is limited to ten
times the share, and the number of verified executions to four times the share of all.

The first ten executions are verified without a gap, since a fault of every n-th execution, as of
one buffer among several that take turns, is certain to be found by n executions in a row. Later
ones are at random distances: a device may become wrong at any time, and a fixed distance might
never meet a fault of every n-th.

On a busy machine, the limits may leave gaps between the first ones. Until for each n up to ten one
execution of each remainder of n was verified, *certain* executions are therefore verified whatever
it takes. Their distance has no common divisor with a number up to ten, so that ten of them are
enough: within `10 / share` executions, which are 1,000 for 1 %, a fault of every n-th is found.
Those that would add nothing are left out.

A fault that strikes each execution with probability p is missed by n verified ones with probability
(1 - p)^n, whichever they are. If the limits on time allow it, 1,000 executions with a share of 1 %
have about 49 verified ones, which miss p = 0.1 with 0.006; as many as the share, ten, would miss it
with 0.35. Executions of 1 ms had 6 to 26 verified ones of 1,000 on a busy machine, and those of 0.2
ms 2 to 16, since copies take as long as a short execution.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast

from neurald.hal.process.fork import forkable_lock
from neurald.runtime.execution.medians import low_median

#: Shares below this are as good as none.
MIN_SHARE: Final = 1e-6
#: How many executions are verified in a row in the beginning.
FIRST: Final = 10
#: Numbers up to FIRST have no other prime divisors than this one.
_DIVISORS: Final = 2 * 3 * 5 * 7
#: The factor by which the share of verified executions may be larger than that of the time.
_RUNS_PER_SHARE: Final = 4.0
#: The factor by which the share of the CPU device's time may exceed that of the time waited for.
_BACKGROUND_PER_SHARE: Final = 10.0
#: In the beginning, a verification counts as no longer than this many times the usual one.
_MAX_OUTLIER: Final = 2.0
#: The number of verifications after which it is known what is usual.
_LATEST: Final = 15
#: An execution that is verified does not take the fast path of its device, nor does it come back to
#: it at once, which takes twice as long as the copies.
WITHOUT_FAST_PATH: Final = 3.0
#: The time to note an execution that is not verified, at most half of the share.
_NOTE_S: Final = 0.5e-6
#: Which part of the share is for what is measured; deciding, and caches that a verification leaves
#: to others, take time as well.
MEASURED: Final = 0.9
#: After this many executions at most, one that takes too much time is considered again, and times
#: are counted.
_MAX_PAUSE: Final = 32
#: How much a further execution counts in the usual time.
_USUAL_WEIGHT: Final = 1 / 16


def certain_distance(share: float) -> int:
    """Returns the distance of certain executions: the largest suitable one up to `1 / share`."""
    most = max(1, math.floor(1 / share))
    return next(each for each in range(most, 0, -1) if math.gcd(each, _DIVISORS) == 1)


class Sampler:
    """Chooses executions of one step. Races between threads only move a choice by an execution.

    Every execution asks whether it is due, and is noted. To take little time, `ran` only appends to
    a list, which is counted when an execution may be due: see `pause`.

    The executions in the beginning are chosen as soon as they can be verified, and later ones at
    random distances. Before the first `10 / share` executions have passed, verifications take no
    more time than they may take by then, but for the first one, which is verified whatever it
    takes; afterwards they take no more than the share of the time until now.

    Args:
        share: the share of the time, above 0 and at most 1. With 1, every execution is verified.
        seed: the seed of the distances; None for one of the system.

    Attributes:
        noted: the times of executions that were not verified and are not counted yet.
        ran: notes an execution on the device that was not verified; takes its time, or None if that
            is not known.
        pause: while fewer executions are noted, none is due.
        not_before: no execution with a smaller number, counted from 0, is due.
        verified: how many of them were verified or are to be compared.
        waiting: how many of these are to be compared.
    """

    def __init__(self, share: float, seed: int | None = None) -> None:
        self._share = max(share, MIN_SHARE)
        self._random = random.Random(seed)  # noqa: S311 - nothing depends on its being secret
        #: Of every group of this many executions one is verified, at a random place.
        self._distance = max(1, round(1 / (_RUNS_PER_SHARE * self._share)))
        #: The first ones are verified at the expense of all until here.
        self._advance = math.ceil(FIRST / self._share)
        self.not_before = self._end = 0
        self._certain_distance = certain_distance(self._share)
        #: The remainders that no verified execution has, by the divisor of the executions' numbers.
        self._missing = {divisor: set(range(divisor)) for divisor in range(1, FIRST + 1)}
        #: The number of the next certain execution; None after the last one.
        self._next_certain: int | None = self._certain_distance
        #: Which part of the time of a verification is saved before it; random for random distances.
        self._slack = self._random.random()
        self._work_s = 0.0
        self._shortest_s = math.inf
        self._usual_s = 0.0
        self._spent_s = 0.0
        self._latest_extra_s: deque[float] = deque(maxlen=_LATEST)
        self._usual_extra_s = 0.0
        self._disturbed_s = 0.0
        self._background_s = 0.0
        self._usual_background_s = 0.0
        self._counted = 0
        self._counting = forkable_lock()
        self.noted: Final[list[float | None]] = []
        self.ran: Final[Callable[[float | None], None]] = self.noted.append
        self.pause = 0
        self.verified = 0
        self.waiting = 0

    @property
    def runs(self) -> int:
        """The number of executions."""
        return self._counted + len(self.noted)

    @property
    def verifies_all(self) -> bool:
        """True if every execution is to be verified."""
        return self._share >= 1

    @property
    def is_certain(self) -> bool:
        """True if the next execution is to be verified whatever it takes."""
        return self._next_certain is not None and self.runs >= self._next_certain

    @property
    def patience(self) -> int:
        """After how many executions one waits until it can be verified; 0 if each must be."""
        return 0 if self.verifies_all else math.ceil(1 / self._share)

    def _count(self) -> None:
        """Counts the executions that were noted."""
        if not self._counting.acquire(False):
            return  # another thread counts them
        try:
            noted = self.noted.copy()
            del self.noted[: len(noted)]
            if noted and not self.waiting and None not in noted:
                times = cast("list[float]", noted)
                if max(times) < 2 * self._usual_s:
                    self._count_usual(times)
                    return
            for seconds in noted:
                if seconds is None:
                    seconds = self._work_s / self._counted if self._counted else 0.0
                elif self.waiting:
                    # Single long executions say nothing.
                    self._disturbed_s += min(self._usual_s, seconds - self._usual_s)
                else:
                    usual_s = self._usual_s or seconds
                    self._usual_s = usual_s + _USUAL_WEIGHT * (min(seconds, 2 * usual_s) - usual_s)
                self._add(seconds)
        finally:
            self._counting.release()

    def _count_usual(self, noted: Sequence[float]) -> None:
        """Counts executions that take about as long as others, in less time than one by one."""
        count = len(noted)
        work_s = sum(noted)
        mean_s = work_s / count
        self._usual_s = mean_s + (1 - _USUAL_WEIGHT) ** count * (self._usual_s - mean_s)
        self._counted += count
        self._work_s += work_s
        self._shortest_s = min(self._shortest_s, *noted)

    @property
    def is_due(self) -> bool:
        """True if the next execution is to be verified."""
        self._count()
        self.pause = 0
        runs = self._counted
        if self.is_certain:
            return True
        if runs < self.not_before or self.waiting >= FIRST:
            self._pause(min(_MAX_PAUSE, max(1, self.not_before - runs)))
            return False
        if not self.verified or self.verifies_all:
            return True
        work_s, spent_s, ahead = self._work_s, self._spent_s, self._slack
        if runs < self._advance:
            # The time of all executions of the beginning, to which this one's is charged.
            work_s += self._shortest_s * (self._advance - runs)
            ahead = 1.0
            # One that was interrupted by other programs does not use up what all may take.
            spent_s = min(spent_s, _MAX_OUTLIER * self._usual_extra_s * self.verified)
        spent_s += min(_NOTE_S * runs, self._share * work_s / 2)
        spent_s += max(0.0, self._disturbed_s) + ahead * self._usual_extra_s
        # Those that wait take as long as those before.
        background_s = self._background_s + (ahead + self.waiting) * self._usual_background_s
        missing_s = max(
            spent_s * (1 / (MEASURED * self._share) - 1) - work_s,
            background_s / (_BACKGROUND_PER_SHARE * self._share) - work_s,
        )
        if missing_s <= 0:
            return True
        pause = math.ceil(min(_MAX_PAUSE, missing_s * runs / self._work_s))
        self.not_before = runs + pause
        self._pause(pause)
        return False

    def _pause(self, executions: int) -> None:
        """Keeps the next executions from asking whether they are due, unless one is certain."""
        certain = self._next_certain
        self.pause = executions if certain is None else min(executions, certain - self._counted)

    def verified_run(self, device_s: float, extra_s: float, *, is_waiting: bool = True) -> None:
        """Notes an execution that was verified.

        Args:
            device_s: how long the device took.
            extra_s: how much longer the execution took because it was verified.
            is_waiting: whether it is compared later, so that `compared` is called for it.
        """
        self._count()
        self._note_place(self._counted)
        self._add(device_s)
        self.verified += 1
        if is_waiting:
            self.waiting += 1
            extra_s *= WITHOUT_FAST_PATH
            self._latest_extra_s.append(extra_s)
            self._usual_extra_s = low_median(self._latest_extra_s)
        else:
            # Most of it is what the CPU device takes.
            self._usual_background_s = extra_s
        self._spent_s += extra_s
        self._slack = self._random.random()
        if self.verified >= FIRST:
            begin = max(self.runs, self._end)
            self.not_before = begin + self._random.randrange(self._distance)
            self._end = begin + self._distance

    def _note_place(self, number: int) -> None:
        """Notes the number of a verified execution, which decides which others are certain."""
        if self._next_certain is None:
            return
        for divisor, missing in list(self._missing.items()):
            missing.discard(number % divisor)
            if not missing:
                del self._missing[divisor]
        if not self._missing:
            self._next_certain = None
            return
        following = self._certain_distance * (number // self._certain_distance + 1)
        while not any(following % divisor in missing for divisor, missing in self._missing.items()):
            following += self._certain_distance
        self._next_certain = following

    def compared(self, seconds: float) -> None:
        """Notes that an execution was compared in the background.

        Args:
            seconds: how long that took.
        """
        self._count()
        self.waiting -= 1
        self._background_s += seconds
        self._usual_background_s = min(self._usual_background_s or seconds, seconds)

    def _add(self, seconds: float) -> None:
        self._counted += 1
        self._work_s += seconds
        # The first executions often take longer than later ones.
        if seconds < self._shortest_s:
            self._shortest_s = seconds
