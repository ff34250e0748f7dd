"""Defines the report of a compilation: how its steps were prepared, and which devices failed."""

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


class CompilationReport(Struct, frozen=True, kw_only=True):
    """How the steps of a plan were prepared, and which of their devices have failed since.

    Attributes:
        steps: for each step of the plan, how its device obtained the prepared model.
        fallback: why the CPU device runs the whole model; empty if it does not.
        failures: the steps whose devices have failed since they were prepared.
    """

    steps: tuple[PreparationReport, ...]
    fallback: str = ""
    failures: tuple[StepFailure, ...] = ()
