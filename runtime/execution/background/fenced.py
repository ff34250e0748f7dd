"""Runs executions in the background, after the events that they depend on have ended.

A device that runs an execution without the caller, such as one in a daemon, is given it at once if
all events have ended. Threads that wait for its event then do what remains to be done at its end.
Otherwise the device of a plan of one step waits for the fences of the events, so that the work of
several devices is chained without a round trip through the application. For all other plans a
thread waits and then computes.

If a device fails after its fence has signalled, dependent executions may already have read invalid
outputs. Therefore each execution checks its dependencies at the end (`Event.was_redone`): if their
outputs were written again, it computes again, too.
"""

import time
from collections.abc import Callable, Sequence
from typing import overload

from msgspec import Struct, field

from neurald.hal.device import ExecuteOptions, ExecutionResult, FencedExecution, PreparedModel, Timing
from neurald.hal.errors import (
    Cancelled,
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    ResultCode,
    error_for,
    without_frames,
)
from neurald.hal.execution.fenced_execution import FencedRun
from neurald.hal.execution.pending import PendingExecution, may_submit, submitted
from neurald.hal.process.threads.turn import Turn
from neurald.hal.records import replace
from neurald.hal.sync.fence import Fence, wait_any
from neurald.hal.wording import described
from neurald.runtime.devices.driver_faults import checked, checked_timing, convert_driver_faults
from neurald.runtime.execution.background.event import Event, start_thread
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.computation import Computation, insufficient, note_missed_deadline
from neurald.runtime.execution.program.step_clock import fenced_duration
from neurald.runtime.execution.program.step_runner import STOPPED, naming_step
from neurald.runtime.execution.recovery.recovering_step import RecoveringStep
from neurald.runtime.plan.plan import ExecutionStep, SimpleBody

#: How often a thread that waits for another execution of this process checks whether its own was
#: cancelled.
_POLL_S = 0.02


class FencedResult(Struct, frozen=True, kw_only=True):
    """Outcome of a fenced execution.

    Attributes:
        result: the result of the execution.
        after_fences: timing from the end of the last dependency.
    """

    result: ExecutionResult
    after_fences: Timing


def have_succeeded(events: Sequence[Event]) -> bool:
    """Returns whether the executions of all events have ended without an error."""
    return all(event.is_done and event.code is ResultCode.NO_ERROR for event in events)


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
        compilation: the compilation of the execution.
        computation: runs it.
        dependencies: events of any executions.
        options: the options for the run.
        after_fences_s: time limit in seconds from the end of the dependencies; None for no limit.
        complete: the function that is called with the result, or with None after a failure, right
            before the event signals.

    Returns:
        The event of the execution, which has a fence.
    """
    run = _BackgroundRun(
        computation=computation,
        dependencies=dependencies,
        options=options,
        after_fences_s=after_fences_s,
        complete=complete,
    )
    launch = _launch(compilation, run)
    event = Event(None if launch is None else launch.fence, has_fence=True)
    run.finish(event, launch)
    return event


def start_submitted(
    compilation: CompiledModel,
    computation: Computation,
    options: ExecuteOptions,
    complete: Callable[[FencedResult | None], None],
) -> Event | None:
    """Starts an execution on a device that runs it without the caller.

    Args:
        compilation, computation, options, complete: see `start_fenced`.

    Returns:
        The event of the execution, which has no fence; None if no such device runs the whole plan.
    """
    run = _BackgroundRun(computation=computation, options=options, complete=complete)
    launch = _submit(compilation, run)
    if launch is None:
        return None
    event = Event()
    run.finish(event, launch)
    return event


class _BackgroundRun(Struct, frozen=True, kw_only=True):
    """The run of an execution in the background; see `start_fenced`.

    Attributes:
        launched_ns: when it was launched, on the clock of `time.monotonic_ns()`.
    """

    computation: Computation
    options: ExecuteOptions
    complete: Callable[[FencedResult | None], None]
    dependencies: Sequence[Event] = ()
    after_fences_s: float | None = None
    launched_ns: int = field(default_factory=time.monotonic_ns)

    @property
    def has_limit(self) -> bool:
        """True if the application has set a time limit."""
        return self.options.deadline_s is not None or self.after_fences_s is not None

    def finish(self, event: Event, launch: "_DeviceLaunch | None") -> None:
        """Lets threads that wait for its event finish the run, if possible, or a new one.

        Args:
            event: the event that is signalled at its end.
            launch: the execution, if a device has accepted it.
        """
        pending = None if launch is None else launch.pending
        if pending is None:
            start_thread(lambda: self._end(event, launch), "neurald fenced compute")
            return
        turn = Turn()

        def finish(timeout_s: float | None) -> bool:
            if pending.wait(timeout_s) and turn.take(timeout_s):
                try:
                    if not event.is_signalled:
                        self._end(event, launch)
                finally:
                    turn.give_back()
            return event.is_signalled

        event.finish_by(finish)

    def _end(self, event: Event, launch: "_DeviceLaunch | None") -> None:
        """Waits for the end of the run, or runs the execution here, and signals its event."""
        outcome: FencedResult | None = None
        was_redone = False
        try:
            if launch is not None:
                try:
                    outcome = launch.outcome(self.dependencies, self.options)
                except (MissedDeadlineTransient, MissedDeadlinePersistent) as error:
                    note_missed_deadline(error)
                    raise
            was_redone = outcome is None and launch is not None
            if outcome is None:
                outcome = self._run_here()
            if not outcome.result.is_sufficient:
                raise insufficient(outcome.result)
        except Error as error:
            failure: Error | None = without_frames(error)
        except BaseException as error:
            self.complete(None)
            event.signal(OpFailed(described(error)))
            raise
        else:
            failure = None
        self.complete(outcome)
        event.signal(failure, was_redone=was_redone)

    def _run_here(self) -> FencedResult:
        _wait_for(self.dependencies, self.options)
        started_ns = time.monotonic_ns()
        result = self.computation.run(self.options.limited_to(self.after_fences_s))
        after = result.timing
        result = replace(result, timing=after.after_waiting(started_ns - self.launched_ns))
        return FencedResult(result=result, after_fences=after)


class _DeviceLaunch(Struct, frozen=True, kw_only=True):
    """An execution that a device has accepted.

    Attributes:
        execution: the execution in the device, if it waits for fences there.
        pending: the execution, if threads that wait for it need not be told of its end by another
            thread.
        fence: the fence of the execution in the device.
    """

    computation: Computation
    planned: ExecutionStep
    step: RecoveringStep
    prepared_model: PreparedModel
    execution: FencedExecution | None
    pending: PendingExecution | None
    fence: Fence | None
    has_limit: bool

    @property
    def device(self) -> str:
        """The name of the device."""
        return self.planned.device.name

    def outcome(self, dependencies: Sequence[Event], options: ExecuteOptions) -> FencedResult | None:
        """Waits for the device and returns the result; None if the work must be done again.

        Raises:
            Error: a dependency failed, or the device failed and the CPU may not take over.
        """
        try:
            with convert_driver_faults(self.device):
                result = self.computation.checked_result_of(self.planned, self._result())
                after = result.timing
                if self.execution is not None:
                    times = self.execution.timing_after_fences
                    after = checked_timing(times, self.device, "timing_after_fences")
        except Error as error:
            if self.execution is not None and all(event.has_written for event in dependencies):
                # Invalid outputs of a failed dependency may have caused this failure. In that case
                # the error of the dependency is raised instead.
                _wait_for(dependencies, options)
            if not self.step.failed(error, self.prepared_model, has_limit=self.has_limit):
                if isinstance(error, STOPPED):
                    raise naming_step(error, 0, self.planned) from None
                raise
            return None
        # One that was submitted began after its dependencies had ended.
        if self.execution is not None:
            _wait_for(dependencies, options)
            if any(event.was_redone for event in dependencies):
                return None
        self.computation.require_shapes(result)
        self.step.ran()
        if options.measure:
            result = replace(result, step_durations=(fenced_duration(self.device, after),))
        return FencedResult(result=result, after_fences=after)

    def _result(self) -> ExecutionResult:
        if self.execution is not None:
            return self.execution.result()
        if self.pending is not None:
            return self.pending.result()
        raise OpFailed(f"{self.device} has accepted no execution")


def _submit(compilation: CompiledModel, run: _BackgroundRun) -> _DeviceLaunch | None:
    """Makes the plan's only device run the execution now; None if it does not run it by itself."""
    found = _prepared(compilation, run.computation)
    if found is None or not may_submit(found.prepared_model):
        return None
    options = run.options.limited_to(run.after_fences_s)

    def submit() -> _DeviceLaunch | None:
        pending = submitted(found.prepared_model, run.computation.request, options)
        return None if pending is None else found.launch(run, pending=pending)

    return found.started(submit, run)


def _launch(compilation: CompiledModel, run: _BackgroundRun) -> _DeviceLaunch | None:
    """Starts the execution on the plan's only device; None if a thread must run it instead."""
    if have_succeeded(run.dependencies):
        launch = _submit(compilation, run)
        if launch is not None:
            return launch
    found = _prepared(compilation, run.computation)
    # If the device needs a thread of this process to wait for fences, that may as well wait here.
    if found is None or may_submit(found.prepared_model):
        return None
    fences = [event.fence for event in run.dependencies]
    known = [fence for fence in fences if fence is not None]
    if len(known) != len(fences):
        return None

    def start() -> _DeviceLaunch:
        execution = found.prepared_model.execute_fenced(
            run.computation.request, known, run.options, run.after_fences_s
        )
        fence = checked(execution.fence, Fence, found.planned.device.name, "execute_fenced().fence")
        pending = execution if isinstance(execution, FencedRun) else None
        return found.launch(run, execution=execution, pending=pending, fence=fence)

    return found.started(start, run)


class _PreparedStep(Struct, frozen=True, kw_only=True):
    """The only step of a plan, and the prepared model of its device."""

    planned: ExecutionStep
    step: RecoveringStep
    prepared_model: PreparedModel

    def started(self, start: Callable[[], _DeviceLaunch | None], run: _BackgroundRun) -> _DeviceLaunch | None:
        """Calls `start`; returns None if it fails and another device takes over."""
        try:
            with convert_driver_faults(self.planned.device.name):
                return start()
        except Error as error:
            if not self.step.failed(error, self.prepared_model, has_limit=run.has_limit):
                raise
            return None

    def launch(
        self,
        run: _BackgroundRun,
        *,
        execution: FencedExecution | None = None,
        pending: PendingExecution | None = None,
        fence: Fence | None = None,
    ) -> _DeviceLaunch:
        """Returns an execution that the device has accepted."""
        return _DeviceLaunch(
            computation=run.computation,
            planned=self.planned,
            step=self.step,
            prepared_model=self.prepared_model,
            execution=execution,
            pending=pending,
            fence=fence,
            has_limit=run.has_limit,
        )


def _prepared(compilation: CompiledModel, computation: Computation) -> _PreparedStep | None:
    """Returns the prepared model that computes the whole plan, if there is one."""
    body = compilation.plan.body
    if not isinstance(body, SimpleBody) or not computation.is_plain:
        return None
    step = compilation.recovery.step(body.step)
    prepared_model = step.usable()
    if prepared_model is None:
        return None
    return _PreparedStep(planned=body.step, step=step, prepared_model=prepared_model)


def _wait_for(dependencies: Sequence[Event], options: ExecuteOptions) -> None:
    """Waits until all events have ended.

    Raises:
        Cancelled: the application cancelled before a fence had signalled.
        Error: an execution behind an event failed, or the deadline passed.
    """
    if not dependencies:
        return
    stop, cancellation = Fence(), options.cancellation
    if cancellation is None:
        _wait_or_stop(dependencies, options, stop)
        return
    with cancellation.calling(stop.signal):
        _wait_or_stop(dependencies, options, stop)


def _wait_or_stop(dependencies: Sequence[Event], options: ExecuteOptions, stop: Fence) -> None:
    """Waits until all events have ended, or `stop` has signalled; see `_wait_for`."""
    for event in dependencies:
        if event.is_imported and event.fence is not None:
            # It may never signal.
            wait_any((event.fence.fd, stop.fd), _left_s(options))
        while not stop.is_signalled and not event.ends_within(min(_POLL_S, _left_s(options, _POLL_S))):
            if _left_s(options, _POLL_S) <= 0:
                raise MissedDeadlineTransient("the deadline passed before all dependencies had ended")
        if stop.is_signalled:
            raise Cancelled("the execution was cancelled while it waited for its dependencies")
        try:
            event.wait(0)
        except Error as error:
            raise error_for(error.code, f"a dependency of the execution failed: {error}") from None


@overload
def _left_s(options: ExecuteOptions) -> float | None: ...


@overload
def _left_s(options: ExecuteOptions, otherwise_s: float) -> float: ...


def _left_s(options: ExecuteOptions, otherwise_s: float | None = None) -> float | None:
    """Returns how many seconds are left of an execution, or `otherwise_s` if it has no deadline."""
    deadline_s = options.deadline_s
    return otherwise_s if deadline_s is None else max(0.0, deadline_s - time.monotonic())
