"""Executors of plans: one for a plan of a single step, one for a program of several steps."""

from typing import Protocol

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.model.request import Request
from neurald.hal.records import replace
from neurald.runtime.execution.program.step_clock import StepClock
from neurald.runtime.execution.program.step_runner import STOPPED, Runner, naming_step, run_step
from neurald.runtime.plan.plan import ExecutionPlan, ExecutionStep, SimpleBody


class PlanExecutor(Protocol):
    """Runs a plan. Thread-safe: any number of executions may run at the same time.

    Between executions it keeps nothing but reusable memory.
    """

    def execute(
        self, request: Request, options: ExecuteOptions, *, runner: Runner = run_step
    ) -> ExecutionResult:
        """Runs the plan once.

        Args:
            request: the request for the inputs and outputs of the whole model, variables included.
            options: the options for every step; all steps share one deadline.
            runner: runs one step; an error that it raises ends the execution.

        Returns:
            The shapes of all model outputs, including those whose buffers were too small, and
                `step_durations` if measuring is enabled.

        Raises:
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline passed between two steps
                or within one (the message names the step), or a loop exceeded its timeout.
            Cancelled: `options.cancellation` was cancelled between two steps or within one.
            OpFailed: shapes or a condition contradict the model.
            Error: raised by the runner.
        """
        ...


def plan_executor(plan: ExecutionPlan) -> PlanExecutor:
    """Creates the executor of a plan."""
    if isinstance(plan.body, SimpleBody):
        return SimpleExecutor(plan.body.step)
    # Plans of one step, which are most of them, need none of this.
    from neurald.runtime.execution.program.compound_executor import CompoundExecutor

    return CompoundExecutor(plan.body, len(plan.model.main.outputs))


class SimpleExecutor:
    """Implements `PlanExecutor` for a plan of one step: passes the request on unchanged."""

    def __init__(self, step: ExecutionStep) -> None:
        self._step = step

    @property
    def step(self) -> ExecutionStep:
        """The only step."""
        return self._step

    def execute(
        self, request: Request, options: ExecuteOptions, *, runner: Runner = run_step
    ) -> ExecutionResult:
        """See `PlanExecutor.execute`."""
        clock = StepClock((self._step,)) if options.measure else None
        try:
            if clock is None:
                return runner(self._step, request, options)
            result = clock.run(self._step, request, options, runner)
        except STOPPED as error:
            raise naming_step(error, 0, self._step) from None
        return replace(result, step_durations=clock.durations())
