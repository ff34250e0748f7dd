"""Describes the graphs of a model for explanations: operations, named arguments, and values."""

from collections.abc import Sequence
from typing import Any

from neurald.hal.errors import BadData, Error
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_number, operation_number
from neurald.hal.model.types import FusedActivation, Lifetime, OperandType, PaddingScheme, value_size
from neurald.hal.operations.vendor import definition_of
from neurald.runtime.explain.graph_records import (
    GraphDescription,
    NamedOperand,
    OperationDescription,
    ValueDescription,
)
from neurald.runtime.model.branches import referenced_graphs

#: Constants of at most so many elements are written out.
_MAX_ELEMENTS = 16

_KINDS = {
    Lifetime.SUBGRAPH_INPUT: "input",
    Lifetime.SUBGRAPH_OUTPUT: "output",
    Lifetime.CONSTANT_COPY: "constant",
    Lifetime.CONSTANT_POOL: "constant",
    Lifetime.SUBGRAPH: "graph",
    Lifetime.NO_VALUE: "none",
}
#: Arguments whose numbers have names.
_ENUMERATIONS = {"activation": FusedActivation, "padding_scheme": PaddingScheme}


def describe_graphs(model: Model) -> tuple[GraphDescription, ...]:
    """Describes all graphs of a valid model, the main one first. Takes linear time."""
    return tuple(_graph(model, number, graph) for number, graph in enumerate((model.main, *model.referenced)))


def _graph(model: Model, number: int, graph: Subgraph) -> GraphDescription:
    operations = []
    used = dict.fromkeys((*graph.inputs, *graph.outputs))
    for position, operation in enumerate(graph.operations):
        used |= dict.fromkeys((*operation.inputs, *operation.outputs))
        inputs, outputs = _names(operation, graph.operands)
        operations.append(
            OperationDescription(
                operation=operation_number(graph, position),
                type=operation.type.name,
                inputs=_arguments(model, graph, operation.inputs, inputs),
                outputs=_arguments(model, graph, operation.outputs, outputs),
                graphs=referenced_graphs(graph, operation),
            )
        )
    return GraphDescription(
        graph=number,
        inputs=tuple(operand_number(graph.operands, index) for index in graph.inputs),
        outputs=tuple(operand_number(graph.operands, index) for index in graph.outputs),
        values=tuple(_value(model, graph, index) for index in used),
        operations=tuple(operations),
    )


def _names(operation: Operation, operands: Sequence[Operand]) -> tuple[list[str], list[str]]:
    """Returns the names of the inputs and of the outputs in the operation's definition."""
    inputs = [f"input {number}" for number in range(len(operation.inputs))]
    outputs = [f"output {number}" for number in range(len(operation.outputs))]
    definition = definition_of(operation.type)
    try:
        binding = None if definition is None else definition.bind(operation, operands, values_known=False)
    except BadData:
        binding = None
    if binding is not None:
        _fill(inputs, operation.inputs, binding.inputs)
        _fill(outputs, operation.outputs, binding.outputs)
    return inputs, outputs


def _fill(names: list[str], indexes: Sequence[int], found: Any) -> None:
    """Names places by the parameters of a form, which cover them in order."""
    place = 0
    for name, members in found.items():
        for number, index in enumerate(members):
            if place < len(names) and indexes[place] == index:
                names[place] = name if len(members) == 1 else f"{name} {number}"
                place += 1


def _arguments(
    model: Model, graph: Subgraph, indexes: Sequence[int], names: Sequence[str]
) -> tuple[NamedOperand, ...]:
    return tuple(
        NamedOperand(
            name=name,
            operand=operand_number(graph.operands, index),
            meaning=_meaning(model, graph.operands[index], name),
        )
        for index, name in zip(indexes, names, strict=True)
    )


def _meaning(model: Model, operand: Operand, name: str) -> str:
    """Returns what an argument's number stands for. Other arguments may share its constant."""
    if name not in _ENUMERATIONS:
        return ""
    content = _content(model, operand)
    return next((each.name for each in _ENUMERATIONS[name] if str(each.value) == content), "")


def _value(model: Model, graph: Subgraph, index: int) -> ValueDescription:
    operand = graph.operands[index]
    channels = operand.channel_quant
    return ValueDescription(
        operand=operand_number(graph.operands, index),
        name=operand.name,
        type=operand.type.name,
        dimensions=operand.dimensions,
        bytes=_size(operand),
        kind=_KINDS.get(operand.lifetime, "temporary"),
        content=_content(model, operand),
        scale=operand.scale,
        zero_point=operand.zero_point,
        channel_scales=0 if channels is None else len(channels.scales),
    )


def _size(operand: Operand) -> int | None:
    if operand.lifetime in (Lifetime.SUBGRAPH, Lifetime.NO_VALUE):
        return None
    return value_size(operand.type, operand.dimensions)


def _content(model: Model, operand: Operand) -> str:
    """Formats a small constant: a number or a list of numbers."""
    if not operand.lifetime.is_constant or operand.type is OperandType.TENSOR_STRING:
        return ""
    count = 1
    for length in operand.dimensions or ():
        count *= length
    if count > _MAX_ELEMENTS:
        return ""
    try:
        array = model.constant(operand)
    except (Error, ValueError):
        return ""
    if array is None or array.dtype.kind not in "biufc":
        return ""
    numbers = [_number(element) for element in array.ravel().tolist()]
    return numbers[0] if array.ndim == 0 else f"[{', '.join(numbers)}]"


def _number(element: object) -> str:
    return f"{element:.6g}" if isinstance(element, float) else str(element)
