"""Notes the times of a device's fast paths, and closes them while they must not be used.

A fast path repeats an execution without the checks of `RecoveringStep.execute`. If the device may
become slow, or is verified, its runs must be noted all the same, and the next one goes through
`execute` if the CPU is to verify it or to run it instead.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from neurald.hal.device import ExecutionResult
from neurald.hal.errors import OpFailed
from neurald.hal.execution.direct_calls import ArrayFunction, ShortExecution
from neurald.runtime.execution.recovery.slow_device import SlowDevice
from neurald.runtime.execution.recovery.step_health import StepHealth

if TYPE_CHECKING:
    from neurald.runtime.execution.verification.step_verification import StepVerification

_Options = TypeVar("_Options")
_Outcome = TypeVar("_Outcome")


class FastPaths:
    """The fast paths of one step on its device.

    Args:
        device: name of the device.
        health: the health of the device.
        slow_device: notes the times of runs; None if slowness is not watched.
        verification: the verification of the step; None if nothing is verified.

    Attributes:
        are_watched: whether the times of all runs are noted.
    """

    def __init__(
        self,
        device: str,
        health: StepHealth,
        slow_device: SlowDevice | None,
        verification: "StepVerification | None",
    ) -> None:
        self._device = device
        self._health = health
        self._slow_device = slow_device
        self._verification = verification
        self.are_watched = slow_device is not None or verification is not None

    def _watching(self) -> tuple[Callable[[], bool], Callable[[float], None]]:
        """Returns `_are_closed` and `_ran`, or what does the same in less time.

        Every run calls both.
        """
        if self._verification is not None and self._slow_device is None:
            return self._verification.closes_fast_paths, self._verification.ran
        return self._are_closed, self._ran

    def _are_closed(self) -> bool:
        """Returns True if a fast path of the device must not be used now."""
        verification = self._verification
        if verification is not None and verification.closes_fast_paths():
            return True
        return self._slow_device is not None and self._health.failures > 0

    def _ran(self, seconds: float) -> None:
        """Notes how long a fast path took."""
        if self._slow_device is not None:
            self._slow_device.ran(seconds)
        if self._verification is not None:
            self._verification.ran(seconds)

    def repeating(self, run: Callable[[_Options], _Outcome] | None) -> Callable[[_Options], _Outcome] | None:
        """Returns a fast path that notes times, and raises OpFailed while it must not be used."""
        if run is None or not self.are_watched:
            return run

        (are_closed, ran), clock = self._watching(), time.perf_counter

        def timed(options: _Options) -> _Outcome:
            if are_closed():
                raise OpFailed(f"{self._device}: {self._health.reason}")
            started = clock()
            outcome = run(options)
            ran(clock() - started)
            return outcome

        return timed

    def short(self, run: ShortExecution | None) -> ShortExecution | None:
        """Returns a short execution that notes times, and returns False if it must not be used."""
        if run is None or not self.are_watched:
            return run

        (are_closed, ran), clock = self._watching(), time.perf_counter

        def timed() -> bool | ExecutionResult:
            if are_closed():
                return False
            started = clock()
            outcome = run()
            ran(clock() - started)
            return outcome

        return timed

    def on_arrays(self, run: ArrayFunction | None) -> ArrayFunction | None:
        """Returns a function of arrays that notes times, and returns None if unusable."""
        if run is None or not self.are_watched:
            return run

        (are_closed, ran), clock = self._watching(), time.perf_counter

        def timed(*arrays: Any) -> Any:
            if are_closed():
                return None
            started = clock()
            outputs = run(*arrays)
            ran(clock() - started)
            return outputs

        return timed
