"""Runs a step on its first tier, which is always one of the CPU device."""

from collections.abc import Callable

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.model.request import Request
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.measurement.receipt import noted_call
from neurald.runtime.execution.recovery.checked_results import CheckedResults
from neurald.runtime.execution.recovery.cpu_runs import run_on_cpu
from neurald.runtime.execution.recovery.first_tier_paths import FirstTierPaths
from neurald.runtime.plan.plan import ExecutionStep


class FirstTierRuns:
    """The code that runs a step until its device has compiled it. Thread-safe.

    Args:
        step: the step.
        prepared: its first tier.
        results: checks the results.

    Attributes:
        prepared: what runs, which the CPU device may improve.
        paths: its fast paths; None if the step has another device. Runs in place of that are
            counted, so that they take the regular path.
        reason: why the CPU device runs the step in place of another; empty for its own steps.
    """

    def __init__(self, step: ExecutionStep, prepared: PreparedModel, results: CheckedResults) -> None:
        is_other = step.device is not cpu_device()
        self.prepared = prepared
        self.paths = None if is_other else FirstTierPaths(prepared)
        self.reason = f"{step.device.name} has not compiled it yet" if is_other else ""
        self._step = step
        self._results = results
        self._on_run: Callable[[float | None], None] | None = None

    def call_on_run(self, callback: Callable[[float | None], None]) -> None:
        """Sets what every run calls with its deadline, which is None if there is none."""
        self._on_run = callback
        if self.paths is not None:
            self.paths.on_run = callback

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Executes the step.

        Raises:
            Error: it failed.
        """
        if self._on_run is not None:
            self._on_run(options.deadline_s)
        device = cpu_device()
        with (
            noted_call(self._step, device, is_first_tier=True, reason=self.reason),
            convert_driver_faults(device.name),
        ):
            result = run_on_cpu(self.prepared, self._step.model.main, request, options)
        self._results.check(request, result)
        return result

    def close(self) -> None:
        """Closes the fast paths when something better has replaced the first tier."""
        if self.paths is not None:
            self.paths.close()
