"""Executors of plans: a plan of one step hands its request on, one of several runs its program."""

from dataclasses import replace
from typing import Protocol

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.model.types import Request
from neurald.runtime.execution.compound_executor import CompoundExecutor
from neurald.runtime.execution.step_clock import StepClock
from neurald.runtime.execution.step_runner import STOPPED, Runner, naming_step, run_step
from neurald.runtime.plan.plan import ExecutionPlan, ExecutionStep, SimpleBody


class PlanExecutor(Protocol):
    """Runs a plan. Keeps no state between executions but memory for reuse: any number may run at the same time."""

    def execute(
        self, request: Request, options: ExecuteOptions, *, runner: Runner = run_step
    ) -> ExecutionResult:
        """Runs the plan once.

        Args:
            request: for the inputs and outputs of the whole model, variables included.
            options: for every step; the deadline is the same moment for all of them.
            runner: runs one step; an error that it raises ends the execution.

        Returns:
            Shapes of all outputs of the model, also where some are insufficient. `step_durations` are there if they were
            to be measured.

        Raises:
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline passed between two steps or in one of them, which
                the message names, or a loop of the plan took longer than its time.
            Cancelled: `options.cancellation` was cancelled between two steps or in one of them.
            OpFailed: shapes or a condition are not what the model says.
            Error: what the runner raised.
        """
        ...


def plan_executor(plan: ExecutionPlan) -> PlanExecutor:
    """The executor of a plan, to be kept with it."""
    if isinstance(plan.body, SimpleBody):
        return SimpleExecutor(plan.body.step)
    return CompoundExecutor(plan.body, len(plan.model.main.outputs))


class SimpleExecutor:
    """Implements `PlanExecutor` for a plan of one step: the request is handed on as it is."""

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
