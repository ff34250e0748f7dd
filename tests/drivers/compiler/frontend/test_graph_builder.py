"""Graphs of models: constants are folded, and unsupported operations are refused with a reason."""

import numpy as np
import pytest
from support.models.small import add_model
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.analysis.verifier import verify
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model

FLOAT = nd.OperandType.TENSOR_FLOAT32


def test_a_chain_of_operations() -> None:
    graph = build_graph(add_model((2, 3), operations=3))
    verify(graph)
    assert [node.operations for node in graph.nodes] == [(0,), (1,), (2,)]
    one, other = np.full((2, 3), 1, np.float32), np.full((2, 3), 2, np.float32)
    assert (evaluate(graph, [one, other])[0] == 7).all()


def constant_first(*, is_output: bool) -> Model:
    """Returns `constant + constant` as an output, or added to an input."""
    builder = nd.ModelBuilder()
    table = builder.add_operand(FLOAT, (2,))
    builder.set_operand_value(table, np.array([1, 2], np.float32))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    source, twice, output = (builder.add_operand(FLOAT, (2,)) for _ in range(3))
    builder.add_operation(nd.OperationType.ADD, [table, table, activation], [twice])
    builder.add_operation(nd.OperationType.ADD, [source, twice, activation], [output])
    builder.identify_inputs_and_outputs([source], [twice, output] if is_output else [output])
    return builder.finish()


@sweep("is_output", [False, True])
def test_operations_on_constants_are_folded(is_output: bool) -> None:
    graph = build_graph(constant_first(is_output=is_output))
    verify(graph)
    assert len(graph.nodes) == 1
    assert graph.nodes[0].operations == (1,)
    found = evaluate(graph, [np.array([10, 20], np.float32)])
    assert [each.tolist() for each in found] == ([[2, 4]] if is_output else []) + [[12, 24]]


def tanh_model(dimensions: tuple[int, ...]) -> Model:
    builder = nd.ModelBuilder()
    source, output = (builder.add_operand(FLOAT, dimensions) for _ in range(2))
    builder.add_operation(nd.OperationType.TANH, [source], [output])
    builder.identify_inputs_and_outputs([source], [output])
    return builder.finish()


def test_unknown_shapes_are_refused() -> None:
    with pytest.raises(BadData, match=r"operation 0 TANH: .* not known before execution"):
        build_graph(tanh_model((0, 3)))
