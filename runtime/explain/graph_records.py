"""Defines the records of explanations about a model's graphs: values, operations and kernels."""

from msgspec import Struct

from neurald.hal.model.types import Dimensions


class ValueDescription(Struct, frozen=True, kw_only=True):
    """A value of a graph.

    Attributes:
        operand: its number, as the application gave it.
        name: empty if it has none.
        type: such as "TENSOR_FLOAT32".
        dimensions: None if the rank is unknown; 0 for an unknown dimension.
        bytes: None if the size is unknown.
        kind: "input", "output", "constant", "temporary", "graph" or "none".
        content: a constant's elements as text if there are few; otherwise empty.
        scale, zero_point: the scale and zero point of quantised values; 0 for others.
        channel_scales: how many scales a value has that has one for each channel.
    """

    operand: int
    name: str
    type: str
    dimensions: Dimensions
    bytes: int | None
    kind: str
    content: str = ""
    scale: float = 0.0
    zero_point: int = 0
    channel_scales: int = 0


class NamedOperand(Struct, frozen=True, kw_only=True, array_like=True):
    """An argument of an operation.

    Attributes:
        name: the name that the operation's definition gives it.
        operand: the number of the operand, which may be an argument of other operations as well.
        meaning: what the number that it contains stands for here, such as "RELU"; empty if nothing.
    """

    name: str
    operand: int
    meaning: str = ""


class OperationDescription(Struct, frozen=True, kw_only=True):
    """An operation of a graph.

    Attributes:
        operation: its number, as in `OperationExplanation`.
        type: such as "CONV_2D".
        inputs, outputs: the inputs and outputs in the operation's order.
        graphs: numbers of the graphs that it runs.
    """

    operation: int
    type: str
    inputs: tuple[NamedOperand, ...]
    outputs: tuple[NamedOperand, ...]
    graphs: tuple[int, ...] = ()


class GraphDescription(Struct, frozen=True, kw_only=True):
    """A graph: number 0 is the main one, IF and WHILE run the others.

    Attributes:
        graph: its number.
        inputs, outputs: numbers of operands.
        values: all that its operations read and write, and its inputs and outputs.
        operations: the operations in execution order.
    """

    graph: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: tuple[ValueDescription, ...]
    operations: tuple[OperationDescription, ...]


class KernelDescription(Struct, frozen=True, kw_only=True):
    """A kernel that computes operations of a step.

    Attributes:
        step: number of the step.
        graph: number of the graph that contains the operations.
        device: the device that runs the step.
        name: the name of the kernel.
        label: how it computes, for display.
        operations: numbers of the operations. Several if the device fuses them.
        duration_ns: timed alone.
        is_reference: whether it is not a kernel, but the reference of the operation.
    """

    step: int
    graph: int
    device: str
    name: str
    label: str
    operations: tuple[int, ...]
    duration_ns: int
    is_reference: bool
