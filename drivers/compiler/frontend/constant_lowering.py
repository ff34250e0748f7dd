"""Results of operations on constants, computed bit for bit as compiled code does."""

from collections.abc import Callable, Collection, Mapping, Sequence

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed, only_moves
from neurald.drivers.compiler.frontend.constant_operations import fold_constant_operation, is_foldable
from neurald.drivers.compiler.frontend.operand_values import value_of_operand
from neurald.drivers.compiler.frontend.operation_lowering import lowered
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.complex_numbers import as_numbers
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.hal.model.graph import Operand
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Array, Call

#: Computes a graph's outputs, bit for bit as compiled code does. It may change the graph.
EvaluateGraph = Callable[[Graph, Sequence[Array]], Sequence[Array]]


def constant_results(
    call: Call,
    operands: Sequence[Operand],
    shapes: Mapping[int, Shape],
    known: Mapping[int, Array],
    given: Collection[int],
    evaluate: EvaluateGraph | None,
) -> Sequence[Array] | None:
    """Returns the results of an operation on constants, or None if it has other inputs.

    Operations on real numbers are computed by their lowering, if `evaluate` is given. See
    `_computed_by_lowering` for the arguments.
    """
    if evaluate is not None and is_foldable(call, known) and _has_reals(call):
        results = _computed_by_lowering(call, operands, shapes, known, given, evaluate)
        if results is not None:
            return results
    return fold_constant_operation(call, known)


def _has_reals(call: Call) -> bool:
    """Returns True if an input or output represents real numbers."""
    names = (*(name for name in call.binding.inputs if call.has(name)), *call.binding.outputs)
    return any(
        is_quantized(operand) or (operand.type.is_tensor and operand.type.dtype.kind == "f")
        for name in names
        for operand in call.operands(name)
    )


def _computed_by_lowering(
    call: Call,
    operands: Sequence[Operand],
    shapes: Mapping[int, Shape],
    known: Mapping[int, Array],
    given: Collection[int],
    evaluate: EvaluateGraph,
) -> Sequence[Array] | None:
    """Computes an operation on constants by its lowering.

    Constants that other operations computed are inputs of the evaluated graph, so that the result
    is the same as if those operations ran in another step.

    Args:
        call: the operation.
        operands: the operands of its graph.
        shapes: the known shapes of operands, by index.
        known: the known values of operands, by index.
        given: the indices of operands that are constants of the model.
        evaluate: computes the results.

    Returns:
        The results; None if the operation has no lowering, violates a requirement, or does no float
        arithmetic. The reference must then compute it.
    """
    graph = Graph(inputs=[], outputs=[])
    values: dict[int, Value] = {}
    arrays: list[Array] = []

    def value_of(index: int) -> Value:
        if index not in values:
            value = value_of_operand(operands[index], shapes.get(index), known.get(index), index, None)
            values[index] = value
            if index not in given and value.constant is not None:
                graph.inputs.append(value)
                arrays.append(value.constant)
                value.constant = None
        return values[index]

    try:
        graph.outputs = list(lowered(call, Builder(graph, value_of)))
    except Unsupported:
        return None
    if all(only_moves(node) for node in graph.nodes):
        return None
    try:
        results = evaluate(graph, arrays)
    except RequirementFailed:
        # The reference raises the error for the violated requirement.
        return None
    kinds = [operand.type for name in call.binding.outputs for operand in call.operands(name)]
    return [as_numbers(kind, result) for kind, result in zip(kinds, results, strict=True)]
