"""Explanations describe the graphs: named arguments, values, constants and inner graphs."""

from pathlib import Path

import pytest
from support.models.graphs import chain, model
from support.models.small import pooling

import neurald as nd
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.explain.graph_description import describe_graphs
from neurald.service.demo.digits import MODEL

ADD, MUL, SUB, IF = OperationType.ADD, OperationType.MUL, OperationType.SUB, OperationType.IF
MODELS = Path(__file__).parents[4] / "shared" / "models_fresh" / "tflite"


def test_arguments_have_the_names_of_the_definition() -> None:
    (graph,) = describe_graphs(nd.load_tflite(MODEL))
    first = next(each for each in graph.operations if each.type == "CONV_2D")
    names = [argument.name for argument in first.inputs]
    assert names[:3] == ["input", "filter", "bias"]
    assert [argument.name for argument in first.outputs] == ["output"]
    values = {value.operand: value for value in graph.values}
    by_name = {argument.name: values[argument.operand] for argument in first.inputs}
    meanings = {argument.name: argument.meaning for argument in first.inputs}
    assert by_name["filter"].kind == "constant"
    assert by_name["filter"].bytes
    assert by_name["filter"].content == ""  # too many elements
    assert meanings["activation"] in ("NONE", "RELU", "RELU1", "RELU6")
    assert meanings["filter"] == ""


def test_a_constant_means_what_each_argument_says() -> None:
    """Files have one constant for all arguments of the same number."""
    (graph,) = describe_graphs(pooling())
    (operation,) = graph.operations
    found = {argument.name: (argument.operand, argument.meaning) for argument in operation.inputs[1:]}
    ones = found["stride_width"][0]
    assert found == {
        "padding_scheme": (ones, "SAME"),
        "stride_width": (ones, ""),
        "stride_height": (ones, ""),
        "filter_width": (ones, ""),
        "filter_height": (ones, ""),
        "activation": (ones, "RELU"),
    }
    assert [value.content for value in graph.values if value.operand == ones] == ["1"]


def test_an_operation_without_a_fitting_definition_still_has_names() -> None:
    """The graphs of these tests have no operands that fit their operations."""
    (graph,) = describe_graphs(chain(ADD, MUL))
    assert [operation.type for operation in graph.operations] == ["ADD", "MUL"]
    assert [argument.operand for argument in graph.operations[1].inputs] == [1]
    assert all(argument.name for operation in graph.operations for argument in operation.inputs)


def test_inner_graphs_are_described_too() -> None:
    types = {"c": OperandType.TENSOR_BOOL8}
    inner = [chain(ADD, MUL).main, chain(SUB).main]
    subject = model(
        "c x", [(IF, "c @1 @2 x", "y")], "y", referenced=inner, types=types, dimensions={"c": (1,)}
    )
    graphs = describe_graphs(subject)
    assert [graph.graph for graph in graphs] == [0, 1, 2]
    assert graphs[0].operations[0].graphs == (1, 2)


def test_every_value_that_an_operation_names_is_described() -> None:
    found = sorted(MODELS.glob("*.tflite"))
    if not found:
        pytest.skip(f"{MODELS} is not there")
    for path in found[::6]:
        for graph in describe_graphs(nd.load_tflite(path)):
            known = {value.operand for value in graph.values}
            assert known.issuperset((*graph.inputs, *graph.outputs))
            for operation in graph.operations:
                assert known.issuperset(each.operand for each in (*operation.inputs, *operation.outputs))
