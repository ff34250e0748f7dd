"""Decides which executions of a step are verified, so that they take a small share of its time."""

import math
import random
from typing import Final

#: Shares below this are as good as none.
MIN_SHARE: Final = 1e-6


class Sampler:
    """Chooses executions of one step. Races between threads only move a choice by an execution.

    The first execution is chosen, if it can be verified by then, and later ones at random distances.
    Neither more than the wanted share of all executions is chosen, nor do verifications take more
    than that share of the time. Random distances find faults also in every second execution.

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
        self._next = 0
        self._work_s = 0.0
        self._spent_s = 0.0
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
        self.runs += 1
        self._work_s += seconds

    @property
    def is_due(self) -> bool:
        """True if the next execution is to be verified."""
        return self.runs >= self._next and self._spent_s * (1 - self._share) <= self._share * self._work_s

    def verified_run(self, device_s: float, extra_s: float) -> None:
        """Notes an execution that was verified.

        Args:
            device_s: how long the device took.
            extra_s: how much longer the execution took because it was verified.
        """
        self.runs += 1
        self.verified += 1
        self._work_s += device_s
        self._spent_s += extra_s
        # On average 1 / share executions apart.
        self._next = self.runs + self._random.randint(0, 2 * max(0, round(1 / self._share) - 1))
