"""What executions and bursts need of a compilation."""

from typing import Protocol

from neurald.hal.errors import BadState, UnexpectedNull
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.types import Model
from neurald.runtime.execution.executor import PlanExecutor
from neurald.runtime.execution.fallback import Recovery
from neurald.runtime.execution.state import State
from neurald.runtime.plan.plan import ExecutionPlan


class CompiledModel(Protocol):
    """A finished compilation; `neurald.runtime.compilation.Compilation` is one. Thread-safe."""

    @property
    def model(self) -> Model:
        """What was compiled."""
        ...

    @property
    def plan(self) -> ExecutionPlan:
        """Which device runs which operations."""
        ...

    @property
    def executor(self) -> PlanExecutor:
        """Runs the plan."""
        ...

    @property
    def recovery(self) -> Recovery:
        """What stands in for devices that fail."""
        ...

    @property
    def state(self) -> State:
        """The variables of a stateful model."""
        ...

    def require_one_device(self, what: str) -> None:
        """In strict mode raises BadData unless the application listed exactly one device."""
        ...

    def with_attribute(
        self, values: tuple[AttributeValue, ...], extension: str, attribute: int, value: bytes
    ) -> tuple[AttributeValue, ...]:
        """The attributes of an execution with one more; see `Execution.add_extension_attribute`."""
        ...


def require_compiled(compilation: object) -> None:
    """Raises unless it is a finished compilation.

    Raises:
        UnexpectedNull: there is none.
        BadState: it is something else, such as a compilation that is not finished.
    """
    if compilation is None:
        raise UnexpectedNull("compilation is None")
    # A check against the Protocol would take longer than all else that making an execution takes.
    if not (hasattr(compilation, "executor") and hasattr(compilation, "recovery")):
        raise BadState(f"{type(compilation).__name__} is no finished compilation; finish() returns one")
