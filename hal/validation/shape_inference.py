"""Infers the shapes of a graph from those of its inputs, as far as possible without running it."""

from collections.abc import Mapping, Sequence
from weakref import ref

from neurald.hal.accounting.pacing import paced
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name, operation_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Dimensions
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.signature import Binding
from neurald.hal.operations.vendor import definition_of


def declared_shape(operand: Operand) -> Shape | None:
    """Returns the shape that the model declares for an operand; None unless fully specified."""
    dimensions = operand.dimensions
    # As `Operand.is_fully_specified`; conversions ask for each argument of each operation.
    if dimensions is None or (0 in dimensions and not operand.lifetime.is_constant):
        return None
    return dimensions


def merge(declared: Dimensions, actual: Shape, what: str) -> Shape:
    """Returns `actual` after checking it against the declared dimensions.

    Raises:
        BadData: the rank or a known dimension differs.
    """
    if declared is None:
        return actual
    if len(declared) != len(actual) or any(d not in (0, a) for d, a in zip(declared, actual, strict=True)):
        raise BadData(f"{what} has shape {list(actual)}; {list(declared)} is declared")
    return actual


def bind_operations(graph: Subgraph) -> tuple[Binding, ...]:
    """Binds each operation's operands to its signature. Cached for the lifetime of the graph.

    Raises:
        BadData: an operation is unknown, or does not match its signature.
    """
    number = id(graph)
    known = _bindings.get(number)
    # An interrupt at the end of another graph may have kept its entry, whose number is free again.
    if known is None or known[0]() is not graph:
        # Keyed by identity: comparing graphs takes longer than binding them.
        known = ref(graph, lambda _: _bindings.pop(number, None)), _bound(graph)
        _bindings[number] = known
    return known[1]


def required_inputs(graph: Subgraph) -> frozenset[int]:
    """Returns the inputs of a graph that no execution may omit, since an operation needs them.

    Whether an operation inside of IF or WHILE does is not considered: these pass values on.

    Raises:
        BadData: see `bind_operations`.
    """
    found: set[int] = set()
    for binding in bind_operations(graph):
        if binding.type not in (OperationType.IF, OperationType.WHILE):
            optional = {parameter.name for parameter in binding.form.inputs if parameter.optional}
            for name, indices in binding.inputs.items():
                found.update(indices if name not in optional else ())
    return frozenset(found.intersection(graph.inputs))


def forget_bindings(model: Model) -> None:
    """Drops the cached bindings of a model's graphs, which take more memory than the graphs.

    They are computed again on demand.
    """
    for graph in (model.main, *model.referenced):
        _bindings.pop(id(graph), None)


#: Keyed by identity of the graph; an entry lives as long as its graph.
_bindings: dict[int, tuple[ref[Subgraph], tuple[Binding, ...]]] = {}


class LazyBindings:
    """The bindings of a graph's operations, each of which is made when it is first read.

    Args:
        graph: a valid graph. Reading the binding of an operation that is unknown, or does not match
            its signature, raises BadData.
    """

    __slots__ = ("_found", "_graph")

    def __init__(self, graph: Subgraph) -> None:
        self._graph = graph
        self._found: list[Binding | None] = [None] * len(graph.operations)

    def __getitem__(self, position: int) -> Binding:
        found = self._found[position]
        if found is None:
            found = self._found[position] = _binding(self._graph, position, self._graph.operations[position])
        return found


def _bound(graph: Subgraph) -> tuple[Binding, ...]:
    return tuple(
        [_binding(graph, position, operation) for position, operation in enumerate(paced(graph.operations))]
    )


def _binding(graph: Subgraph, position: int, operation: Operation) -> Binding:
    definition = definition_of(operation.type)
    if definition is None:
        raise at_operation(graph, position, BadData("this operation is not implemented"))
    try:
        return definition.bind(operation, graph.operands)
    except BadData as error:
        raise at_operation(graph, position, error) from None


def at_operation(graph: Subgraph, position: int, error: BadData) -> BadData:
    """Prefixes an error with the name of an operation."""
    return BadData(
        f"operation {operation_number(graph, position)} {graph.operations[position].type.name}: {error}"
    )


def infer_shapes(
    model: Model,
    graph: Subgraph,
    bindings: Sequence[Binding],
    inputs: Mapping[int, Shape] | None = None,
) -> dict[int, Shape]:
    """Infers the shapes of a graph's operands.

    Args:
        model: model of the graph.
        graph: the graph, with valid operations.
        bindings: the bindings of the graph's operations, from `bind_operations`.
        inputs: shapes of inputs, by operand index, that replace the declared ones.

    Returns:
        The shapes that could be inferred, by operand index.

    Raises:
        BadData: shapes are inconsistent, or contradict the declared ones.
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
