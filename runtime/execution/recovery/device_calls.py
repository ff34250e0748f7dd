"""The calls of a step's device, with what their durations tell about it."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.request import Request
from neurald.runtime.costs.step_times import StepTimes
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.execution.measurement.receipt import noted_call
from neurald.runtime.execution.measurement.step_overhead import note_call
from neurald.runtime.execution.recovery.checked_results import CheckedResults
from neurald.runtime.execution.recovery.device_use import use_of
from neurald.runtime.execution.recovery.slow_device import SlowDevice
from neurald.runtime.execution.recovery.step_health import StepHealth
from neurald.runtime.plan.plan import ExecutionStep

if TYPE_CHECKING:
    from neurald.hal.buffers.coherent_memory import PlacedRequest
    from neurald.runtime.execution.verification.step_verification import StepVerification


class DeviceCalls:
    """Executes a step on its device. Thread-safe.

    Args:
        step: the step.
        results: checks the results.
        health: the health of the device.
        slow_device: notes the times of runs; None if slowness is not watched.
        verification: the verification of the step; None if nothing is verified.

    Attributes:
        times: the times of runs, which refine costs.
    """

    def __init__(
        self,
        step: ExecutionStep,
        results: CheckedResults,
        health: StepHealth,
        slow_device: SlowDevice | None,
        verification: "StepVerification | None",
    ) -> None:
        self.times = StepTimes(step.device, step.model)
        self._step = step
        self._results = results
        self._health = health
        self._slow_device = slow_device
        self._verification = verification
        self._use = use_of(step.device.name)

    def execute(
        self,
        prepared: PreparedModel,
        request: Request,
        options: ExecuteOptions,
        call: Callable[[PreparedModel, Request], ExecutionResult] | None,
    ) -> ExecutionResult:
        """Executes the step on its device, and checks the result.

        Args:
            prepared: the prepared model of the device.
            request, options, call: see `RecoveringStep.execute`.

        Raises:
            OpFailed: the result contradicts the model or the request.
            Error: the device failed, with whatever exception.
        """
        verification = self._verification
        begun = time.perf_counter()
        captured = None if verification is None else verification.begin(request)
        is_retry = self._health.failures > 0
        use, is_alone = self._use.begin(), False
        started = time.perf_counter()
        try:
            with noted_call(self._step, self._step.device), convert_driver_faults(self._step.device.name):
                placed = _placed(request, self._step)
                used = request if placed is None else placed.request
                result = prepared.execute(used, options) if call is None else call(prepared, used)
        finally:
            seconds = time.perf_counter() - started
            note_call(seconds)
            is_alone = self._use.end(use)
        if is_alone:
            self.times.add(seconds)
        if placed is not None and result.is_sufficient:
            placed.wrote()
        # A run beside others waits for them, which does not make the device slow.
        if self._slow_device is not None and (is_alone or is_retry):
            self._slow_device.ran(seconds, is_retry=is_retry)
        if verification is not None:
            if captured is None:
                verification.ran(seconds)
            else:
                self._results.check(request, result)
                result = verification.end(captured, request, options, result, seconds, begun)
        self._results.check(request, result)
        return result


def _placed(request: Request, step: ExecutionStep) -> "PlacedRequest | None":
    """Returns a request for the step's device, if memories have places on several devices."""
    # A generator takes longer, and every execution asks.
    for pool in request.pools:
        if isinstance(pool, DeviceBuffer):
            break
    else:
        return None
    from neurald.hal.buffers.coherent_memory import PlacedRequest, is_coherent  # rarely needed

    return PlacedRequest(request, step.model.main, id(step.device)) if is_coherent(request.pools) else None
