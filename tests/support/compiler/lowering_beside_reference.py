"""Compares the interpreted lowering of one operation with its reference."""

from collections.abc import Callable, Sequence

import numpy as np
from support.operations.single_operation import Given, call_of, evaluate_all

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.analysis.verifier import verify
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.complex_numbers import as_numbers, as_pairs
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering import BOUNDED_LOWERINGS, LOWERINGS
from neurald.drivers.compiler.lowering.machinery.complex_parts import lower_parts, moves_complex
from neurald.drivers.compiler.lowering.machinery.table import BoundedValue
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.records import replace


def lowered_all(
    operation_type: OperationType, inputs: Sequence[Given], *outputs: Operand, data: Sequence[int] = (0,)
) -> tuple[Array, ...]:
    """Computes all outputs with the lowering.

    Args:
        operation_type: of the operation.
        inputs: its inputs.
        outputs: its outputs.
        data: indexes of the inputs that are given at execution; the others are constants.
    """
    known = call_of(operation_type, inputs, *outputs)
    operands = [
        replace(each.operand, lifetime=Lifetime.SUBGRAPH_INPUT, value=b"") if index in data else each.operand
        for index, each in enumerate(inputs)
    ]

    def shape_of(index: int) -> tuple[int, ...] | None:
        value = inputs[index].value
        return None if value is None else value.shape

    def value_of(index: int) -> Array | None:
        return None if index in data else inputs[index].value

    call = Call(known.binding, [*operands, *outputs], shape_of, value_of)
    values = {
        index: _value(each.value, f"input {index}", is_constant=index not in data)
        for index, each in enumerate(inputs)
        if each.value is not None
    }
    graph = Graph(inputs=[values[index] for index in data], outputs=[])
    lowered = _lowered(call, Builder(graph, values.__getitem__))
    counts = [each.limit.count for each in lowered if each.limit is not None]
    graph.outputs = [*(each.value for each in lowered), *counts]
    graph.remove_unused()
    verify(graph)
    arrays = [as_pairs(given) for index in data if (given := inputs[index].value) is not None]
    found = iter(evaluate(graph, arrays))
    evaluated = [next(found) for _ in lowered]
    # The first rows exist of a result with a limit.
    existing = [
        each if of.limit is None else each[(slice(None),) * of.limit.dimension + (slice(next(found).item()),)]
        for each, of in zip(evaluated, lowered, strict=True)
    ]
    results = tuple(
        as_numbers(operand.type, result) for result, operand in zip(existing, outputs, strict=True)
    )
    for result, operand in zip(results, outputs, strict=True):
        assert result.dtype == operand.type.dtype
    return results


def _lowered(call: Call, builder: Builder) -> Sequence[BoundedValue]:
    bounded = BOUNDED_LOWERINGS.get(call.binding.type)
    if bounded is not None:
        return bounded(call, builder)
    lowering = LOWERINGS[call.binding.type]
    found = lower_parts(call, builder, lowering) if moves_complex(call) else lowering(call, builder)
    return [BoundedValue(value=each) for each in found]


def _value(array: Array, name: str, *, is_constant: bool) -> Value:
    elements = as_pairs(array)
    return Value(elements.shape, Scalar.of(elements.dtype), elements if is_constant else None, name)


def expect_same(
    operation_type: OperationType,
    inputs: Sequence[Given],
    *outputs: Operand,
    data: Sequence[int] = (0,),
    compare: Callable[[Array, Array], None] = np.testing.assert_array_equal,
) -> None:
    """Asserts that the lowering and the reference give the same results.

    Args:
        operation_type, inputs, outputs, data: see `lowered_all`.
        compare: asserts that a result is close enough to the expected one.
    """
    expected = evaluate_all(operation_type, inputs, *outputs)
    for result, reference in zip(
        lowered_all(operation_type, inputs, *outputs, data=data), expected, strict=True
    ):
        assert result.shape == reference.shape
        compare(result, reference)


def close(result: Array, expected: Array) -> None:
    """Asserts equality: of floats up to rounding, of quantised values up to 1, else exactly."""
    if result.dtype.kind in "fc":
        tolerance = 1e-5 if result.dtype.itemsize > 2 else 2e-3
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    elif result.dtype.itemsize <= 2:
        assert np.abs(result.astype(np.int64) - expected.astype(np.int64)).max(initial=0) <= 1
    else:
        np.testing.assert_array_equal(result, expected)
