"""Summarizes a model: its inputs and outputs, constants, operations and memory."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from neurald.hal.memory.arena_planner import Lifespan, plan_memory
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime, value_size

#: Places of values in memory are multiples of this.
_ALIGNMENT: Final = 64
#: Stands for the length of an open dimension.
OPEN: Final = -1


class ValueSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a model.

    Attributes:
        name: "" if it has none.
        type: such as "TENSOR_FLOAT32".
        shape: -1 stands for an open dimension; None if the rank is open, too.
        scale, zero_point: the scale and zero point of quantised values; None for others, and the
            scale for each channel.
        channels: the dimension of the channels that have scales of their own; None without any.
    """

    name: str
    type: str
    shape: tuple[int, ...] | None
    scale: float | None = None
    zero_point: int | None = None
    channels: int | None = None


class OperationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An operation.

    Attributes:
        position: the position in its graph.
        type: such as "CONV_2D".
        name: the name of its first result.
        inputs: the shapes of what it reads, constants and options among them.
        outputs: the shapes of its results.
        graphs: the numbers of the graphs that it runs.
    """

    position: int
    type: str
    name: str
    inputs: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    graphs: tuple[int, ...] = ()


class GraphSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A graph: 0 is the main one, IF and WHILE run the others."""

    number: int
    operations: tuple[OperationSummary, ...]


class ModelSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A model.

    Attributes:
        inputs, outputs: the inputs and outputs of an execution.
        state: the names of variables that persist between executions.
        signatures: the entry points that the file declares, with their inputs and outputs.
        constants: the number of constant tensors and their bytes, by type.
        largest_bytes: the size of the largest value that the main graph computes in each
            execution; None if a size is open.
        arena_bytes: the memory in which these values fit if those that are not needed at the same
            time share it; None if a size is open.
        operations: the number of operations of all graphs, by type.
        graphs: the graphs in the order of their numbers.
    """

    inputs: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    state: tuple[str, ...]
    signatures: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
    constants: dict[str, tuple[int, int]]
    largest_bytes: int | None
    arena_bytes: int | None
    operations: dict[str, int]
    graphs: tuple[GraphSummary, ...]


def summarize(model: Model) -> ModelSummary:
    """Summarizes a model.

    Args:
        model: a valid model.
    """
    graphs = (model.main, *model.referenced)
    sizes = _computed_sizes(model)
    return ModelSummary(
        inputs=_named(model, model.inputs, model.input_names),
        outputs=_named(model, model.outputs, model.output_names),
        state=tuple(each.name for each in model.state),
        signatures={name: (each.inputs, each.outputs) for name, each in model.signatures.items()},
        constants=_constants(graphs),
        largest_bytes=None if sizes is None else max(sizes.values(), default=0),
        arena_bytes=None if sizes is None else _arena_bytes(model.main, sizes),
        operations=dict(
            Counter(operation.type.name for graph in graphs for operation in graph.operations).most_common()
        ),
        graphs=tuple(_graph(number, graph) for number, graph in enumerate(graphs)),
    )


def _named(model: Model, indexes: Sequence[int], names: Sequence[str]) -> tuple[ValueSummary, ...]:
    operands = model.main.operands
    found = [_value(operands[index]) for index in indexes]
    if len(names) != len(found):
        return tuple(found)
    return tuple(msgspec.structs.replace(each, name=name) for each, name in zip(found, names, strict=True))


def _value(operand: Operand) -> ValueSummary:
    shape = None if operand.dimensions is None else tuple(operand.dimensions)
    if shape is not None and not operand.is_fully_specified:
        shape = tuple(length or OPEN for length in shape)
    channels = None if operand.channel_quant is None else operand.channel_quant.dimension
    is_quantized = channels is None and operand.scale != 0
    return ValueSummary(
        name=operand.name,
        type=operand.type.name,
        shape=shape,
        scale=operand.scale if is_quantized else None,
        zero_point=operand.zero_point if is_quantized else None,
        channels=channels,
    )


def _graph(number: int, graph: Subgraph) -> GraphSummary:
    return GraphSummary(
        number=number,
        operations=tuple(
            _operation(position, operation, graph.operands)
            for position, operation in enumerate(graph.operations)
        ),
    )


def _operation(position: int, operation: Operation, operands: Sequence[Operand]) -> OperationSummary:
    inputs = [operands[index] for index in operation.inputs]
    outputs = [operands[index] for index in operation.outputs]
    return OperationSummary(
        position=position,
        type=operation.type.name,
        name=outputs[0].name if outputs else "",
        inputs=tuple(_value(each) for each in inputs if each.subgraph is None),
        outputs=tuple(map(_value, outputs)),
        graphs=tuple(each.subgraph + 1 for each in inputs if each.subgraph is not None),
    )


def _constants(graphs: Sequence[Subgraph]) -> dict[str, tuple[int, int]]:
    found: dict[str, list[int]] = {}
    for graph in graphs:
        for operand in graph.operands:
            if operand.type.is_tensor and operand.lifetime.is_constant:
                size = len(operand.value) if operand.location is None else operand.location.length
                found.setdefault(operand.type.name, []).append(size)
    return {name: (len(sizes), sum(sizes)) for name, sizes in found.items()}


def _computed_sizes(model: Model) -> dict[int, int] | None:
    """Returns the sizes of what the main graph computes by operand; None if one is open.

    Results that depend on constants alone are not among them.
    """
    sizes: dict[int, int] = {}
    operands = model.main.operands
    known = {index for index, operand in enumerate(operands) if operand.lifetime.is_constant}
    for operation in model.main.operations:
        if operation.inputs and known.issuperset(operation.inputs):
            known.update(operation.outputs)
            continue
        for index in operation.outputs:
            operand = operands[index]
            size = value_size(operand.type, operand.dimensions)
            if size is None and operand.lifetime is not Lifetime.NO_VALUE:
                return None
            sizes[index] = size or 0
    return sizes


def _arena_bytes(graph: Subgraph, sizes: dict[int, int]) -> int:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for position, operation in enumerate(graph.operations):
        for index in (*operation.inputs, *operation.outputs):
            last[index] = position
        for index in operation.outputs:
            first[index] = position
    for index in graph.outputs:
        last[index] = len(graph.operations)
    return plan_memory(
        [
            Lifespan(value=index, size_bytes=size, first=first[index], last=last[index])
            for index, size in sizes.items()
        ],
        alignment=_ALIGNMENT,
    ).size_bytes


def is_open(value: ValueSummary) -> bool:
    """Returns True if a dimension or the rank of a value is open."""
    return value.shape is None or OPEN in value.shape
