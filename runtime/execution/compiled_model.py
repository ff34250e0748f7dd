"""The parts of a compilation that executions and bursts use."""

from typing import Final, Protocol

from neurald.hal.api_arguments import shown
from neurald.hal.errors import BadState, UnexpectedNull, WrongType
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.model import Model
from neurald.runtime.execution.program.executor import PlanExecutor
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.execution.variables.state import State
from neurald.runtime.plan.plan import ExecutionPlan
from neurald.runtime.plan.report import CompilationReport

#: The remedy for programs that pickle a compilation or its executions.
COMPILE_ELSEWHERE: Final = (
    "Pickle the function that nd.compile returns, or the nd.Model, and compile it where it is used"
)


class CompiledModel(Protocol):
    """A finished compilation; `neurald.runtime.compilation.Compilation` is one. Thread-safe."""

    @property
    def model(self) -> Model:
        """The compiled model."""
        ...

    @property
    def plan(self) -> ExecutionPlan:
        """The plan: which device runs which operations."""
        ...

    @property
    def executor(self) -> PlanExecutor:
        """The executor of the plan."""
        ...

    @property
    def report(self) -> CompilationReport:
        """Tells how the steps were prepared."""
        ...

    @property
    def recovery(self) -> Recovery:
        """The handler of devices that fail."""
        ...

    @property
    def state(self) -> State:
        """The variables of a stateful model."""
        ...

    def require_one_device(self, what: str) -> None:
        """Raises BadData in strict mode unless the application listed exactly one device."""
        ...

    def with_attribute(
        self, values: tuple[AttributeValue, ...], extension: str, attribute: int, value: bytes
    ) -> tuple[AttributeValue, ...]:
        """Adds an attribute to those of an execution; see `Execution.add_extension_attribute`."""
        ...


def require_compiled(compilation: object) -> None:
    """Raises unless the argument is a finished compilation.

    Raises:
        UnexpectedNull: it is None.
        BadState: it is a builder, whose compilation is not finished.
        WrongType: it is anything else.
    """
    if compilation is None:
        raise UnexpectedNull("the compilation is None; what CompilationBuilder.finish() returns is expected")
    # Checked by attributes: isinstance() with the Protocol would dominate the cost of creating an
    # execution.
    if hasattr(compilation, "executor") and hasattr(compilation, "recovery"):
        return
    found = f"the compilation is {shown(compilation)}; what CompilationBuilder.finish() returns is expected"
    raise BadState(found) if hasattr(compilation, "finish") else WrongType(found)
