"""Defines the report of a compilation: how its steps were prepared, and which devices failed."""

import time

from msgspec import Struct

from neurald.runtime.plan.prepared_step import PreparationReport


class StepFailure(Struct, frozen=True, kw_only=True):
    """A step whose device has failed since the step was prepared, even if it works again.

    Attributes:
        step: position of the step in the plan.
        device: name of the device that the step was planned for.
        failures: number of failures, without those during the pause before a retry.
        reason: message of the last failure.
    """

    step: int
    device: str
    failures: int
    reason: str


class Move(Struct, frozen=True, kw_only=True):
    """A time in which one device ran, or may run, what was planned for another one.

    Attributes:
        step: position of the step in the plan; None for the whole plan.
        device: name of the device that the step was planned for; empty for the whole plan.
        reason: why it moved.
        since_s: when it moved, in seconds since 1970.
        until_s: when it moved back; None if it has not.
        to: name of the device that it moved to; empty for the CPU device.
    """

    step: int | None
    device: str
    reason: str
    since_s: float
    until_s: float | None = None
    to: str = ""

    def __str__(self) -> str:
        what = "the whole plan" if self.step is None else f"step {self.step} of {self.device}"
        where = self.to or "the CPU device"
        if self.until_s is None:
            return f"{what} runs on {where} since {_shown(self.since_s)}: {self.reason}"
        return f"{what} ran on {where} from {_shown(self.since_s)} to {_shown(self.until_s)}: {self.reason}"


def _shown(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


class CompilationReport(Struct, frozen=True, kw_only=True):
    """Tells how the steps of a plan were prepared, and which of their devices have failed since.

    Attributes:
        steps: for each step of the plan, how its device obtained the prepared model.
        fallback: why the CPU device runs the whole model; empty if it does not.
        failures: the steps whose devices have failed since they were prepared.
    """

    steps: tuple[PreparationReport, ...]
    fallback: str = ""
    failures: tuple[StepFailure, ...] = ()
