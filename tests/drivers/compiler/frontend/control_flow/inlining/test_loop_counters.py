"""Properties of a loop from its graphs alone: what counts its turns, and which values change."""

from collections.abc import Sequence
from copy import copy

from neurald.drivers.compiler.frontend.control_flow.inlining.loop_counters import (
    changing_values,
    deciding_inputs,
    has_more_turns,
    loop_counter,
)
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.operation_type import OperationType as T
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.records import replace


def graph(
    count: int, inputs: Sequence[int], outputs: Sequence[int], *operations: tuple[T, Sequence[int], int]
) -> Subgraph:
    """Returns a graph of floats, whose operations have one output each."""
    operand = Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(1,), lifetime=Lifetime.TEMPORARY_VARIABLE)
    return Subgraph(
        operands=(operand,) * count,
        operations=tuple(
            Operation(type=kind, inputs=tuple(read), outputs=(written,)) for kind, read, written in operations
        ),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )


#: Compares the second of three values with the third.
CONDITION = graph(4, (0, 1, 2), (3,), (T.LESS, (1, 2), 3))


def test_the_counter_is_what_the_condition_depends_on() -> None:
    body = graph(
        8,
        (0, 1, 2),
        (6, 4, 2),
        (T.EXP, (0,), 3),
        (T.ADD, (1, 7), 4),
        (T.MUL, (3, 0), 5),
        (T.TANH, (5,), 6),
    )
    counter = loop_counter(CONDITION, body)
    assert counter is not None
    assert (counter.values, counter.operations) == ([1, 2], [1])
    assert counter.operands == {1, 2, 4, 7}


def test_a_counter_may_depend_on_other_values() -> None:
    # The first value is what the second one is increased by, and is itself doubled.
    body = graph(
        9,
        (0, 1, 2),
        (3, 4),
        (T.ADD, (0, 0), 3),
        (T.ADD, (1, 0), 4),
        (T.EXP, (2,), 5),
        (T.EXP, (5,), 6),
    )
    counter = loop_counter(CONDITION, body)
    assert counter is not None
    assert (counter.values, counter.operations) == ([0, 1], [0, 1])


def test_there_is_no_counter_if_the_condition_needs_most_of_the_body() -> None:
    body = graph(6, (0, 1, 2), (3, 4, 2), (T.EXP, (0,), 3), (T.MUL, (1, 3), 4))
    assert loop_counter(CONDITION, body) is None


def test_values_that_pass_or_may_pass_are_not_sure_to_change() -> None:
    body = graph(
        9,
        (0, 1, 2, 3),
        (4, 1, 5, 6),
        (T.ADD, (0, 1), 4),
        (T.RESHAPE, (2, 8), 5),
        (T.IF, (7, 3), 6),
    )
    assert changing_values(body, (T.RESHAPE,)) == {0}
    assert changing_values(body, ()) == {0, 2}


def test_moved_values_change_if_they_are_computed() -> None:
    body = graph(
        9,
        (0, 1, 2),
        (5, 7, 8),
        (T.ADD, (0, 1), 3),
        (T.SLICE, (3, 6, 6), 4),
        (T.RESHAPE, (4, 6), 5),
        (T.SLICE, (1, 6, 6), 7),
        (T.RESHAPE, (2, 6), 8),
    )
    assert changing_values(body, (T.RESHAPE, T.SLICE)) == {0}
    assert changing_values(body, (T.RESHAPE,)) == {0, 1}


def test_shapes_and_branches_need_no_values() -> None:
    body = graph(
        10,
        (0, 1, 2),
        (5, 7, 8, 2),
        (T.ADD, (0, 9), 3),
        (T.MUL, (3, 1), 5),
        (T.TFLITE_SHAPE, (1,), 6),
        (T.ADD, (6, 2), 7),
        (T.IF, (4, 1), 8),
    )
    assert deciding_inputs(body, (0,), (T.TFLITE_SHAPE,)) == {0, 1}
    assert deciding_inputs(body, (1, 2, 3), (T.TFLITE_SHAPE,)) == {2}
    assert deciding_inputs(body, (1,), ()) == {1, 2}
    assert not deciding_inputs(body, (), ())


def counts(
    first: Sequence[int | None], turns: int, *, condition: Subgraph, body: Subgraph, step: int = 1
) -> bool:
    """Returns whether a loop has more turns, with a step and no activation as only constants."""
    known = {id(body.operands[7]): step, id(body.operands[8]): 0}
    return has_more_turns(condition, body, first, lambda operand: known.get(id(operand)), turns)


def distinct(graph: Subgraph) -> Subgraph:
    """Returns a graph whose operands are objects of their own."""
    return replace(graph, operands=tuple([copy(each) for each in graph.operands]))


#: Adds operand 7 to the second of three values, and doubles the first one.
COUNTING = distinct(graph(9, (0, 1, 2), (3, 4, 2), (T.ADD, (0, 0, 8), 3), (T.ADD, (7, 1, 8), 4)))


def test_counters_tell_how_many_turns_there_are_at_least() -> None:
    def with_limit(limit: int, turns: int, step: int = 1) -> bool:
        return counts((None, 0, limit), turns, condition=CONDITION, body=COUNTING, step=step)

    # The condition holds for 0 to 4 in five turns.
    assert (with_limit(5, 4), with_limit(4, 4)) == (True, False)
    assert (with_limit(9, 4, 2), with_limit(8, 4, 2)) == (True, False)
    assert not with_limit(0, 0)
    # Without a step, it ends never; with a large one, the counter may overflow.
    assert with_limit(1, 1000, 0)
    assert not with_limit((1 << 31) - 1, 4, 1 << 30)


def test_all_of_several_conditions_must_hold() -> None:
    both = graph(6, (0, 1, 2), (5,), (T.LESS, (1, 2), 3), (T.LESS, (1, 0), 4), (T.LOGICAL_AND, (3, 4), 5))
    body = distinct(graph(9, (0, 1, 2), (0, 4, 2), (T.ADD, (1, 7, 8), 4)))
    assert counts((9, 0, 9), 4, condition=both, body=body)
    assert not counts((3, 0, 9), 4, condition=both, body=body)
    # A condition that reads each result twice is not looked at more often for that.
    chain = [(T.LOGICAL_AND, (4 + each, 4 + each), 5 + each) for each in range(200)]
    deep = graph(205, (0, 1, 2), (204,), (T.LESS, (1, 2), 4), *chain)
    assert counts((9, 0, 9), 4, condition=deep, body=body)


def test_nothing_is_said_of_other_loops() -> None:
    def says(
        body: Subgraph, first: Sequence[int | None] = (None, 0, 99), *, condition: Subgraph = CONDITION
    ) -> bool:
        return counts(first, 4, condition=condition, body=distinct(body))

    assert says(COUNTING)
    assert not says(COUNTING, (None, None, 99))
    assert not says(COUNTING, condition=graph(4, (0, 1, 2), (3,), (T.GREATER, (1, 2), 3)))
    assert not says(COUNTING, condition=graph(4, (0, 1, 2), (2,)))
    # It is doubled, multiplied, or limited by an activation.
    for kind, inputs in ((T.ADD, (1, 1, 8)), (T.MUL, (1, 7, 8)), (T.ADD, (1, 7, 6))):
        assert not says(graph(9, (0, 1, 2), (0, 4, 2), (kind, inputs, 4)))
