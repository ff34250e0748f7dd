"""Graphs of models: constants are folded, and unsupported operations are refused with a reason."""

import numpy as np
import pytest
from support.models.small import add_model
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.analysis.verifier import verify
from neurald.drivers.compiler.frontend.graph_builder import build_graph, scalar_of, supported_operations
from neurald.drivers.compiler.ir.builder import Unsupported
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
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


def test_a_device_may_refuse_an_operation() -> None:
    seen: list[int] = []

    def unsupported_reason(graph: Graph) -> str:
        verify(Graph(inputs=list(graph.nodes[0].inputs), outputs=graph.outputs, nodes=graph.nodes))
        seen.append(len(graph.nodes))
        return "too large" if len(seen) == 2 else ""

    first, second = supported_operations(add_model(operations=2), unsupported_reason)
    assert (first.ok, second.ok, second.reason) == (True, False, "too large")
    assert seen == [1, 1]


def lstm_model(*, is_gate_computed: bool) -> Model:
    """Returns an LSTM; the weights of its input gate are constant or computed by an operation."""
    builder = nd.ModelBuilder()

    def constant(value: object, dimensions: tuple[int, ...] = (), kind: nd.OperandType = FLOAT) -> int:
        index = builder.add_operand(kind, dimensions)
        builder.set_operand_value(index, value)
        return index

    def matrix() -> int:
        return constant(np.ones((2, 2), np.float32), (2, 2))

    source, weights, output = (builder.add_operand(FLOAT, (2, 2)) for _ in range(3))
    gate = matrix()
    if is_gate_computed:
        gate = builder.add_operand(FLOAT, (2, 2))
        builder.add_operation(nd.OperationType.TANH, [weights], [gate])
    states = [constant(np.zeros((2, 2), np.float32), (2, 2)) for _ in range(2)]
    biases = [constant(np.zeros(2, np.float32), (2,)) for _ in range(4)]
    omitted = [constant(None, (2,)) for _ in range(3)]
    projection = [constant(None, (2, 2)), constant(None, (2,))]
    settings = [
        constant(4, kind=nd.OperandType.INT32),
        *(constant(0.0, kind=nd.OperandType.FLOAT32) for _ in range(2)),
    ]
    matrices = [matrix() for _ in range(7)]
    scratch = builder.add_operand(FLOAT, (2, 8))
    after = [builder.add_operand(FLOAT, (2, 2)) for _ in range(2)]
    builder.add_operation(
        nd.OperationType.LSTM,
        [source, gate, *matrices, *omitted, *biases, *projection, *states, *settings],
        [scratch, *after, output],
    )
    builder.identify_inputs_and_outputs([source, weights] if is_gate_computed else [source], [output])
    return builder.finish()


@pytest.mark.parametrize("is_gate_computed", [False, True])
def test_a_verdict_holds_for_every_step(is_gate_computed: bool) -> None:
    model = lstm_model(is_gate_computed=is_gate_computed)
    *others, verdict = supported_operations(model)
    assert all(other.ok for other in others)
    # In a step without the operation that computes it, the gate is an input of the step.
    assert verdict.ok is not is_gate_computed
    assert ("input_to_input_weights" in verdict.reason) is is_gate_computed


def test_types_that_kernels_support() -> None:
    assert scalar_of(nd.OperandType.TENSOR_QUANT8_ASYMM) is Scalar.UINT8
    assert scalar_of(nd.OperandType.BOOL) is Scalar.BOOL
    assert scalar_of(nd.OperandType.TENSOR_FLOAT16) is Scalar.FLOAT16
    with pytest.raises(Unsupported, match="graph operands"):
        scalar_of(nd.OperandType.MODEL)
