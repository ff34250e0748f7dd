"""Report of a compilation: how devices obtained their prepared models, and which failed since."""

from dataclasses import dataclass

from neurald.runtime.plan.preparer import PreparationReport


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailure:
    """A step whose device has failed since the step was prepared, even if it works again.

    Attributes:
        step: position of the step in the plan.
        device: device that the step was planned for.
        failures: number of failures; those during the retry pause count as one.
        reason: of the last failure.
    """

    step: int
    device: str
    failures: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilationReport:
    """How the steps of a plan were prepared, and the failures since.

    Attributes:
        steps: for each step of the plan, how its device obtained the prepared model.
        fallback: why the whole model went to the CPU device; empty if it did not.
        failures: the steps whose devices have failed since.
    """

    steps: tuple[PreparationReport, ...]
    fallback: str = ""
    failures: tuple[StepFailure, ...] = ()
