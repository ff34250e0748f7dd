"""Shapes of a whole graph, from the shapes of its inputs, as far as they follow without running it."""

from collections.abc import Mapping, Sequence
from weakref import ref

from neurald.hal.accounting.pacing import paced
from neurald.hal.errors import BadData
from neurald.hal.model.numbering import operand_name, operation_number
from neurald.hal.model.types import Dimensions, Model, Operand, Subgraph
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.signature import Binding
from neurald.hal.operations.vendor import definition_of


def declared_shape(operand: Operand) -> Shape | None:
    """The shape that the model itself gives an operand; None where it leaves anything open."""
    return operand.dimensions if operand.is_fully_specified else None


def merge(declared: Dimensions, actual: Shape, what: str) -> Shape:
    """`actual`, once it is shown to agree with the dimensions that are declared.

    Raises:
        BadData: rank or a known dimension differs.
    """
    if declared is None:
        return actual
    if len(declared) != len(actual) or any(d not in (0, a) for d, a in zip(declared, actual, strict=True)):
        raise BadData(f"{what} has shape {list(actual)}; {list(declared)} is declared")
    return actual


def bind_operations(graph: Subgraph) -> tuple[Binding, ...]:
    """What each operation's operands stand for; kept as long as the graph is, since many ask.

    Raises:
        BadData: an operation is unknown, or does not match its signature.
    """
    number = id(graph)
    known = _bindings.get(number)
    if known is None:
        # By identity: to compare graphs takes longer than to bind them.
        known = ref(graph, lambda _: _bindings.pop(number, None)), _bound(graph)
        _bindings[number] = known
    return known[1]


def forget_bindings(model: Model) -> None:
    """Lets go of what `bind_operations` keeps of a model's graphs, which takes more memory than they do; made again if asked for."""
    for graph in (model.main, *model.referenced):
        _bindings.pop(id(graph), None)


#: By identity of the graph, for as long as it exists.
_bindings: dict[int, tuple[ref[Subgraph], tuple[Binding, ...]]] = {}


def _bound(graph: Subgraph) -> tuple[Binding, ...]:
    bindings = []
    for position, operation in enumerate(paced(graph.operations)):
        definition = definition_of(operation.type)
        if definition is None:
            raise at_operation(graph, position, BadData("it is not implemented"))
        try:
            bindings.append(definition.bind(operation, graph.operands))
        except BadData as error:
            raise at_operation(graph, position, error) from None
    return tuple(bindings)


def at_operation(graph: Subgraph, position: int, error: BadData) -> BadData:
    """`error`, saying which operation of the graph it is about."""
    return BadData(
        f"operation {operation_number(graph, position)} {graph.operations[position].type.name}: {error}"
    )


def infer_shapes(
    model: Model,
    graph: Subgraph,
    bindings: Sequence[Binding],
    inputs: Mapping[int, Shape] | None = None,
) -> dict[int, Shape]:
    """Operand index → shape, of all operands of `graph` whose shape follows.

    Args:
        model: whose graph it is.
        graph: the graph, with valid operations.
        bindings: of the graph's operations, from `bind_operations`.
        inputs: shapes of inputs (by operand index) that are to replace the declared ones.

    Raises:
        BadData: shapes do not fit together, or contradict what is declared.
    """
    shapes = {
        index: shape
        for index, operand in enumerate(graph.operands)
        if (shape := declared_shape(operand)) is not None
    }
    for index, shape in (inputs or {}).items():
        shapes[index] = merge(graph.operands[index].dimensions, shape, operand_name(graph.operands, index))

    def value_of(index: int) -> Array | None:
        return model.constant(graph.operands[index])

    for position, (operation, binding) in enumerate(zip(paced(graph.operations), bindings, strict=True)):
        call = Call(binding, graph.operands, shapes.get, value_of, referenced=model.referenced)
        try:
            definition = definition_of(operation.type)
            if definition is None:
                continue
            results = definition.output_shapes(call)
            for index, shape in zip(operation.outputs, results, strict=True):
                shapes[index] = merge(
                    graph.operands[index].dimensions, shape, f"{operand_name(graph.operands, index)} (output)"
                )
        except UnknownValue:
            continue
        except BadData as error:
            raise at_operation(graph, position, error) from None
    return shapes
