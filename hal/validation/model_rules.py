"""Validates models. The runtime and every daemon run these checks.

The rules are Android NN's (`Validation.cpp`). Messages name graph, operation and operand, what was
found and what is expected.
"""

from collections.abc import Callable

from neurald.hal.accounting.pacing import paced
from neurald.hal.errors import BadData, ResourceExhaustedPersistent
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name, operation_number
from neurald.hal.model.operation_type import TFLITE_EXTENSION_BASE, OperationType
from neurald.hal.model.types import FeatureLevel, Lifetime, OperandType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.signature import Binding
from neurald.hal.operations.vendor import definition_of
from neurald.hal.validation.operand_rules import type_level, validate_operand_type, validate_value
from neurald.hal.validation.shape_inference import at_operation, bind_operations, declared_shape, infer_shapes
from neurald.hal.wording import counted

MAX_OPERANDS = 1_000_000
MAX_OPERATIONS = 100_000
#: Maximum nesting depth of IF and WHILE: the interpreter recurses once per level.
MAX_DEPTH = 16


#: Lifetimes of operands without a value of their own.
_VALUELESS = frozenset(
    (
        Lifetime.TEMPORARY_VARIABLE,
        Lifetime.SUBGRAPH_INPUT,
        Lifetime.SUBGRAPH_OUTPUT,
        Lifetime.NO_VALUE,
    )
)

_WRITTEN_BY_OPERATIONS = frozenset((Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT))


_CONTROL_FLOW = frozenset((OperationType.IF, OperationType.WHILE))


def validate_model(model: Model) -> FeatureLevel:
    """Checks every rule that a model must satisfy before a driver may see it.

    Returns:
        The feature level that a device needs to run the whole model.

    Raises:
        BadData: a rule is violated.
        ResourceExhaustedPersistent: control flow is nested too deeply.
    """
    return _validate(model, _validate_operations)


def validate_accepted(model: Model) -> None:
    """Checks the rules that do not concern single operations, for which their definitions suffice.

    For models of which each operation was bound and checked, and the shapes of its results
    inferred, when it was added, with operands that have not changed since. The rules of control
    flow, which read other graphs, are checked again.

    Raises:
        As for `validate_model`.
    """
    _validate(model, _validate_control_flow)


def _validate(model: Model, validate_operations: Callable[[Model, Subgraph], FeatureLevel]) -> FeatureLevel:
    level = FeatureLevel.LEVEL_4 if model.referenced else FeatureLevel.LEVEL_1
    # Operations are checked second, because control flow uses the inputs and outputs of other
    # graphs.
    for validate in (_validate_structure, validate_operations):
        for graph in (model.main, *model.referenced):
            prefix = f"graph {graph.number}: " if graph.number else ""
            try:
                level = max(level, validate(model, graph))
            except BadData as error:
                raise BadData(prefix + str(error)) from None
    _validate_references(model)
    return level


def _validate_structure(model: Model, graph: Subgraph) -> FeatureLevel:
    """Checks operands and that all indexes are valid; returns the feature level of the types."""
    if not graph.operands or not graph.operations:
        raise BadData(
            f"the graph has {counted(len(graph.operands), 'operand')} and {counted(len(graph.operations), 'operation')}; "
            "at least one of each is expected"
        )
    if len(graph.operands) > MAX_OPERANDS or len(graph.operations) > MAX_OPERATIONS:
        raise BadData(
            f"{len(graph.operands)} operands and {len(graph.operations)} operations; "
            f"at most {MAX_OPERANDS} and {MAX_OPERATIONS} are allowed"
        )
    extended = _extended(graph)
    kinds: set[OperandType] = set()
    # Of each combination of what the type rules depend on, one operand is enough.
    valid: set[tuple[object, ...]] = set()
    for index, operand in enumerate(paced(graph.operands)):
        kind, dimensions, is_extended = operand.type, operand.dimensions, index in extended
        facts = kind, dimensions, operand.scale, operand.zero_point, is_extended
        is_plain = operand.channel_quant is None and not operand.extension_data
        if not is_plain or facts not in valid:
            validate_operand_type(operand, operand_name(graph.operands, index), is_extended=is_extended)
            kinds.add(kind)
            if is_plain:
                valid.add(facts)
        if (
            operand.lifetime not in _VALUELESS
            or operand.location is not None
            or operand.value
            or operand.subgraph is not None
            or kind is OperandType.MODEL
        ):
            what = operand_name(graph.operands, index)
            validate_value(operand, model.pools, len(model.referenced), what)
    _validate_ends(graph)
    _validate_order(graph)
    return max(map(type_level, kinds), default=FeatureLevel.LEVEL_1)


def _validate_operations(model: Model, graph: Subgraph) -> FeatureLevel:
    """Checks each operation and infers all shapes; returns the feature level of the operations."""
    level = FeatureLevel.LEVEL_1
    bindings = bind_operations(graph)
    for position, binding in enumerate(paced(bindings)):
        definition = definition_of(binding.type)
        if definition is None:
            continue
        level = max(level, definition.level_of(binding, graph.operands))
        try:
            definition.check(declared_call(model, graph, binding))
        except BadData as error:
            raise at_operation(graph, position, error) from None
    infer_shapes(model, graph, bindings)
    return level


def _validate_control_flow(model: Model, graph: Subgraph) -> FeatureLevel:
    """Checks the operations that refer to other graphs."""
    for position, operation in enumerate(paced(graph.operations)):
        definition = definition_of(operation.type) if operation.type in _CONTROL_FLOW else None
        if definition is not None:
            try:
                binding = definition.bind(operation, graph.operands)
                definition.check(declared_call(model, graph, binding))
            except BadData as error:
                raise at_operation(graph, position, error) from None
    return FeatureLevel.LEVEL_1


def _extended(graph: Subgraph) -> frozenset[int]:
    """Returns the operands that operations of an extension use, or that control flow passes on."""
    return frozenset(
        index
        for operation in graph.operations
        if operation.type >= TFLITE_EXTENSION_BASE or operation.type in _CONTROL_FLOW
        for index in (*operation.inputs, *operation.outputs)
    )


def operation_levels(model: Model) -> list[FeatureLevel]:
    """Returns the feature level needed for each operation of a valid model's main graph.

    The level of control flow includes the graphs that it refers to.
    """
    highest: dict[int, FeatureLevel] = {}  # by referenced graph, which many may share

    def level_of(graph: Subgraph, operation: Operation, binding: Binding) -> FeatureLevel:
        operands = [graph.operands[index] for index in (*operation.inputs, *operation.outputs)]
        definition = definition_of(binding.type)
        own = binding.level if definition is None else definition.level_of(binding, graph.operands)
        level = max(own, *(type_level(operand.type) for operand in operands))
        for operand in operands:
            if operand.subgraph is not None:
                if operand.subgraph not in highest:
                    highest[operand.subgraph] = max(
                        levels_of(model.referenced[operand.subgraph]), default=FeatureLevel.LEVEL_1
                    )
                level = max(level, highest[operand.subgraph])
        return level

    def levels_of(graph: Subgraph) -> list[FeatureLevel]:
        return [
            level_of(graph, operation, binding)
            for operation, binding in zip(graph.operations, bind_operations(graph), strict=True)
        ]

    return levels_of(model.main)


def declared_call(model: Model, graph: Subgraph, binding: Binding) -> Call:
    """Builds the call of an operation from the model alone: declared shapes and constants."""
    return Call(
        binding,
        graph.operands,
        lambda index: declared_shape(graph.operands[index]),
        lambda index: model.constant(graph.operands[index]),
        referenced=model.referenced,
    )


def _validate_ends(graph: Subgraph) -> None:
    for indexes, lifetime, what in (
        (graph.inputs, Lifetime.SUBGRAPH_INPUT, "input"),
        (graph.outputs, Lifetime.SUBGRAPH_OUTPUT, "output"),
    ):
        if not indexes and lifetime is Lifetime.SUBGRAPH_OUTPUT:
            raise BadData("the graph has no output; at least one is expected")
        for position, index in enumerate(indexes):
            if not 0 <= index < len(graph.operands):
                raise BadData(f"{what} {position}: there is no operand {index}")
            if graph.operands[index].lifetime is not lifetime:
                found = graph.operands[index].lifetime.name
                raise BadData(
                    f"{what} {position}: {operand_name(graph.operands, index)} has lifetime {found}"
                )
        if len(set(indexes)) != len(indexes):
            twice = next(each for each in indexes if indexes.count(each) > 1)
            name = operand_name(graph.operands, twice)
            raise BadData(f"{name} is listed twice among the {what}s; each is listed once")
        declared = [operand.lifetime for operand in graph.operands].count(lifetime)
        if declared != len(indexes):
            raise BadData(f"{declared} operands of lifetime {lifetime.name}; {len(indexes)} are listed")


def _validate_order(graph: Subgraph) -> None:
    """Checks that each operand is written exactly once, and before it is read."""
    count = len(graph.operands)
    written = [operand.lifetime not in _WRITTEN_BY_OPERATIONS for operand in graph.operands]
    for position, operation in enumerate(paced(graph.operations)):
        for index in operation.inputs + operation.outputs:
            if not 0 <= index < count:
                raise BadData(f"{_operation(graph, position)}: there is no operand {index}")
        for index in operation.inputs:
            if not written[index]:
                what = f"{_operation(graph, position)}: {operand_name(graph.operands, index)}"
                raise BadData(
                    f"{what} is read before it is written; an input, a constant or the result of an operation "
                    "before this one is expected"
                )
        for index in operation.outputs:
            if written[index]:
                what = f"{_operation(graph, position)}: {operand_name(graph.operands, index)}"
                lifetime = graph.operands[index].lifetime.name
                raise BadData(f"{what} ({lifetime}) is written although it has a value, or twice")
            written[index] = True
    missing = [index for index, done in enumerate(written) if not done]
    if missing:
        raise BadData(f"{operand_name(graph.operands, missing[0])} is never written")


def _operation(graph: Subgraph, position: int) -> str:
    return f"operation {operation_number(graph, position)} {graph.operations[position].type.name}"


def _validate_references(model: Model) -> None:
    """Checks that referenced graphs form no cycle and are not nested too deeply.

    The walk uses its own stack, because the depth is input data.
    """
    edges = [
        sorted({o.subgraph for o in graph.operands if o.subgraph is not None})
        for graph in (*model.referenced, model.main)
    ]
    state = [0] * len(edges)  # 0 unseen, 1 on the way, 2 done
    depth = [0] * len(edges)
    for start in range(len(edges)):
        stack = [(start, iter(edges[start]))] if state[start] == 0 else []
        state[start] = state[start] or 1
        while stack:
            node, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                state[node] = 2
                depth[node] = max((1 + depth[each] for each in edges[node]), default=0)
                stack.pop()
            elif state[target] == 1:
                raise BadData(
                    f"referenced graph {target} refers to itself; a graph may only use other graphs, and "
                    "none that uses it"
                )
            elif state[target] == 0:
                state[target] = 1
                stack.append((target, iter(edges[target])))
    if max(depth) > MAX_DEPTH:
        raise ResourceExhaustedPersistent(
            f"graphs are nested {max(depth)} levels deep; at most {MAX_DEPTH} are allowed"
        )
