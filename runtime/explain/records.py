"""Defines the parts of an explanation: operations, steps, operands, transfers and refusals."""

from msgspec import Struct

from neurald.runtime.model.branches import MAIN

#: Name of the interpreter of control flow in explanations.
INTERPRETER_NAME = "interpreter"
#: Stands for the device of operations that no step runs, since their results are not needed.
NOT_RUN_NAME = "not run"


class Rejection(Struct, frozen=True, kw_only=True):
    """A device that was not chosen for an operation, and the reason."""

    device: str
    reason: str


class DeviceCost(Struct, frozen=True, kw_only=True):
    """The cost of an operation on a device that can run it.

    Attributes:
        device: name of the device.
        seconds: without launch and transfers; None if the device lists no performance for its type.
        source: where the number comes from: "measured", "scaled", "roofline" or "declared".
    """

    device: str
    seconds: float | None
    source: str


class PlacementChange(Struct, frozen=True, kw_only=True):
    """An operation that would run on another device.

    Attributes:
        graph, operation, type: which operation that is; see `OperationExplanation`.
        before, after: the names of the devices that run it now, and that would run it.
    """

    graph: int
    operation: int
    type: str
    before: str
    after: str

    def __str__(self) -> str:
        prefix = "" if self.graph == MAIN else f"graph {self.graph} "
        return f"{prefix}operation {self.operation} {self.type} would move from {self.before} to {self.after}"


class OperationExplanation(Struct, frozen=True, kw_only=True):
    """The device choice for one operation.

    Attributes:
        graph: number of the graph that contains it, 0 for the main graph.
        operation: its position in that graph, in the application's order.
        type: the type of the operation.
        steps: the steps that contain it. Usually one; none if the operation is interpreted or not
            run; several if several operations refer to its graph.
        device: the name of its device, `INTERPRETER_NAME`, or `NOT_RUN_NAME`.
        reason: why that device was chosen.
        rejected: all other devices, and why each was rejected.
        after: operations of the same graph whose results it reads.
        branches: the graphs that it refers to, if it is interpreted.
        costs: the costs on the devices that can run it, if the policy knows costs.
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
    costs: tuple[DeviceCost, ...] = ()

    @property
    def label(self) -> str:
        """The name of the operation in text output."""
        prefix = "" if self.graph == MAIN else f"graph {self.graph} "
        return f"{prefix}operation {self.operation} {self.type}"


class BoundaryOperand(Struct, frozen=True, kw_only=True):
    """An operand that a step reads or writes.

    Attributes:
        operand: index of the operand, as the application numbered it.
        name: empty if it has none.
        type: the type of the operand.
        dimensions: None if the rank is unknown; 0 for an unknown dimension.
        bytes: None if the size is unknown before the step runs.
    """

    operand: int
    name: str
    type: str
    dimensions: tuple[int, ...] | None
    bytes: int | None


class StepExplanation(Struct, frozen=True, kw_only=True):
    """The operations, inputs and outputs of one step.

    Attributes:
        step: number of the step.
        graph: number of the graph that contains the operations.
        device: name of the device that runs the step.
        operations: the operations in execution order, each as its position in the application's
            order.
        inputs, outputs: the operands that the step reads and writes.
    """

    step: int
    graph: int
    device: str
    operations: tuple[int, ...]
    inputs: tuple[BoundaryOperand, ...]
    outputs: tuple[BoundaryOperand, ...]


class DeviceTransfer(Struct, frozen=True, kw_only=True):
    """An operand that one device writes and another one reads.

    There is one transfer for each reading device.

    Attributes:
        graph: number of the graph that contains the operand.
        source, target: names of the writing and the reading device.
        value: the operand.
    """

    graph: int
    source: str
    target: str
    value: BoundaryOperand


class DeviceShare(Struct, frozen=True, kw_only=True):
    """The number of operations and steps that a device runs."""

    device: str
    operations: int
    steps: int


class Refusal(Struct, frozen=True, kw_only=True):
    """Operations of one type that a device rejects for the same reason.

    Attributes:
        device: name of the device.
        type: the type of the operations.
        reason: why the device was not chosen.
        operations: positions of the operations; as `graph:position` outside the main graph.
    """

    device: str
    type: str
    reason: str
    operations: tuple[str, ...]
