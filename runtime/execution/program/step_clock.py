"""Measures how long each step of an execution takes."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.device import ExecuteOptions, ExecutionResult, StepDuration, Timing
from neurald.hal.model.request import Request
from neurald.hal.wording import milliseconds
from neurald.runtime.execution.program.step_runner import Runner
from neurald.runtime.plan.plan import ExecutionStep

#: The timing of results that have none.
_NOT_MEASURED: Final = ExecutionResult(output_shapes=()).timing


class _Record(Struct):
    """Total times of one step's runs, in nanoseconds; None once a run has not reported a time."""

    runs: int = 0
    called_ns: int = 0
    on_device_ns: int | None = 0
    in_driver_ns: int | None = 0
    queued_ns: int | None = 0

    def add(self, timing: Timing) -> None:
        """Adds what a device has reported."""
        if timing is _NOT_MEASURED:
            self.on_device_ns = self.in_driver_ns = self.queued_ns = None
            return
        self.on_device_ns = _sum(self.on_device_ns, timing.on_device_ns)
        self.in_driver_ns = _sum(self.in_driver_ns, timing.in_driver_ns)
        self.queued_ns = _sum(self.queued_ns, timing.queued_ns)


class StepClock:
    """Adds up the run times of each step in one execution."""

    def __init__(self, steps: Sequence[ExecutionStep]) -> None:
        self._steps = steps
        self._numbers = {id(step): number for number, step in enumerate(steps)}
        self._records = {id(step): _Record() for step in steps}

    def run(
        self, step: ExecutionStep, request: Request, options: ExecuteOptions, runner: Runner
    ) -> ExecutionResult:
        """Runs a step with `runner` and records its times, even if it fails."""
        record = self._records[id(step)]
        timing = _NOT_MEASURED
        started = time.perf_counter_ns()
        try:
            result = runner(step, request, options)
            timing = result.timing
        finally:
            record.called_ns += time.perf_counter_ns() - started
            record.runs += 1
            record.add(timing)
        return result

    def number(self, step: ExecutionStep) -> int:
        """Returns the position of a step in the plan."""
        return self._numbers[id(step)]

    def durations(self) -> tuple[StepDuration, ...]:
        """Returns the total durations of each step, in the order of the steps."""
        return tuple(
            _duration(number, step.device.name, self._records[id(step)])
            for number, step in enumerate(self._steps)
        )

    def timing(self) -> Timing:
        """Returns the timing of all steps together; a time that a step did not report is None."""
        on_device: int | None = 0
        in_driver: int | None = 0
        queued: int | None = 0
        for record in self._records.values():
            on_device = _sum(on_device, record.on_device_ns)
            in_driver = _sum(in_driver, record.in_driver_ns)
            queued = _sum(queued, record.queued_ns)
        return Timing(on_device_ns=on_device, in_driver_ns=in_driver, queued_ns=queued)

    def slowest(self, usual_s: Mapping[int, float]) -> str | None:
        """Returns the step that took most beyond its usual time, and its time; None without runs.

        Args:
            usual_s: by the id of the step.
        """
        ran = [
            (record.called_ns - record.runs * usual_s.get(id(step), 0.0) * 1e9, number, step)
            for number, step in enumerate(self._steps)
            if (record := self._records[id(step)]).runs
        ]
        if not ran:
            return None
        _, number, step = max(ran, key=lambda each: each[0])
        return f"step {number} on {step.device.name}, with {milliseconds(self._records[id(step)].called_ns / 1e9)},"

    def report(self) -> str:
        """Formats the time of each step so far for messages, slowest first."""
        taken = sorted(
            (
                (self._records[id(step)].called_ns, number, step.device.name)
                for number, step in enumerate(self._steps)
                if self._records[id(step)].runs
            ),
            reverse=True,
        )
        shown = ", ".join(f"step {number} on {name} {milliseconds(ns / 1e9)}" for ns, number, name in taken)
        return shown or "no step has run"


def fenced_duration(device: str, timing: Timing) -> StepDuration:
    """Returns the durations of a step that its device ran after fences.

    Args:
        device: name of the device.
        timing: measured from the signal of the last fence, after the transfer of data.
    """
    called_ns = (timing.in_driver_ns or timing.on_device_ns or 0) + (timing.queued_ns or 0)
    record = _Record(
        runs=1,
        called_ns=called_ns,
        on_device_ns=timing.on_device_ns,
        in_driver_ns=timing.in_driver_ns,
        queued_ns=timing.queued_ns,
    )
    return _duration(0, device, record)


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


def _duration(number: int, device: str, record: _Record) -> StepDuration:
    compute, in_driver = record.on_device_ns, record.in_driver_ns
    known = in_driver if in_driver is not None else compute
    return StepDuration(
        step=number,
        device=device,
        runs=record.runs,
        compute_ns=compute,
        overhead_ns=None if compute is None or in_driver is None else max(0, in_driver - compute),
        queue_ns=record.queued_ns,
        transfer_ns=max(0, record.called_ns - (known or 0) - (record.queued_ns or 0)),
    )
