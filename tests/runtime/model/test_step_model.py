"""Models of steps: the order of inputs and outputs, constants, unused operands, and referenced
graphs.
"""

from collections.abc import Sequence

import numpy as np
from support.models.control_flow import ADD, MUL, Graph, arithmetic, below, branching, counting, loop
from support.models.graphs import model

import neurald as nd
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime
from neurald.hal.validation.model_rules import validate_model
from neurald.runtime.model.boundary import boundaries
from neurald.runtime.model.branches import graph_of
from neurald.runtime.model.step_model import StepModel, step_model

Op = nd.OperationType


def made(whole: Model, operations: Sequence[int], number: int = 0) -> StepModel:
    (boundary,) = boundaries(graph_of(whole, number), [operations])
    return step_model(whole, number, operations, boundary)


def names(whole: Model, indexes: Sequence[int]) -> str:
    return " ".join(whole.main.operands[index].name for index in indexes)


def test_order_of_ends() -> None:
    """Inputs are the model's inputs, temporaries, then the model's outputs; outputs are the
    model's, then temporaries.
    """
    whole = model(
        "x y",
        [
            (Op.RELU, "x", "t1"),
            (Op.RELU, "y", "out1"),
            (Op.RELU, "t1", "t2"),
            (Op.RELU, "out1", "t3"),
            (Op.RELU, "y", "out2"),
            (Op.RELU, "t2", "out3"),
            (Op.RELU, "t3", "out4"),
        ],
        "out1 out2 out3 out4",
    )
    middle = made(whole, (2, 3, 4))
    assert names(whole, middle.inputs) == "y t1 out1"
    assert names(whole, middle.outputs) == "out2 t2 t3"
    assert names(middle.model, middle.model.main.inputs) == "y t1 out1"
    assert names(middle.model, middle.model.main.outputs) == "out2 t2 t3"
    validate_model(middle.model)


def test_a_model_output_that_is_read_inside_too() -> None:
    whole = model("x", [(Op.RELU, "x", "a"), (Op.RELU, "a", "b")], "a b")
    step = made(whole, (0, 1))
    assert names(whole, step.outputs) == "a b"
    validate_model(step.model)


def test_unused_operands_are_dropped() -> None:
    whole = model("x y", [(Op.RELU, "x", "a"), (Op.RELU, "y", "b")], "a b", relaxed=True)
    step = made(whole, (1,))
    assert [operand.name for operand in step.model.main.operands] == ["y", "b"]
    assert step.model.relaxed


def test_what_only_the_step_reads_is_a_temporary() -> None:
    whole = model("x", [(Op.RELU, "x", "a"), (Op.RELU, "a", "b"), (Op.RELU, "b", "c")], "c")
    step = made(whole, (0, 1))
    lifetimes = {operand.name: operand.lifetime for operand in step.model.main.operands}
    assert lifetimes == {
        "x": Lifetime.SUBGRAPH_INPUT,
        "a": Lifetime.TEMPORARY_VARIABLE,
        "b": Lifetime.SUBGRAPH_OUTPUT,
    }


def test_constants_are_referred_to() -> None:
    pools = [HostMemory(np.arange(4, dtype=np.float32)) for _ in range(3)]
    graph = Graph()
    value = source = graph.value(shape=(4,))
    for pool in pools:
        constant = graph.value(shape=(4,))
        graph.builder.set_operand_value_from_memory(constant, pool, 0, 16)
        value = graph.binary(ADD, value, constant, graph.value(shape=(4,)))
    whole = graph.finish([source], [value])
    step = made(whole, (2,))
    assert step.model.pools == (pools[2],)
    values = [step.model.constant(operand) for operand in step.model.main.operands]
    assert sum(v is not None and v.size == 4 for v in values) == 1
    small = arithmetic(ADD, 3)
    (kept,) = (
        o
        for o in made(small, (0,)).model.main.operands
        if o.type is nd.OperandType.TENSOR_FLOAT32 and o.value
    )
    assert any(operand.value is kept.value for operand in small.main.operands)


def test_a_step_without_inputs_is_a_model() -> None:
    graph = Graph()
    total = graph.binary(ADD, graph.constant([1]), graph.constant([2]), graph.value(shape=(1,)))
    source = graph.value(shape=(1,))
    result = graph.binary(MUL, source, total, graph.value(shape=(1,)))
    whole = graph.finish([source], [result])
    step = made(whole, (0,))
    assert step.inputs == ()
    validate_model(step.model)


def test_a_step_whose_results_nobody_reads_has_them_as_outputs() -> None:
    lines = [(Op.RELU, "x", "a"), (Op.RELU, "a", "b"), (Op.RELU, "a", "c"), (Op.RELU, "x", "out")]
    whole = model("x", lines, "out")
    step = made(whole, (0, 1, 2))
    assert names(whole, step.outputs) == "b c"
    validate_model(step.model)


def test_graphs_that_control_flow_refers_to_go_along() -> None:
    graph = Graph()
    counter, value = graph.value(shape=(1,)), graph.value()
    condition, other = graph.value(nd.OperandType.TENSOR_BOOL8, (1,)), graph.value()
    chosen = graph.value()
    graph.builder.add_operation(
        Op.IF,
        [condition, graph.model(arithmetic(ADD, 1)), graph.model(arithmetic(ADD, 2)), other],
        [chosen],
    )
    ends = [graph.value(shape=(1,)), graph.value()]
    graph.builder.add_operation(
        Op.WHILE,
        [graph.model(below(3, extra=1)), graph.model(counting(1, 2)), counter, value],
        ends,
    )
    whole = graph.finish([condition, other, counter, value], [chosen, *ends])
    position = next(n for n, o in enumerate(whole.main.operations) if o.type is Op.WHILE)
    step = made(whole, (position,))
    assert len(whole.referenced) == 4
    assert len(step.model.referenced) == 2
    validate_model(step.model)
    inside = made(whole, (0,), number=1)
    assert inside.model.referenced == ()
    validate_model(inside.model)


def test_graphs_of_graphs_go_along() -> None:
    inner = branching(arithmetic(ADD, 1), arithmetic(MUL, 2))
    outer = branching(arithmetic(ADD, 5), arithmetic(ADD, 6))
    graph = Graph()
    condition, value = graph.value(nd.OperandType.TENSOR_BOOL8, (1,)), graph.value()
    results = [graph.value(), graph.value()]
    graph.builder.add_operation(
        Op.IF, [condition, graph.model(outer), graph.model(inner), condition, value], [results[0]]
    )
    graph.builder.add_operation(Op.RELU, [results[0]], [results[1]])
    whole = graph.finish([condition, value], [results[1]])
    step = made(whole, (0,))
    assert len(step.model.referenced) == len(whole.referenced)
    validate_model(step.model)


def test_state_is_no_matter_of_steps() -> None:
    whole = loop(below(3, extra=1), counting(1, 2))
    assert made(whole, (0,)).model.state == ()
