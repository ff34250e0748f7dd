"""CompilationStatus: the code that the steps of a compilation run, and compilations under way."""

from enum import Enum

from msgspec import Struct

from neurald.runtime.plan.startup import Startup


class StepTier(Enum):
    """The kind of code that a step runs: what was ready first, or what its device compiled."""

    FIRST = "first"
    OPTIMIZED = "optimized"


class StepStatus(Struct, frozen=True, kw_only=True):
    """The state of one step.

    Attributes:
        step: position of the step in the plan.
        device: name of the device that the step was planned for.
        tier: the kind of code that executions run now.
        runs_on: name of the device that executes it now.
        progress: share of the preparation that is done, from 0 to 1; 0 if the device reports none.
        elapsed_s: time since the device began to prepare the step; 0 if it waits.
        reason: why the first tier stays; empty if the device still prepares the step, or has.
    """

    step: int
    device: str
    tier: StepTier
    runs_on: str
    progress: float = 1.0
    elapsed_s: float = 0.0
    reason: str = ""

    @property
    def is_pending(self) -> bool:
        """True if optimised code will replace what runs now."""
        return self.tier is StepTier.FIRST and not self.reason

    def __str__(self) -> str:
        text = f"step {self.step} of {self.device}: "
        if self.tier is StepTier.OPTIMIZED:
            return f"{text}optimised"
        text += f"first tier on {self.runs_on}; "
        if self.reason:
            return f"{text}it stays: {self.reason}"
        if not self.elapsed_s:
            return f"{text}optimised code waits to be compiled"
        return f"{text}optimised code is compiled, {self.progress:.0%} in {self.elapsed_s:.1f} s"


class CompilationStatus(Struct, frozen=True, kw_only=True):
    """The state of all steps of a compilation. `str()` formats it as one line for each step.

    Attributes:
        startup: the startup of the compilation.
        steps: the state of each step of the plan.
    """

    startup: Startup
    steps: tuple[StepStatus, ...]

    @property
    def is_optimized(self) -> bool:
        """True if every step runs optimised code."""
        return all(step.tier is StepTier.OPTIMIZED for step in self.steps)

    @property
    def is_pending(self) -> bool:
        """True if the code of a step will be replaced."""
        return any(step.is_pending for step in self.steps)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))
