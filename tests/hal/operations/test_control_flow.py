"""IF and WHILE: branches, loops, nesting, time limits, and graphs that do not fit."""

import time

import numpy as np
import pytest
from support.models.control_flow import ADD, BOOL, MUL, Graph, T, arithmetic, below, branching, counting, loop
from support.sweeps import sweep

import neurald as nd


def run(model: nd.Model, *arrays: object) -> list["np.ndarray[tuple[int, ...], np.dtype[np.generic]]"]:
    return nd.CompilationBuilder(model).finish().run(*arrays)


def test_if_runs_one_branch() -> None:
    model = branching(arithmetic(ADD, 10), arithmetic(MUL, 10))
    assert len(model.referenced) == 2
    for condition, expected in ((True, [13, 14]), (False, [30, 40])):
        (result,) = run(model, np.array([condition]), np.array([3, 4], np.float32))
        np.testing.assert_array_equal(result, expected)


def test_nested_if() -> None:
    def outer(inner: nd.Model) -> nd.Model:
        """(condition, x) -> IF condition THEN inner(condition, x) ELSE x * 2."""
        double = Graph()
        ignored, source = double.value(BOOL, (1,)), double.value()
        doubled = double.binary(MUL, source, double.constant([2]), double.value())
        graph = Graph()
        condition, value = graph.value(BOOL, (1,)), graph.value()
        output = graph.value()
        graph.builder.add_operation(
            nd.OperationType.IF,
            [
                condition,
                graph.model(inner),
                graph.model(double.finish([ignored, source], [doubled])),
                condition,
                value,
            ],
            [output],
        )
        return graph.finish([condition, value], [output])

    model = outer(outer(branching(arithmetic(ADD, 1), arithmetic(ADD, 2))))
    for condition, expected in ((True, [6, 7]), (False, [10, 12])):
        (result,) = run(model, np.array([condition]), np.array([5, 6], np.float32))
        np.testing.assert_array_equal(result, expected)


def test_one_model_may_be_referred_to_twice() -> None:
    branch = arithmetic(ADD, 1)
    model = branching(branch, branch)
    assert len(model.referenced) == 1
    (result,) = run(model, np.array([False]), np.zeros(2, np.float32))
    np.testing.assert_array_equal(result, [1, 1])


def test_constants_of_referenced_models_keep_their_pools() -> None:
    values = np.arange(100, dtype=np.float32)

    def adding(factor: int) -> nd.Model:
        graph = Graph()
        source = graph.value(shape=(100,))
        constant = graph.value(shape=(100,))
        graph.builder.set_operand_value(constant, values * factor)
        return graph.finish([source], [graph.binary(ADD, source, constant, graph.value(shape=(100,)))])

    model = branching(adding(1), adding(3), (100,))
    assert len(model.pools) == 2
    for condition, factor in ((True, 1), (False, 3)):
        (result,) = run(model, np.array([condition]), np.ones(100, np.float32))
        np.testing.assert_array_equal(result, values * factor + 1)


@sweep(("start", "rounds"), [(0, 5), (4, 1), (5, 0), (9, 0)])
def test_while(start: float, rounds: int) -> None:
    model = loop(below(5, extra=1), counting(1, 2))
    counter, value = run(model, np.array([start], np.float32), np.ones(2, np.float32))
    assert counter[0] == start + rounds
    np.testing.assert_array_equal(value, [2**rounds] * 2)


@pytest.mark.timed
def test_a_loop_that_never_ends_is_stopped() -> None:
    compilation = nd.CompilationBuilder(loop(below(5, extra=1), counting(0, 1))).finish()
    execution = nd.Execution(compilation)
    execution.set_loop_timeout(0.02)
    for position, shape in enumerate(((1,), (2,))):
        execution.set_input(position, np.zeros(shape, np.float32))
        execution.set_output(position, np.zeros(shape, np.float32))
    started = time.monotonic()
    with pytest.raises(nd.Error) as caught:
        execution.compute()
    assert caught.value.code is nd.ResultCode.MISSED_DEADLINE_TRANSIENT
    assert 0.02 <= time.monotonic() - started < 20


def test_unfinished_and_superfluous_models() -> None:
    graph = Graph()
    reference, plain = graph.builder.add_operand(T.MODEL), graph.value()
    unfinished: object = nd.ModelBuilder()
    for index, model, code in (
        (reference, unfinished, nd.ResultCode.BAD_STATE),
        (reference, None, nd.ResultCode.UNEXPECTED_NULL),
        (plain, arithmetic(ADD, 1), nd.ResultCode.BAD_DATA),
        (99, arithmetic(ADD, 1), nd.ResultCode.BAD_DATA),
    ):
        with pytest.raises(nd.Error) as caught:
            graph.builder.set_operand_value_from_model(index, model)  # type: ignore[arg-type]
        assert caught.value.code is code
    with pytest.raises(nd.Error, match="takes a model"):
        graph.builder.set_operand_value(reference, 3)


@sweep(
    ("otherwise", "message"),
    [
        (counting(1, 1), "else graph: input.*2 operands"),
        (arithmetic(ADD, 1, (3,)), "else graph: input 0 has shape"),
        (below(1), "else graph: input 0 has shape|else graph: output 0 has type"),
    ],
)
def test_refuses_branches_of_other_operands(otherwise: nd.Model, message: str) -> None:
    with pytest.raises(nd.Error, match=message) as caught:
        branching(arithmetic(ADD, 1), otherwise)
    assert caught.value.code is nd.ResultCode.BAD_DATA


def test_refuses_loops_of_other_operands() -> None:
    for condition, body, message in (
        (below(5), counting(1, 1), "condition graph: input"),
        (counting(1, 1), counting(1, 1), "condition graph: exactly one output"),
        (below(5, extra=1), arithmetic(ADD, 1), "body graph: input"),
    ):
        with pytest.raises(nd.Error, match=message):
            loop(condition, body)
