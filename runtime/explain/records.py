"""The parts of an explanation: operations, steps, values, transfers, and what devices refuse."""

from dataclasses import dataclass

from neurald.runtime.model.branches import MAIN

#: What runs interpreted control flow, as explanations name it.
INTERPRETER_NAME = "interpreter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why a device does not run an operation."""

    device: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationExplanation:
    """Where one operation runs, and why.

    Attributes:
        graph, operation: its graph's number (0 for the main one) and its position there, in the application's order.
        type: of the operation.
        steps: the steps that it is part of: one; none if it is interpreted; several in a graph that several operations use.
        device: a device's name, or `INTERPRETER_NAME`.
        reason: why that one.
        rejected: every other device, and why not.
        after: the operations of its graph whose results it reads.
        branches: the graphs that it refers to, where it is interpreted.
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
        """How lines of text name it."""
        prefix = "" if self.graph == MAIN else f"graph {self.graph} "
        return f"{prefix}operation {self.operation} {self.type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An operand at the edge of a step; `bytes` is None where its size is not known before it runs."""

    operand: int
    name: str
    type: str
    dimensions: tuple[int, ...] | None
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExplanation:
    """What one step runs, reads and gives; operations in the order in which they run, by the application's positions."""

    step: int
    graph: int
    device: str
    operations: tuple[int, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A value that one device writes and another reads, once for each reading device."""

    graph: int
    source: str
    target: str
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShare:
    """How much of a model a device runs."""

    device: str
    operations: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Operations of one type that a device does not run for the same reason.

    Attributes:
        operations: their positions; those outside the main graph as `graph:position`.
    """

    device: str
    type: str
    reason: str
    operations: tuple[str, ...]
