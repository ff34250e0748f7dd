"""A step model as a graph: every operation by its lowering, and what only depends on constants computed right away.

Whether a device supports an operation is found by lowering it, so that there is no second list that could say otherwise.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed, only_moves
from neurald.drivers.compiler.frontend.shape_specialization import assumed, is_specified
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.complex_numbers import as_numbers, as_pairs, is_complex, value_shape
from neurald.drivers.compiler.ir.graph import Graph, Shape, Value
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.lowering import LOWERINGS
from neurald.hal.accounting.account import charge, reserve
from neurald.hal.device import Verdict
from neurald.hal.errors import BadData
from neurald.hal.model.types import Lifetime, Model, Operand, OperandType, byte_size
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.arithmetic.quantized import is_quantized
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.operations.machinery.working_memory import reference_working_bytes
from neurald.hal.validation.shape_inference import at_operation, declared_shape, infer_shapes

#: Values that an operation computes, which are inputs of a step if another step computes them.
_COMPUTED = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)

#: What compiling takes for each operation, its code included.
_OPERATION_BYTES = 32 << 10

#: Says why a device does not take a node's value or an operation; empty: it does.
Objection = Callable[[Graph], str]

#: Computes the outputs of a graph, which it may change, from its inputs as the compiler's code would, bit for bit.
EvaluateGraph = Callable[[Graph, Sequence[Array]], Sequence[Array]]


def build_graph(
    model: Model,
    input_shapes: Mapping[int, Shape] | None = None,
    evaluate: EvaluateGraph | None = None,
) -> Graph:
    """The graph of a model's main graph, all of whose operations have verdicts that are ok.

    Args:
        model: valid.
        input_shapes: of inputs, by operand, where the model leaves them open.
        evaluate: computes operations on constants that do arithmetic with floats, so that they give what they would give in
            another step. References compute them where it is left out.

    Raises:
        BadData: an operation has no lowering, or contradicts its arguments.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account may not have the memory that this takes.
    """
    main = model.main
    constants_bytes = sum(pool.size for pool in model.pools)
    charge(constants_bytes + _OPERATION_BYTES * len(main.operations), "compiling a model")
    bindings = [DEFINITIONS[each.type].bind(each, main.operands) for each in main.operations]
    shapes = infer_shapes(model, main, bindings, input_shapes)
    known: dict[int, Array] = {}
    for index, operand in enumerate(main.operands):
        array = model.constant(operand)
        if array is not None:
            known[index] = array
    given = frozenset(known)
    values: dict[int, Value] = {}

    def value_of(index: int) -> Value:
        if index not in values:
            values[index] = _value(main.operands[index], shapes.get(index), known.get(index), index)
        return values[index]

    graph = Graph(inputs=[], outputs=[])
    builder = Builder(graph, value_of)
    for position, (operation, binding) in enumerate(zip(main.operations, bindings, strict=True)):
        call = Call(binding, main.operands, shapes.get, known.get, referenced=model.referenced)
        builder.begin(position)
        try:
            results_known = None
            if evaluate is not None and _is_foldable(call, known) and _has_reals(call):
                results_known = _computed(call, main.operands, shapes, known, given, evaluate)
            if results_known is None:
                results_known = folded(call, known)
            if results_known is not None:
                known.update(zip(operation.outputs, results_known, strict=True))
                shapes.update((i, a.shape) for i, a in zip(operation.outputs, results_known, strict=True))
                continue
            for index, shape in zip(operation.outputs, _output_shapes(call), strict=True):
                shapes[index] = shape
            results = _lowered(call, builder)
        except Unsupported as error:
            raise at_operation(main, position, BadData(str(error))) from None
        for index, result in zip(operation.outputs, results, strict=True):
            _require(result, main.operands[index], shapes[index], call)
            result.name = result.name or main.operands[index].name or f"operand {index}"
            values[index] = result
            if result.constant is not None:
                known[index] = as_numbers(main.operands[index].type, result.constant)
    try:
        graph.inputs = [value_of(index) for index in main.inputs]
        graph.outputs = [value_of(index) for index in main.outputs]
    except Unsupported as error:
        raise BadData(str(error)) from None
    graph.remove_unused()
    return graph


def supported_operations(model: Model, objection: Objection = lambda _: "") -> tuple[Verdict, ...]:
    """Returns for each operation of the main graph whether it has a lowering, from what the model declares.

    A verdict holds for every step that the operation may become a part of: what another operation computes may be an
    input there, of which the step's model does not say that it is always given.

    Where inputs have unspecified dimensions, for those that `shape_specialization.assumed` takes.

    Args:
        model: valid.
        objection: what a device says of the graph of a single operation that it would have to compute.
    """
    if not is_specified(model):
        model = assumed(model)
    operands = [
        replace(operand, lifetime=Lifetime.SUBGRAPH_INPUT) if operand.lifetime in _COMPUTED else operand
        for operand in model.main.operands
    ]
    return tuple(
        Verdict(ok=not reason, reason=reason)
        for reason in (
            _reason(model, operands, position, objection) for position in range(len(model.main.operations))
        )
    )


def _reason(model: Model, operands: Sequence[Operand], position: int, objection: Objection) -> str:
    operation = model.main.operations[position]
    definition = DEFINITIONS.get(operation.type)
    if definition is None or operation.type not in LOWERINGS:
        return f"{operation.type.name} has no kernel"

    def value_of(index: int) -> Value:
        operand = operands[index]
        return _value(operand, declared_shape(operand), model.constant(operand), index)

    graph = Graph(inputs=[], outputs=[])
    try:
        call = Call(
            definition.bind(operation, operands),
            operands,
            lambda index: declared_shape(operands[index]),
            lambda index: model.constant(operands[index]),
            referenced=model.referenced,
        )
        shapes = _output_shapes(call)
        results = _lowered(call, Builder(graph, value_of))
        for index, result, shape in zip(operation.outputs, results, shapes, strict=True):
            _require(result, operands[index], shape, call)
    except (Unsupported, BadData) as error:
        return str(error)
    graph.outputs = list(results)
    return objection(graph)


def _lowered(call: Call, builder: Builder) -> Sequence[Value]:
    lowering = LOWERINGS.get(call.binding.type)
    if lowering is None:
        raise Unsupported(f"{call.binding.type.name} has no kernel")
    try:
        return lowering(call, builder)
    except UnknownValue as error:
        raise Unsupported(f"its argument {error} is not known before execution") from None


def _output_shapes(call: Call) -> tuple[Shape, ...]:
    try:
        return DEFINITIONS[call.binding.type].output_shapes(call)
    except UnknownValue as error:
        raise Unsupported(
            f"the shape of its result follows from {error}, which is not known before execution"
        ) from None


def folded(call: Call, known: Mapping[int, Array]) -> Sequence[Array] | None:
    """The results of an operation on constants by its reference, None where it has other inputs."""
    binding = call.binding
    if not _is_foldable(call, known):
        return None
    definition = DEFINITIONS[binding.type]
    try:
        shapes = definition.output_shapes(call)
        kinds = [operand.type for name in binding.outputs for operand in call.operands(name)]
        sizes = [byte_size(kind, shape) for kind, shape in zip(kinds, shapes, strict=True)]
        what = f"the results of {binding.type.name} on constants"
        charge(sum(sizes), what)
        inputs = [known[index] for indexes in binding.inputs.values() for index in indexes if index in known]
        with reserve(reference_working_bytes(inputs, shapes), what):
            return [
                np.ascontiguousarray(result, kind.dtype).reshape(shape)
                for result, kind, shape in zip(definition.reference(call), kinds, shapes, strict=True)
            ]
    except UnknownValue:
        return None


def _is_foldable(call: Call, known: Mapping[int, Array]) -> bool:
    """Whether all inputs of an operation are known, and it gives the same results each time."""
    binding = call.binding
    return not DEFINITIONS[binding.type].is_random and all(
        index in known for name, indexes in binding.inputs.items() if call.has(name) for index in indexes
    )


def _has_reals(call: Call) -> bool:
    """Whether an input or output stands for real numbers."""
    names = (*(name for name in call.binding.inputs if call.has(name)), *call.binding.outputs)
    return any(
        is_quantized(operand) or (operand.type.is_tensor and operand.type.dtype.kind == "f")
        for name in names
        for operand in call.operands(name)
    )


def _computed(
    call: Call,
    operands: Sequence[Operand],
    shapes: Mapping[int, Shape],
    known: Mapping[int, Array],
    given: Collection[int],
    evaluate: EvaluateGraph,
) -> Sequence[Array] | None:
    """The results of an operation on constants by its lowering.

    What other operations have computed counts as an input, as it would be one if they ran in another step.

    Args:
        call: the operation.
        operands: of its graph.
        shapes, known: of operands.
        given: the operands that are constants of the model.
        evaluate: computes the results.

    Returns:
        None where the operation has no lowering, or where that does no arithmetic with floats: references give the same then.
    """
    part = Graph(inputs=[], outputs=[])
    values: dict[int, Value] = {}
    arrays: list[Array] = []

    def value_of(index: int) -> Value:
        if index not in values:
            value = values[index] = _value(operands[index], shapes.get(index), known.get(index), index)
            if index not in given and value.constant is not None:
                part.inputs.append(value)
                arrays.append(value.constant)
                value.constant = None
        return values[index]

    try:
        part.outputs = list(_lowered(call, Builder(part, value_of)))
    except Unsupported:
        return None
    if all(only_moves(node) for node in part.nodes):
        return None
    try:
        results = evaluate(part, arrays)
    except RequirementFailed:
        # The reference says what is wrong.
        return None
    kinds = [operand.type for name in call.binding.outputs for operand in call.operands(name)]
    return [as_numbers(kind, result) for kind, result in zip(kinds, results, strict=True)]


def _value(operand: Operand, shape: Shape | None, array: Array | None, index: int) -> Value:
    """An operand as a value.

    Raises:
        Unsupported: there are no kernels for its type, or it is too early to know its shape.
    """
    kind = scalar_of(operand.type)
    if shape is None:
        raise Unsupported(f"the shape of operand {index} is not known before execution")
    if operand.lifetime is Lifetime.NO_VALUE:
        raise Unsupported(f"operand {index} is omitted")
    elements = None if array is None else as_pairs(array)
    return Value(value_shape(operand.type, shape), kind, elements, operand.name or f"operand {index}")


def scalar_of(kind: OperandType) -> Scalar:
    """The numbers that an operand of that type holds; of complex ones, those that they are pairs of.

    Raises:
        Unsupported: none that kernels know.
    """
    if kind is OperandType.MODEL:
        raise Unsupported("graphs as operands have no kernel")
    if is_complex(kind):
        return Scalar.FLOAT32
    try:
        return Scalar.of(kind.dtype)
    except KeyError:
        raise Unsupported(f"{kind.name} has no kernel") from None


def _require(result: Value, operand: Operand, shape: Shape, call: Call) -> None:
    """What a lowering promises; if it breaks that, it is wrong, whatever the model."""
    expected, stored = scalar_of(operand.type), value_shape(operand.type, shape)
    if result.shape != stored or result.type is not expected:
        raise AssertionError(
            f"the lowering of {call.binding.type.name} gives {result.type.name} {list(result.shape)}; "
            f"{expected.name} {list(stored)} is expected"
        )
