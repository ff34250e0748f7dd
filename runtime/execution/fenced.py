"""Runs fenced executions, which start once the events that they depend on have signalled.

For a plan of one step the device itself waits for the fences of the events, so that the work of
several devices is chained without a round trip through the application. For all other plans a
thread waits and then computes.

If a device fails after its fence has signalled, dependent executions may already have read invalid
outputs. Therefore each execution checks its dependencies at the end (`Event.was_redone`): if their
outputs were written again, it computes again, too.
"""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from neurald.hal.device import ExecuteOptions, ExecutionResult, FencedExecution, PreparedModel, Timing
from neurald.hal.errors import Cancelled, Error, OpFailed, error_for
from neurald.hal.records import replace
from neurald.hal.sync.fence import Fence, wait_any
from neurald.runtime.devices.driver_faults import checked, convert_driver_faults
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.computation import Computation, insufficient
from neurald.runtime.execution.event import Event, start_thread
from neurald.runtime.execution.fallback import RecoveringStep
from neurald.runtime.execution.step_clock import fenced_duration
from neurald.runtime.execution.step_runner import STOPPED, checked_step_result, naming_step
from neurald.runtime.plan.plan import ExecutionStep, SimpleBody


class FencedResult(Struct, frozen=True, kw_only=True):
    """Outcome of a fenced execution.

    Attributes:
        result: of the execution.
        after_fences: timing from the end of the last dependency.
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
        complete: called with the result, or with None after a failure, right before the event
            signals.

    Returns:
        The event of the execution, which has a fence.
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


class _DeviceLaunch(Struct, frozen=True, kw_only=True):
    """An execution that a device has accepted and that waits there for its fences."""

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
        """Waits for the device and returns the result; None if the work must be done again.

        Raises:
            Error: a dependency failed, or the device failed and the CPU may not take over.
        """
        try:
            with convert_driver_faults(self.device):
                result = self.check(self.execution.result())
        except Error as error:
            if all(event.fence is not None and event.fence.is_signalled for event in dependencies):
                # Invalid outputs of a failed dependency may have caused this failure. In that case
                # the error of the dependency is raised instead.
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
    """Starts the execution on the plan's only device; None if a thread must run it instead."""
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
                raise Cancelled("the execution was cancelled while it waited for its dependencies")
            left = None if options.deadline_s is None else max(0.0, options.deadline_s - time.monotonic())
        try:
            event.wait(left)
        except Error as error:
            if not event.is_done:
                raise
            raise error_for(error.code, f"a dependency of the execution failed: {error}") from None
