"""Validates models. The runtime and every daemon run these checks.

The rules are Android NN's (`Validation.cpp`). Messages name graph, operation and operand, what was
found and what is expected.
"""

from collections.abc import Callable, Mapping, Sequence

from neurald.hal.accounting.pacing import paced
from neurald.hal.errors import BadData, ResourceExhaustedPersistent
from neurald.hal.memory.pool import Memory, checked_range
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.extension import extension_of
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name, operation_number
from neurald.hal.model.operation_type import TFLITE_EXTENSION_BASE, OperationType
from neurald.hal.model.strings import decode_strings
from neurald.hal.model.types import MAX_OPERAND_BYTES, FeatureLevel, Lifetime, OperandType, byte_size
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.signature import MAX_RANK, Binding
from neurald.hal.operations.vendor import definition_of
from neurald.hal.validation.shape_inference import at_operation, bind_operations, declared_shape, infer_shapes
from neurald.hal.wording import counted

#: Scales are float32 on Android.
_MAX_SCALE = (2.0 - 2.0**-23) * 2.0**127

MAX_OPERANDS = 1_000_000
MAX_OPERATIONS = 100_000
#: Per operand.
MAX_EXTENSION_DATA_BYTES = 1 << 20
#: Maximum nesting depth of IF and WHILE: the interpreter recurses once per level.
MAX_DEPTH = 16

_TYPE_LEVELS: dict[OperandType, FeatureLevel] = {
    OperandType.BOOL: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT16_SYMM: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_FLOAT16: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_BOOL8: FeatureLevel.LEVEL_3,
    OperandType.FLOAT16: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT16_ASYMM: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT8_SYMM: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: FeatureLevel.LEVEL_4,
    OperandType.MODEL: FeatureLevel.LEVEL_4,
}

#: Lowest and highest zero point of the types that have a positive scale.
_ZERO_POINTS: dict[OperandType, tuple[int, int]] = {
    OperandType.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandType.TENSOR_QUANT8_SYMM: (0, 0),
    OperandType.TENSOR_QUANT16_SYMM: (0, 0),
    OperandType.TENSOR_QUANT16_ASYMM: (0, 65535),
}


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

#: Types of tensors without quantisation.
_PLAIN_TENSORS = frozenset(
    (
        OperandType.TENSOR_FLOAT32,
        OperandType.TENSOR_INT32,
        OperandType.TENSOR_FLOAT16,
        OperandType.TENSOR_BOOL8,
        OperandType.TENSOR_INT64,
    )
)

_CONTROL_FLOW = frozenset((OperationType.IF, OperationType.WHILE))
#: Zero points of operands of extension operations, which check those of TENSOR_QUANT16_SYMM.
_EXTENDED_ZERO_POINTS = {**_ZERO_POINTS, OperandType.TENSOR_QUANT16_SYMM: (-(1 << 15), (1 << 15) - 1)}


def validate_operand_type(operand: Operand, what: object, *, is_extended: bool = False) -> None:
    """Checks type, dimensions and quantisation parameters of an operand, but not its value.

    Args:
        operand: the operand.
        what: its name for messages, or an object that is shown as its name.
        is_extended: whether operations of an extension may use it.

    Raises:
        BadData: a rule of the type is violated.
    """
    kind, dimensions = operand.type, operand.dimensions
    limits = (_EXTENDED_ZERO_POINTS if is_extended else _ZERO_POINTS).get(kind)
    if (
        (limits is not None or kind in _PLAIN_TENSORS)
        and (
            dimensions is None
            or (
                len(dimensions) <= MAX_RANK
                and (not dimensions or min(dimensions) > 0)
                and byte_size(kind, dimensions) <= MAX_OPERAND_BYTES
            )
        )
        and (
            operand.scale == operand.zero_point == 0
            if limits is None
            else 0 < operand.scale <= _MAX_SCALE and limits[0] <= operand.zero_point <= limits[1]
        )
        and operand.channel_quant is None
        and not operand.extension_data
    ):
        return  # The usual case, decided quickly.
    if not kind.is_tensor:
        if dimensions != ():
            raise BadData(f"{what}: {kind.name} is a scalar; it has no dimensions")
    elif dimensions is not None:
        if len(dimensions) > MAX_RANK:
            raise BadData(f"{what}: rank {len(dimensions)}; at most {MAX_RANK} is allowed")
        if any(d < 0 or d > MAX_OPERAND_BYTES for d in dimensions):
            raise BadData(f"{what}: dimensions {list(dimensions)}; they must be from 0 to 2^32 - 1")
        if byte_size(kind, dimensions) > MAX_OPERAND_BYTES:
            raise BadData(f"{what}: {kind.name}{list(dimensions)} has more than 2^32 - 1 bytes")
    _validate_extension_data(operand, what)
    _validate_scale(operand, what, _EXTENDED_ZERO_POINTS if is_extended else _ZERO_POINTS)
    _validate_channel_quant(operand, what)


def _validate_extension_data(operand: Operand, what: object) -> None:
    if not operand.extension_data:
        return
    if extension_of(operand.type) is None:
        raise BadData(
            f"{what}: {operand.type.name} takes no extension data; only types of vendors' extensions do"
        )
    if len(operand.extension_data) > MAX_EXTENSION_DATA_BYTES:
        raise BadData(
            f"{what}: {len(operand.extension_data)} bytes of extension data; "
            f"at most {MAX_EXTENSION_DATA_BYTES} are allowed"
        )


def _validate_scale(
    operand: Operand, what: object, zero_points: Mapping[OperandType, tuple[int, int]]
) -> None:
    kind, scale, zero_point = operand.type, operand.scale, operand.zero_point
    if not abs(scale) <= _MAX_SCALE:
        raise BadData(f"{what}: scale {scale}; it must be a finite float32")
    if extension_of(kind) is not None:
        # Only the vendor's devices know the meaning of these fields.
        if not -(2**31) <= zero_point < 2**31:
            raise BadData(f"{what}: zero point {zero_point}; it must be an int32")
        return
    limits = zero_points.get(kind)
    if limits is not None:
        if scale <= 0:
            raise BadData(f"{what}: scale {scale:g}; {kind.name} needs a positive one")
        low, high = limits
    elif kind is OperandType.TENSOR_INT32:
        if scale < 0:
            raise BadData(f"{what}: scale {scale:g}; {kind.name} needs one of at least 0")
        low, high = 0, 0
    else:
        if scale != 0:
            raise BadData(f"{what}: scale {scale:g}; {kind.name} has none, so it must be 0")
        low, high = 0, 0
    if not low <= zero_point <= high:
        expected = f"{low}" if low == high else f"from {low} to {high}"
        raise BadData(f"{what}: zero point {zero_point}; {kind.name} needs {expected}")


def _validate_channel_quant(operand: Operand, what: object) -> None:
    quant = operand.channel_quant
    if operand.type is not OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        if quant is not None:
            raise BadData(f"{what}: {operand.type.name} takes no channel scales")
        return
    if quant is None:
        raise BadData(f"{what}: {operand.type.name} needs channel scales")
    if operand.dimensions is None or not 0 <= quant.dimension < len(operand.dimensions):
        raise BadData(
            f"{what}: channel dimension {quant.dimension} does not exist in shape {operand.dimensions}"
        )
    length = operand.dimensions[quant.dimension]
    if len(quant.scales) != length or length == 0:
        raise BadData(
            f"{what}: {len(quant.scales)} channel scales; dimension {quant.dimension} has length {length}"
        )
    # The sum detects NaN, which min and max may miss.
    if not (min(quant.scales) > 0 and max(quant.scales) <= _MAX_SCALE and sum(quant.scales) > 0):
        raise BadData(f"{what}: every channel scale must be a positive, finite float32")


def validate_value(operand: Operand, pools: Sequence[Memory], graphs: int, what: str) -> None:
    """Checks that an operand's value agrees with its lifetime and type.

    Args:
        operand: an operand whose type was validated.
        pools: the pools of the model.
        graphs: number of referenced graphs of the model.
        what: name of the operand for messages.

    Raises:
        BadData: it does not agree.
    """
    lifetime = operand.lifetime
    if (lifetime is Lifetime.SUBGRAPH) != (operand.type is OperandType.MODEL):
        raise BadData(f"{what}: type {operand.type.name} cannot have lifetime {lifetime.name}")
    if (operand.subgraph is not None) != (lifetime is Lifetime.SUBGRAPH):
        raise BadData(
            f"{what}: lifetime {lifetime.name} does not go with referenced graph {operand.subgraph}"
        )
    if operand.subgraph is not None and not 0 <= operand.subgraph < graphs:
        raise BadData(f"{what}: referenced graph {operand.subgraph}; the model has {graphs}")
    if operand.value and lifetime is not Lifetime.CONSTANT_COPY:
        raise BadData(f"{what}: lifetime {lifetime.name} does not go with a value of its own")
    if (operand.location is not None) != (lifetime is Lifetime.CONSTANT_POOL):
        raise BadData(f"{what}: lifetime {lifetime.name} does not go with its location in a pool")
    if not lifetime.is_constant:
        return
    if operand.dimensions is None:
        raise BadData(f"{what}: a constant must be fully specified; its rank is not")
    length = len(operand.value)
    if operand.location is not None:
        place = operand.location
        if not 0 <= place.pool < len(pools):
            raise BadData(f"{what}: pool {place.pool}; the model has {len(pools)}")
        if isinstance(pools[place.pool], DeviceBuffer):
            raise BadData(f"{what}: a constant cannot be in device memory; use host memory")
        checked_range(place.offset, place.length, pools[place.pool].size, what)
        length = place.length
    if operand.type is OperandType.TENSOR_STRING:
        _validate_strings(operand, pools, what)
        return
    expected = byte_size(operand.type, operand.dimensions)
    if length != expected:
        raise BadData(
            f"{what}: the value has {length} bytes; {operand.type.name}{list(operand.dimensions)} has {expected}"
        )


def _validate_strings(operand: Operand, pools: Sequence[Memory], what: str) -> None:
    """Checks that a constant's bytes are a buffer of as many strings as its dimensions require."""
    place = operand.location
    source = (
        memoryview(operand.value) if place is None else pools[place.pool].view(place.offset, place.length)
    )
    try:
        decode_strings(source, operand.dimensions or ())
    except BadData as error:
        raise BadData(f"{what}: {error}") from None


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


def type_level(operand_type: OperandType) -> FeatureLevel:
    """Returns the first feature level with an operand type.

    Types of `neurald.tflite` belong to no level; the first one is returned for them.
    """
    if extension_of(operand_type) is not None:
        return FeatureLevel.LEVEL_3
    return _TYPE_LEVELS.get(operand_type, FeatureLevel.LEVEL_1)


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
            raise BadData(f"an operand is listed twice among the {what}s")
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
                raise BadData(f"{what} is read before it is written")
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
                raise BadData(f"referenced graph {target} refers to itself")
            elif state[target] == 0:
                state[target] = 1
                stack.append((target, iter(edges[target])))
    if max(depth) > MAX_DEPTH:
        raise ResourceExhaustedPersistent(
            f"graphs are nested {max(depth)} levels deep; at most {MAX_DEPTH} are allowed"
        )
