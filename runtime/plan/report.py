"""What a compilation tells of its devices: how they came by their steps, and how they have failed since."""

from dataclasses import dataclass

from neurald.runtime.plan.preparer import PreparationReport


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailure:
    """A step whose device has failed since the step was prepared, whether or not it works again.

    Attributes:
        step: its number in the plan.
        device: that it was planned for.
        failures: how often; those that came while the device was left alone count as one.
        reason: of the last failure.
    """

    step: int
    device: str
    failures: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilationReport:
    """How the steps of a plan came to be, and what has become of their devices.

    Attributes:
        steps: for each step of the plan how its device came by the prepared model.
        fallback: why the whole model went to the CPU device; empty if it did not.
        failures: the steps whose devices have failed since.
    """

    steps: tuple[PreparationReport, ...]
    fallback: str = ""
    failures: tuple[StepFailure, ...] = ()
