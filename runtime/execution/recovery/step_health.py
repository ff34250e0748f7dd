"""The failures of a step's device, which decide when it is retried."""

import logging
import math
import time
from collections import deque
from typing import Final

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.errors import Error, ResultCode
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.runtime.execution.recovery.fallback import Fallback, Substitution
from neurald.runtime.execution.recovery.retry import retry_policy
from neurald.runtime.plan.report import Move, StepFailure

_LOGGER: Final = logging.getLogger(__name__)

#: How many of the latest moves to the CPU device are remembered.
_MOVES: Final = 16


class StepHealth:
    """The failures of the device of a step, and the executions that the CPU ran for it.

    Thread-safe.

    Args:
        device: name of the step's device.

    Attributes:
        failures: number of consecutive failures; 0 if the device works.
        reason: message of the last failure.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._lock = forkable_lock()
        self.failures = 0
        self.reason = ""
        self._retry_at = 0.0
        self._code = ResultCode.NO_ERROR
        self._substituted = 0
        self._failed_in_all = 0
        #: When the CPU device took over, and gave the step back; the step has no number here.
        self._moves: deque[Move] = deque(maxlen=_MOVES)

    @property
    def is_due(self) -> bool:
        """True if the pause after the last failure is over."""
        return time.monotonic() >= self._retry_at

    def record(self, error: Error) -> None:
        """Records a failure, which begins a pause."""
        with self._lock:
            if self.failures and not self.is_due:
                # A concurrent execution failed during the pause, which is not another consecutive
                # failure.
                return
            self._failed_in_all += 1
            self._begin_pause(str(error), error)

    def record_slowness(self, reason: str) -> None:
        """Records that the device is too slow, which begins a pause."""
        with self._lock:
            self._begin_pause(reason, None)
        text = "the CPU runs a step of %s for now: %s"
        note_event(CountedEvent.SLOW_DEVICE, self._device, _LOGGER.warning, text, self._device, reason)

    def record_wrong(self, reason: str) -> None:
        """Records that the device computes wrong values, so that it is not used again."""
        with self._lock:
            is_known = self._retry_at == math.inf
            self._count(reason)
            self._code = ResultCode.NO_ERROR
            self._retry_at = math.inf
        if not is_known:
            text = "the CPU runs a step of %s from now on: %s"
            note_event(CountedEvent.WRONG_RESULT, self._device, _LOGGER.warning, text, self._device, reason)

    def _begin_pause(self, reason: str, error: Error | None) -> None:
        self._count(reason)
        self._code = ResultCode.NO_ERROR if error is None else error.code
        self._retry_at = time.monotonic() + retry_policy(error).pause_s(self.failures)

    def _count(self, reason: str) -> None:
        """Counts a failure, the first of which moves the step to the CPU device."""
        if not self.failures:
            self._moves.append(Move(step=None, device=self._device, reason=reason, since_s=time.time()))
        self.failures += 1
        self.reason = reason

    def forget(self) -> None:
        """Forgets the failures, since the device works."""
        if self._forgotten():
            text = "%s runs its step again"
            note_event(CountedEvent.RECOVERY, self._device, _LOGGER.info, text, self._device)

    def _forgotten(self) -> bool:
        """Forgets the failures; returns whether there were any."""
        with self._lock:
            had_failed = bool(self.failures)
            if had_failed:
                self._moves.append(replace(self._moves.pop(), until_s=time.time()))
            self.failures = 0
            self._retry_at = 0.0
        return had_failed

    def end_pause(self) -> None:
        """Ends the pause, since the device has prepared the step again."""
        with self._lock:
            self._retry_at = 0.0

    def clear(self, error: Error) -> None:
        """Forgets the failures if the CPU failed in the same way: the request is at fault."""
        if self._code is error.code:
            self._forgotten()

    def count_substitution(self, reason: str) -> None:
        """Counts one execution that ran on the CPU device.

        Args:
            reason: why, if no failure of the device itself was recorded.
        """
        with self._lock:
            self._substituted += 1
            self.reason = self.reason or reason

    def failure(self, number: int) -> StepFailure | None:
        """Returns the failures so far, even if the device works again; None if there were none.

        Args:
            number: position of the step in the plan.
        """
        with self._lock:
            if not self._failed_in_all:
                return None
            return StepFailure(
                step=number, device=self._device, failures=self._failed_in_all, reason=self.reason
            )

    def fallback(self, number: int) -> Fallback | None:
        """Returns the current fallback of the step, or None if the device works.

        Args:
            number: position of the step in the plan.
        """
        with self._lock:
            if not self.failures:
                return None
            return Fallback(
                step=number,
                device=self._device,
                failures=self.failures,
                reason=self.reason,
                retry_in_s=max(0.0, self._retry_at - time.monotonic()),
            )

    def moves(self, number: int) -> tuple[Move, ...]:
        """Returns when the step moved to the CPU device, and back.

        Args:
            number: position of the step in the plan.
        """
        with self._lock:
            return tuple(replace(move, step=number) for move in self._moves)

    def substitution(self, number: int) -> Substitution | None:
        """Returns the executions that the CPU device ran, or None if there are none.

        Args:
            number: position of the step in the plan.
        """
        with self._lock:
            if not self._substituted:
                return None
            return Substitution(
                step=number, device=self._device, executions=self._substituted, reason=self.reason
            )
