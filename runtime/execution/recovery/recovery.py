"""Recovery: the steps of a compilation with the health of their devices, and the last resort."""

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import (
    Error,
)
from neurald.hal.extension_support import refused_operations
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.measurement.receipt import noted_call
from neurald.runtime.execution.recovery.cpu_runs import WholeModelFallback
from neurald.runtime.execution.recovery.fallback import Fallback, Substitution
from neurald.runtime.execution.recovery.recovering_step import RecoveringStep
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.preparer import Preparer
from neurald.runtime.plan.report import Move, StepFailure

if TYPE_CHECKING:
    from neurald.runtime.execution.verification.step_verification import VerificationStatus

_LOGGER = logging.getLogger(__name__)


class Recovery:
    """Recovers the steps of one compilation from failures of their devices. Thread-safe.

    Args:
        model: the model of the compilation.
        steps: all steps of its plan.
        preparer: prepares steps again.
        may_fall_back: whether the CPU may take over from devices.
        watches_drift: whether it also takes over from devices that have become slow.
        verified_share: share of the time of each step for verification by the CPU; 0 for none.
    """

    def __init__(
        self,
        model: Model,
        steps: Sequence[ExecutionStep],
        preparer: Preparer,
        *,
        may_fall_back: bool,
        watches_drift: bool = False,
        verified_share: float = 0.0,
    ) -> None:
        self._recovering = partial(
            RecoveringStep,
            preparer=preparer,
            may_fall_back=may_fall_back,
            watches_drift=watches_drift,
            verified_share=verified_share,
        )
        self._states = {id(step): self._recovering(step) for step in steps}
        #: The states of the plan's steps, by their numbers.
        self._steps = tuple(self._states.values())
        has_other_device = any(step.device is not cpu_device() for step in steps)
        #: Used if an execution fails although its steps could fall back. None if that is not
        #: allowed or cannot help.
        self._whole_model = (
            WholeModelFallback(model, preparer)
            if may_fall_back
            and has_other_device
            and len(steps) > 1
            and not refused_operations(model, cpu_device())
            else None
        )

    def step(self, step: ExecutionStep) -> RecoveringStep:
        """Returns the recovery state of one of the plan's steps."""
        return self._states[id(step)]

    def add(self, step: ExecutionStep) -> None:
        """Adds a step that may replace the whole plan."""
        self._states[id(step)] = self._recovering(step)

    def replace_plan(self, step: ExecutionStep) -> None:
        """Makes a step that was added the only one of the plan; others may still be running."""
        self._steps = (self._states[id(step)],)

    @property
    def is_disturbed(self) -> bool:
        """True if a step does not run on its device now."""
        return any(state.is_disturbed for state in self._steps)

    def run(self, step: ExecutionStep, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs a step; see `RecoveringStep.execute`."""
        return self._states[id(step)].execute(request, options)

    def run_whole_model(self, request: Request, options: ExecuteOptions, cause: Error) -> ExecutionResult:
        """Runs the whole model on the CPU after a step failed on every device that may run it.

        Args:
            request: the request of the whole model.
            options: the options for the execution.
            cause: the error of the step.

        Raises:
            Error: the CPU failed too; or `cause`, if the CPU may not take over.
        """
        if self._whole_model is None:
            try:
                raise cause
            finally:
                # An error to which its frames refer keeps them, and the memory of the call.
                del cause
        text = "the CPU runs the whole model: %s"
        note_event(CountedEvent.FALLBACK, "whole model", _LOGGER.warning, text, cause.with_traceback(None))
        with noted_call(None, cpu_device(), reason=str(cause)):
            result = self._whole_model.execute(request, options)
        for state in self._steps:
            state.count_substitution(str(cause))
        return result

    @property
    def substitutions(self) -> tuple[Substitution, ...]:
        """The executions so far that did not run on the planned devices, by step."""
        states = (state.substitution(number) for number, state in enumerate(self._steps))
        return tuple(state for state in states if state is not None)

    @property
    def failures(self) -> tuple[StepFailure, ...]:
        """The steps whose devices have failed since they were prepared."""
        states = (state.failure(number) for number, state in enumerate(self._steps))
        return tuple(state for state in states if state is not None)

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves of steps to the CPU device and back, in this order."""
        moves = [move for number, state in enumerate(self._steps) for move in state.moves(number)]
        return tuple(sorted(moves, key=lambda move: move.since_s))

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The steps that do not currently run on their devices."""
        states = (state.fallback(number) for number, state in enumerate(self._steps))
        return tuple(state for state in states if state is not None)

    def get_ready_to_verify(self) -> None:
        """Waits until the CPU has prepared what it verifies."""
        for state in self._steps:
            state.get_ready_to_verify()

    def wait_until_investigated(self, timeout_s: float | None) -> bool:
        """Waits until nothing is verified or investigated; returns False if that takes longer."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        return all(
            state.wait_until_investigated(None if end_s is None else max(0.0, end_s - time.monotonic()))
            for state in self._steps
        )

    @property
    def verifications(self) -> "tuple[VerificationStatus, ...]":
        """The state of the verification of each step that is verified."""
        states = (state.verification(number) for number, state in enumerate(self._steps))
        return tuple(state for state in states if state is not None)
