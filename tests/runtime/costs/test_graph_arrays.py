"""Facts about operands and operations as arrays are those of each of them."""

import random

import pytest
from support.models.graphs import model, random_graph

import neurald as nd
from neurald.hal.model.graph import Operation
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.runtime.costs.graph_arrays import GraphArrays
from neurald.runtime.costs.work import elements_of, operand_bytes

T = nd.OperationType


@pytest.mark.parametrize("seed", range(10))
def test_facts_are_those_of_each_operand(seed: int) -> None:
    graph = random_graph(random.Random(seed), 40, (T.ADD, T.CONV_2D, T.TANH))
    found = GraphArrays.of(graph)
    assert found.elements.tolist() == [elements_of(each.dimensions) for each in graph.operands]
    assert found.bytes.tolist() == [operand_bytes(graph, n) for n in range(len(graph.operands))]
    written = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT, Lifetime.SUBGRAPH_INPUT)
    assert found.is_exchanged.tolist() == [each.lifetime in written for each in graph.operands]
    assert [found.kinds[n] for n in found.kind_numbers] == [
        (each.type, graph.operands[each.inputs[0]].type) for each in graph.operations
    ]
    assert found.is_matrix.all()
    readers, read = found.inputs
    assert list(zip(readers.tolist(), read.tolist(), strict=True)) == [
        (n, operand) for n, each in enumerate(graph.operations) for operand in each.inputs
    ]
    writers, written_operands = found.outputs
    assert list(zip(writers.tolist(), written_operands.tolist(), strict=True)) == [
        (n, operand) for n, each in enumerate(graph.operations) for operand in each.outputs
    ]


def test_constants_are_not_read_for_each_element() -> None:
    graph = model("x", [(T.ADD, "x one", "y")], "y").main
    found = GraphArrays.of(graph)
    names = [operand.name for operand in graph.operands]
    assert [names[n] for n in found.is_read.nonzero()[0]] == ["x", "y"]


def test_a_graph_without_operations() -> None:
    subject: Model = model("x", [], "x")
    found = GraphArrays.of(subject.main)
    assert found.inputs[0].size == found.outputs[0].size == 0
    assert found.kind_numbers.size == len(found.kinds) == 0


def test_kinds_of_operations_with_repeated_inputs_without_inputs_and_without_operands() -> None:
    types = {"i": nd.OperandType.TENSOR_INT32}
    lines = [(T.MUL, "i x i", "y"), (T.ADD, "", "i"), (T.ADD, "x x", "z")]
    graph = model("x", lines, "y z", types=types).main
    graph = replace(graph, operations=(*graph.operations, Operation(type=T.ADD, inputs=(), outputs=())))
    found = GraphArrays.of(graph)
    kinds = [(T.MUL, nd.OperandType.TENSOR_INT32), (T.ADD, nd.OperandType.TENSOR_INT32)]
    kinds += [(T.ADD, nd.OperandType.TENSOR_FLOAT32), (T.ADD, nd.OperandType.FLOAT32)]
    assert [found.kinds[n] for n in found.kind_numbers] == kinds
