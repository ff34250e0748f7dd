"""Properties of a loop from its graphs alone: what counts its turns, and which values change."""

from collections.abc import Sequence

from neurald.drivers.compiler.frontend.control_flow.loop_counters import changing_values, loop_counter
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.operation_type import OperationType as T
from neurald.hal.model.types import Lifetime, OperandType


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
