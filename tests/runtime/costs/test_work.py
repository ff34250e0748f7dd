"""The work of operations."""

import numpy as np
import pytest
from support.models.small import add_model

import neurald as nd
from neurald.runtime.costs.micro_models import micro_models
from neurald.runtime.costs.work import host_multiplications_per_s, kind_of, operand_bytes, work_of


def test_products_count_multiplications_and_others_their_elements() -> None:
    model = add_model((64, 64))
    (addition,) = model.main.operations
    assert work_of(model.main, addition) == 16 * 3 * 64 * 64
    kind = kind_of(model.main, addition)
    assert (kind.operation, kind.operand) == ("ADD", "TENSOR_FLOAT32")
    assert not kind.is_product
    expected = {
        "CONV_2D": 12 * 12 * 16 * 16 * 9,
        "DEPTHWISE_CONV_2D": 16 * 16 * 16 * 9,
        "FULLY_CONNECTED": 256 * 256,
    }
    for operation, _, builders in micro_models():
        graph = builders[0]().model.main
        if operation.name in expected:
            assert work_of(graph, graph.operations[0]) == expected[operation.name]
            assert kind_of(graph, graph.operations[0]).is_product


@pytest.mark.parametrize(
    ("shape", "elements"), [((0, 8), 8), ((2, 0), 128), ((0, 0, 3), 192), (None, 1024), ((), 1)]
)
def test_open_dimensions_have_a_usual_length(shape: tuple[int, ...] | None, elements: int) -> None:
    builder = nd.ModelBuilder()
    tensor = nd.OperandType.TENSOR_FLOAT32
    inputs, outputs = (builder.add_operand(tensor, () if shape is None else shape) for _ in range(2))
    builder.add_operation(nd.OperationType.RELU, [inputs], [outputs])
    builder.identify_inputs_and_outputs([inputs], [outputs])
    if shape == ():
        return  # Android's rank 0 is an unknown rank
    graph = builder.finish().main
    assert operand_bytes(graph, graph.inputs[0]) == 4 * elements
    assert work_of(graph, graph.operations[0]) == 16 * 2 * elements


def test_the_speed_of_the_host_is_measured_once() -> None:
    assert host_multiplications_per_s() == host_multiplications_per_s() > 1e6
    assert np.isfinite(host_multiplications_per_s())
