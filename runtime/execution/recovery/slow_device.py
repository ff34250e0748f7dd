"""Lets the CPU stand in for the device of a step while the device is slow.

The CPU compiles the step before that, in the background and with low priority: as soon as the usual
time of the device is known; or, if the step has so many constants that copies of them would take
much memory, when runs begin to take longer. So it can take over when the device is found to be
slow.
"""

from functools import partial
from typing import Final

from neurald.runtime.execution.recovery.drift import DriftWatch
from neurald.runtime.execution.recovery.stand_in import StandIn
from neurald.runtime.execution.recovery.step_health import StepHealth

#: Steps with more bytes of constants are compiled when their devices may have become slow.
_MAX_EARLY_BYTES: Final = 16 << 20


class SlowDevice:
    """The times of a step's device, and what follows if it has become slow.

    Args:
        drift: the times of the step on the device.
        health: the health of the device; slowness counts as a failure, so that the device is
            retried.
        stand_in: what the CPU runs meanwhile. The CPU takes over when it has compiled the step.
    """

    def __init__(self, drift: DriftWatch, health: StepHealth, stand_in: StandIn) -> None:
        self._drift = drift
        self._health = health
        self._stand_in = stand_in
        self._has_begun = False

    @property
    def is_slow(self) -> bool:
        """True if the device has become slow, and has not been found usual again."""
        return self._drift.is_slow

    def ran(self, seconds: float, *, is_retry: bool = False) -> None:
        """Notes a run on the device.

        Args:
            seconds: how long it took.
            is_retry: whether this was the run after a pause.
        """
        drift = self._drift
        if drift.is_slow and is_retry:
            if drift.is_back(seconds):
                self._health.forget()
            else:
                self._health.record_slowness(drift.reason)
            return
        became_slow = drift.add(seconds)
        if not self._has_begun and drift.knows_usual:
            self._begin_early()
        if became_slow:
            record = partial(_record_slowness, drift, self._health)
            if self._stand_in.is_optimized:
                record()
            else:
                self._stand_in.optimize_in_background(record)

    def _begin_early(self) -> None:
        """Makes the CPU compile the step if it may be needed soon, or takes little memory."""
        stand_in = self._stand_in
        if self._drift.may_be_slow or stand_in.constant_bytes <= _MAX_EARLY_BYTES:
            self._has_begun = True
            if not stand_in.is_optimized:
                stand_in.optimize_early()

    def stood_in(self, seconds: float) -> None:
        """Notes a run of the CPU for the device, which goes on if the CPU is slower still."""
        if self._drift.is_slow and self._drift.stood_in(seconds):
            self._health.forget()


def _record_slowness(drift: DriftWatch, health: StepHealth) -> None:
    """Records that the device is slow, unless it is fast again by now."""
    if drift.is_slow:
        health.record_slowness(drift.reason)
