"""IF and WHILE: branches, loops, nesting, time limits, and graphs that do not fit."""

import time
from collections.abc import Sequence

import numpy as np
import pytest

import neurald as nd

T = nd.OperandType
BOOL, FLOAT, INT = T.TENSOR_BOOL8, T.TENSOR_FLOAT32, T.TENSOR_INT32


class Graph:
    """A ModelBuilder with shorter words."""

    def __init__(self) -> None:
        self.builder = nd.ModelBuilder()
        self.none = self.builder.add_operand(T.INT32)
        self.builder.set_operand_value(self.none, 0)

    def value(self, operand_type: nd.OperandType = FLOAT, shape: Sequence[int] = (2,)) -> int:
        return self.builder.add_operand(operand_type, shape)

    def constant(self, values: Sequence[float], operand_type: nd.OperandType = FLOAT) -> int:
        index = self.builder.add_operand(operand_type, (len(values),))
        self.builder.set_operand_value(index, list(values))
        return index

    def model(self, model: nd.Model) -> int:
        index = self.builder.add_operand(T.MODEL)
        self.builder.set_operand_value_from_model(index, model)
        return index

    def binary(self, operation_type: nd.OperationType, first: int, second: int, output: int) -> int:
        self.builder.add_operation(operation_type, [first, second, self.none], [output])
        return output

    def finish(self, inputs: Sequence[int], outputs: Sequence[int]) -> nd.Model:
        self.builder.identify_inputs_and_outputs(inputs, outputs)
        return self.builder.finish()


def arithmetic(operation_type: nd.OperationType, operand: float, shape: Sequence[int] = (2,)) -> nd.Model:
    """x -> x (operation) operand."""
    graph = Graph()
    source = graph.value(shape=shape)
    result = graph.binary(operation_type, source, graph.constant([operand]), graph.value(shape=shape))
    return graph.finish([source], [result])


ADD, MUL = nd.OperationType.ADD, nd.OperationType.MUL


def branching(then: nd.Model, otherwise: nd.Model, shape: Sequence[int] = (2,)) -> nd.Model:
    graph = Graph()
    condition, source = graph.value(BOOL, (1,)), graph.value(shape=shape)
    output = graph.value(shape=shape)
    graph.builder.add_operation(
        nd.OperationType.IF,
        [condition, graph.model(then), graph.model(otherwise), source],
        [output],
    )
    return graph.finish([condition, source], [output])


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


def below(limit: float, *, extra: int = 0) -> nd.Model:
    """(counter, ...) -> counter < limit."""
    graph = Graph()
    counter = graph.value(shape=(1,))
    others = [graph.value() for _ in range(extra)]
    output = graph.value(BOOL, (1,))
    graph.builder.add_operation(nd.OperationType.LESS, [counter, graph.constant([limit])], [output])
    return graph.finish([counter, *others], [output])


def counting(step: float, factor: float) -> nd.Model:
    """(counter, value) -> (counter + step, value * factor)."""
    graph = Graph()
    counter, value = graph.value(shape=(1,)), graph.value()
    return graph.finish(
        [counter, value],
        [
            graph.binary(ADD, counter, graph.constant([step]), graph.value(shape=(1,))),
            graph.binary(MUL, value, graph.constant([factor]), graph.value()),
        ],
    )


def loop(condition: nd.Model, body: nd.Model) -> nd.Model:
    graph = Graph()
    counter, value = graph.value(shape=(1,)), graph.value()
    outputs = [graph.value(shape=(1,)), graph.value()]
    graph.builder.add_operation(
        nd.OperationType.WHILE, [graph.model(condition), graph.model(body), counter, value], outputs
    )
    return graph.finish([counter, value], outputs)


@pytest.mark.parametrize(("start", "turns"), [(0, 5), (4, 1), (5, 0), (9, 0)])
def test_while(start: float, turns: int) -> None:
    model = loop(below(5, extra=1), counting(1, 2))
    counter, value = run(model, np.array([start], np.float32), np.ones(2, np.float32))
    assert counter[0] == start + turns
    np.testing.assert_array_equal(value, [2**turns] * 2)


def test_e13_a_loop_that_never_ends_is_stopped() -> None:
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
    assert 0.02 <= time.monotonic() - started < 2


def test_m09_models_that_are_not_finished_or_not_wanted() -> None:
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


@pytest.mark.parametrize(
    ("otherwise", "message"),
    [
        (counting(1, 1), "else graph: input.*2 operands"),
        (arithmetic(ADD, 1, (3,)), "else graph: input 0 has shape"),
        (below(1), "else graph: input 0 has shape|else graph: output 0 has type"),
    ],
)
def test_branches_that_do_not_fit(otherwise: nd.Model, message: str) -> None:
    with pytest.raises(nd.Error, match=message) as caught:
        branching(arithmetic(ADD, 1), otherwise)
    assert caught.value.code is nd.ResultCode.BAD_DATA


def test_loops_that_do_not_fit() -> None:
    for condition, body, message in (
        (below(5), counting(1, 1), "condition graph: input"),
        (counting(1, 1), counting(1, 1), "condition graph: its one output"),
        (below(5, extra=1), arithmetic(ADD, 1), "body graph: input"),
    ):
        with pytest.raises(nd.Error, match=message):
            loop(condition, body)
