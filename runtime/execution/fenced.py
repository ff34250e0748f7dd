"""Fenced executions of compilations: they start once the events that they depend on have ended.

For a plan of one step the device itself waits for the fences of the events, so that work of several
devices is chained without a round trip through the application. For all other plans a thread waits
and then computes.

A device that fails before its fence signals may leave invalid outputs that dependants already read.
Therefore each dependant asks the event at the end: if the outputs had to be written again, the
dependant computes again, too.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from neurald.hal.device import ExecuteOptions, ExecutionResult, FencedExecution, PreparedModel, Timing
from neurald.hal.errors import Cancelled, Error, OpFailed, error_for
from neurald.hal.sync.fence import Fence, wait_any
from neurald.runtime.devices.driver_faults import checked, convert_driver_faults
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.computation import Computation, insufficient
from neurald.runtime.execution.event import Event, start_thread
from neurald.runtime.execution.fallback import RecoveringStep
from neurald.runtime.execution.step_clock import fenced_duration
from neurald.runtime.execution.step_runner import STOPPED, checked_step_result, naming_step
from neurald.runtime.plan.plan import ExecutionStep, SimpleBody


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedResult:
    """Outcome of a fenced execution.

    `after_fences` is the timing from the end of the last dependency.
    """

    result: ExecutionResult
    after_fences: Timing


def start_fenced(
    compilation: CompiledModel,
    computation: Computation,
    dependencies: Sequence[Event],
    options: ExecuteOptions,
    after_fences_s: float | None,
    complete: Callable[[FencedResult | None], None],
) -> Event:
    """Starts an execution that runs once its dependencies have ended.

    Args:
        compilation: of the execution.
        computation: runs it.
        dependencies: events of any executions.
        options: for the run.
        after_fences_s: time limit in seconds from the end of the dependencies; None for no limit.
        complete: called with the result, or None after a failure, right before the event signals.

    Returns:
        Its event, which has a fence.
    """
    launched_ns = time.monotonic_ns()
    launch = _launch(compilation, computation, dependencies, options, after_fences_s)
    event = Event(launch.fence if launch is not None else Fence())

    def run_here() -> FencedResult:
        _wait_for(dependencies, options)
        started_ns = time.monotonic_ns()
        result = computation.run(options.limited_to(after_fences_s))
        after = result.timing
        result = replace(result, timing=after.after_waiting(started_ns - launched_ns))
        return FencedResult(result=result, after_fences=after)

    def work() -> None:
        outcome: FencedResult | None = None
        was_redone = False
        try:
            if launch is not None:
                outcome = launch.outcome(dependencies, options)
            was_redone = outcome is None and launch is not None
            if outcome is None:
                outcome = run_here()
            if not outcome.result.is_sufficient:
                raise insufficient(outcome.result)
        except Error as error:
            failure: Error | None = error.with_traceback(None)
        except BaseException as error:
            complete(None)
            event.signal(OpFailed(f"{type(error).__name__}: {error}"))
            raise
        else:
            failure = None
        complete(outcome)
        event.signal(failure, was_redone=was_redone)

    start_thread(work, "neurald fenced compute")
    return event


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeviceLaunch:
    """An execution that waits in a device."""

    computation: Computation
    planned: ExecutionStep
    step: RecoveringStep
    prepared_model: PreparedModel
    execution: FencedExecution
    fence: Fence
    device: str
    has_limit: bool
    check: Callable[[ExecutionResult], ExecutionResult]

    def outcome(self, dependencies: Sequence[Event], options: ExecuteOptions) -> FencedResult | None:
        """Returns the result; None if the work must be done again.

        Raises:
            Error: a dependency failed, or the device did and no fallback is allowed.
        """
        try:
            with convert_driver_faults(self.device):
                result = self.check(self.execution.result())
        except Error as error:
            if all(event.fence is not None and event.fence.is_signalled for event in dependencies):
                # The failure may be caused by what a failed dependency left; raise that
                # dependency's error instead.
                _wait_for(dependencies, options)
            if not self.step.failed(error, self.prepared_model, has_limit=self.has_limit):
                if isinstance(error, STOPPED):
                    raise naming_step(error, 0, self.planned) from None
                raise
            return None
        _wait_for(dependencies, options)
        if any(event.was_redone for event in dependencies):
            return None
        self.computation.require_shapes(result)
        with convert_driver_faults(self.device):
            after = checked(self.execution.timing_after_fences, Timing, self.device, "timing_after_fences")
        if options.measure:
            result = replace(result, step_durations=(fenced_duration(self.device, after),))
        return FencedResult(result=result, after_fences=after)


def _launch(
    compilation: CompiledModel,
    computation: Computation,
    dependencies: Sequence[Event],
    options: ExecuteOptions,
    after_fences_s: float | None,
) -> _DeviceLaunch | None:
    """Starts the execution in the plan's device; None if that is not possible."""
    body = compilation.plan.body
    fences = [event.fence for event in dependencies if event.fence is not None]
    if not isinstance(body, SimpleBody) or not computation.is_plain or len(fences) != len(dependencies):
        return None
    step = compilation.recovery.step(body.step)
    prepared_model = step.usable()
    if prepared_model is None:
        return None
    request = computation.request
    has_limit = options.deadline_s is not None or after_fences_s is not None
    try:
        with convert_driver_faults(body.step.device.name):
            execution = prepared_model.execute_fenced(request, fences, options, after_fences_s)
            fence = checked(execution.fence, Fence, body.step.device.name, "execute_fenced().fence")
    except Error as error:
        if not step.failed(error, prepared_model, has_limit=has_limit):
            raise
        return None
    return _DeviceLaunch(
        computation=computation,
        planned=body.step,
        step=step,
        prepared_model=prepared_model,
        execution=execution,
        fence=fence,
        device=body.step.device.name,
        has_limit=has_limit,
        check=lambda result: checked_step_result(body.step, request, result),
    )


def _wait_for(dependencies: Sequence[Event], options: ExecuteOptions) -> None:
    """Waits until all events have ended.

    Raises:
        Cancelled: the application cancelled before a fence had signalled.
        Error: an execution behind an event failed, or the deadline passed.
    """
    if not dependencies:
        return
    stop = Fence()
    if options.cancellation is not None:
        options.cancellation.call_on_cancel(stop.signal)
    for event in dependencies:
        left = None if options.deadline_s is None else max(0.0, options.deadline_s - time.monotonic())
        if event.fence is not None:
            # A fence of another process may never signal.
            wait_any((event.fence.fd, stop.fd), left)
            if stop.is_signalled:
                raise Cancelled("the execution was cancelled before all that it depends on was over")
            left = None if options.deadline_s is None else max(0.0, options.deadline_s - time.monotonic())
        try:
            event.wait(left)
        except Error as error:
            if not event.is_done:
                raise
            raise error_for(error.code, f"an execution that this one depends on failed: {error}") from None
