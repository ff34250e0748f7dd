"""The parts of an explanation: operations, steps, values, transfers and refusals."""

from dataclasses import dataclass

from neurald.runtime.model.branches import MAIN

#: Name of the interpreter of control flow in explanations.
INTERPRETER_NAME = "interpreter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A device that does not run an operation, and the reason."""

    device: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationExplanation:
    """The device choice for one operation.

    Attributes:
        graph, operation: number of its graph (0 for the main graph) and its position there, in the
            application's order.
        type: of the operation.
        steps: the steps that include it: one; none if it is interpreted; several in a graph that
            several operations use.
        device: a device's name, or `INTERPRETER_NAME`.
        reason: why that device was chosen.
        rejected: all other devices, and why each was rejected.
        after: operations of the same graph whose results it reads.
        branches: the graphs that it refers to, if it is interpreted.
    """

    graph: int
    operation: int
    type: str
    steps: tuple[int, ...]
    device: str
    reason: str
    rejected: tuple[Rejection, ...]
    after: tuple[int, ...]
    branches: tuple[int, ...]

    @property
    def label(self) -> str:
        """Its name in lines of text."""
        prefix = "" if self.graph == MAIN else f"graph {self.graph} "
        return f"{prefix}operation {self.operation} {self.type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryOperand:
    """An operand at the boundary of a step.

    `bytes` is None if its size is unknown before the step runs.
    """

    operand: int
    name: str
    type: str
    dimensions: tuple[int, ...] | None
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExplanation:
    """The operations, inputs and outputs of one step.

    Operations are in execution order, by the application's positions.
    """

    step: int
    graph: int
    device: str
    operations: tuple[int, ...]
    inputs: tuple[BoundaryOperand, ...]
    outputs: tuple[BoundaryOperand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTransfer:
    """A value that one device writes and another reads, once for each reading device."""

    graph: int
    source: str
    target: str
    value: BoundaryOperand


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShare:
    """The share of a model that a device runs."""

    device: str
    operations: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Operations of one type that a device rejects for the same reason.

    Attributes:
        operations: their positions; as `graph:position` outside the main graph.
    """

    device: str
    type: str
    reason: str
    operations: tuple[str, ...]
