"""Decides which executions of a step are verified, so that they take a small share of its time.

The first verified executions follow each other without a gap, as many as the share allows for the
first `10 / share` executions: ten. Whether a fault of an independent random execution is found
depends on how many executions are verified, not on which, so they may as well be the earliest ones.
A fault of every n-th execution, as of one buffer among several that take turns, is certain to be
found by n executions in a row, but not by n that are chosen at random. Later executions are chosen
at random distances, since a device may become wrong at any time.

What is not possible: with a share s, N executions contain N * s verified ones, and a fault that
strikes each execution with probability p is missed by all of them with probability (1 - p)^(N * s).
For 1 % of 1,000 executions and p = 0.1 that is 0.35, whichever are chosen.
"""

import math
import random
from typing import Final

#: Shares below this are as good as none.
MIN_SHARE: Final = 1e-6
#: How many executions are verified in a row in the beginning.
FIRST: Final = 10
#: In the beginning, a verification counts as no longer than so many times the shortest one.
_MAX_OUTLIER: Final = 2.0


class Sampler:
    """Chooses executions of one step. Races between threads only move a choice by an execution.

    The executions in the beginning are chosen as soon as they can be verified, and later ones at
    random distances. After the first `10 / share` executions, no more than the wanted share of all
    is verified, nor do verifications take more than that share of the time. Before that they take
    no more than they may take by then, but for the first one, which is verified whatever it takes.

    Args:
        share: of the executions, above 0 and at most 1.
        seed: of the distances; None for one of the system.

    Attributes:
        runs: how many executions there were.
        verified: how many of them were verified.
    """

    def __init__(self, share: float, seed: int | None = None) -> None:
        self._share = max(share, MIN_SHARE)
        self._random = random.Random(seed)  # noqa: S311 - nothing depends on its being secret
        #: The first ones are verified at the expense of all until here.
        self._advance = math.ceil(FIRST / self._share)
        self._next = 0
        #: Which part of the time of a verification is saved before it; random for random distances.
        self._slack = self._random.random()
        self._work_s = 0.0
        self._shortest_s = math.inf
        self._spent_s = 0.0
        self._shortest_extra_s = math.inf
        self.runs = 0
        self.verified = 0

    @property
    def patience(self) -> int:
        """After how many executions one waits until it can be verified; 0 if each must be."""
        return 0 if self._share >= 1 else math.ceil(1 / self._share)

    def ran(self, seconds: float | None) -> None:
        """Notes an execution on the device that was not verified; None if its time is not known."""
        if seconds is None:
            seconds = self._work_s / self.runs if self.runs else 0.0
        self._add(seconds)

    @property
    def is_due(self) -> bool:
        """True if the next execution is to be verified."""
        runs = self.runs
        if runs < self._next:
            return False
        if not self.verified:
            return True
        work_s, spent_s, ahead = self._work_s, self._spent_s, self._slack
        if runs < self._advance:
            # What all executions of the beginning will take; this one is charged to them.
            work_s += self._shortest_s * (self._advance - runs)
            ahead = 1.0
            # One that was interrupted by other programs does not use up what all may take.
            spent_s = min(spent_s, _MAX_OUTLIER * self._shortest_extra_s * self.verified)
        spent_s += ahead * self._shortest_extra_s
        return spent_s * (1 - self._share) <= self._share * work_s

    def verified_run(self, device_s: float, extra_s: float) -> None:
        """Notes an execution that was verified.

        Args:
            device_s: how long the device took.
            extra_s: how much longer the execution took because it was verified.
        """
        self._add(device_s)
        self.verified += 1
        self._spent_s += extra_s
        self._shortest_extra_s = min(self._shortest_extra_s, extra_s)
        self._slack = self._random.random()
        if self.verified >= FIRST:
            distance = self._random.randrange(max(1, round(1 / self._share)))
            self._next = max(self.runs, self._charged()) + distance

    def _add(self, seconds: float) -> None:
        self.runs += 1
        self._work_s += seconds
        # The first executions often take longer than later ones.
        self._shortest_s = min(self._shortest_s, seconds)

    def _charged(self) -> int:
        """Returns for how many executions there were enough verified ones so far."""
        return math.ceil((self.verified - 1) / self._share)
