"""Summaries of models."""

import numpy as np
from support.models.control_flow import ADD, MUL, arithmetic, branching
from support.models.small import add_model

import neurald as nd
from neurald.service.inspection.summary import OPEN, is_open, summarize

FLOAT32 = nd.OperandType.TENSOR_FLOAT32


def chain(shape: tuple[int, ...], length: int) -> nd.Model:
    """Returns sums of an input and a constant, each of the one before."""
    builder = nd.ModelBuilder()
    first = value = builder.add_operand(FLOAT32, shape)
    constant = builder.add_operand(FLOAT32, (1,))
    builder.set_operand_value(constant, np.ones(1, np.float32))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    for _ in range(length):
        result = builder.add_operand(FLOAT32, shape)
        builder.add_operation(nd.OperationType.ADD, [value, constant, activation], [result])
        value = result
    builder.identify_inputs_and_outputs([first], [value])
    return builder.finish()


def test_values_and_operations() -> None:
    found = summarize(add_model((2, 3)))
    assert [(each.type, each.shape) for each in found.inputs] == [("TENSOR_FLOAT32", (2, 3))] * 2
    (add,) = found.graphs[0].operations
    assert (add.type, add.position, add.graphs) == ("ADD", 0, ())
    assert [each.shape for each in add.inputs] == [(2, 3), (2, 3), ()]
    assert found.operations == {"ADD": 1}
    assert found.constants == {}, "an activation is not a tensor"


def test_values_share_memory() -> None:
    found = summarize(chain((64, 16), 10))
    size = 64 * 16 * 4
    assert found.largest_bytes == size
    assert found.arena_bytes == 2 * size, "one is read while the next is written"
    assert found.constants == {"TENSOR_FLOAT32": (1, 4)}


def test_open_shapes() -> None:
    found = summarize(chain((0, 16), 2))
    (given,) = found.inputs
    assert given.shape == (OPEN, 16)
    assert is_open(given)
    assert (found.arena_bytes, found.largest_bytes) == (None, None)


def test_what_depends_on_constants_needs_no_memory() -> None:
    builder = nd.ModelBuilder()
    stored = builder.add_operand(nd.OperandType.TENSOR_FLOAT16, (1000,))
    builder.set_operand_value(stored, np.ones(1000, np.float16))
    weights = builder.add_operand(FLOAT32, (1000,))
    builder.add_operation(nd.OperationType.CAST, [stored], [weights])
    x, y = (builder.add_operand(FLOAT32, (1000,)) for _ in range(2))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(nd.OperationType.MUL, [x, weights, activation], [y])
    builder.identify_inputs_and_outputs([x], [y])
    assert summarize(builder.finish()).arena_bytes == 4032, "4,000 bytes, padded"


def test_quantised_values() -> None:
    builder = nd.ModelBuilder()
    kind = nd.OperandType.TENSOR_QUANT8_ASYMM
    x, y = (builder.add_operand(kind, (4,), scale=0.5, zero_point=3) for _ in range(2))
    builder.add_operation(nd.OperationType.RELU, [x], [y])
    builder.identify_inputs_and_outputs([x], [y])
    (given,) = summarize(builder.finish()).inputs
    assert (given.scale, given.zero_point, given.channels) == (0.5, 3, None)


def test_graphs_that_operations_run() -> None:
    found = summarize(branching(arithmetic(ADD, 1), arithmetic(MUL, 2)))
    (branch,) = found.graphs[0].operations
    assert (branch.type, branch.graphs) == ("IF", (1, 2))
    assert [graph.operations[0].type for graph in found.graphs] == ["IF", "ADD", "MUL"]
    assert found.operations == {"IF": 1, "ADD": 1, "MUL": 1}
