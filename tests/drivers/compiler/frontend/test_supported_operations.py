"""Verdicts on operations hold for every step that may include them."""

import numpy as np
import pytest
from support.models.small import add_model

import neurald as nd
from neurald.drivers.compiler.analysis.verifier import verify
from neurald.drivers.compiler.frontend.supported_operations import supported_operations
from neurald.drivers.compiler.ir.graph import Graph
from neurald.hal.model.model import Model

FLOAT = nd.OperandType.TENSOR_FLOAT32


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
