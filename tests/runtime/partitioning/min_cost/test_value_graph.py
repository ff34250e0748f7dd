"""Values that operations exchange, and groups of operations."""

import random

import numpy as np
import pytest
from support.models.graphs import model
from support.models.placement_problems import random_problem

import neurald as nd
from neurald.runtime.costs.graph_arrays import GraphArrays
from neurald.runtime.partitioning.min_cost.value_graph import ValueGraph

ADD = nd.OperationType.ADD


def values_of(subject: nd.Model) -> ValueGraph:
    return ValueGraph.of(GraphArrays.of(subject.main))


def test_values_of_a_graph() -> None:
    # An operand that is read twice counts once, and constants are not values.
    subject = model("x", [(ADD, "x x one", "a b"), (ADD, "a b", "c"), (ADD, "a", "d")], "b d")
    found = values_of(subject)
    names = [operand.name for operand in subject.main.operands]
    read = [(int(n), names[value]) for n, value in zip(found.read_by, found.read, strict=True)]
    assert sorted(read) == [(0, "x"), (1, "a"), (1, "b"), (2, "a")]
    assert {names[n] for n in np.flatnonzero(found.is_output)} == {"b", "d"}
    assert found.writer[names.index("x")] == -1
    assert found.writer[names.index("b")] == 0
    assert found.bytes[names.index("a")] == 24
    assert found.followers == [[1, 1, 2], [], []] or found.followers == [[1, 2, 1], [], []]
    assert found.missing == [0, 2, 1]


def test_groups_exchange_what_their_operations_do() -> None:
    subject = model("x", [(ADD, "x", "a"), (ADD, "x", "b"), (ADD, "a b", "c"), (ADD, "a", "d")], "c d")
    found = values_of(subject).contracted(np.array([0, 0, 1, 1]), 2)
    assert found.count == 2
    assert found.followers == [[1], []]
    assert found.missing == [0, 1]
    # Both operations of the first group read the input, which is moved once.
    assert (found.read_by == 0).sum() == 1


def test_groups_exchange_one_value_for_all_that_only_they_read_of_each_other() -> None:
    body = [(ADD, "x", "a"), (ADD, "x", "b"), (ADD, "a b", "c"), (ADD, "c", "d"), (ADD, "c", "e")]
    found = values_of(model("x", body, "d e")).contracted(np.array([0, 0, 1, 1, 2]), 3)
    # x; a and b together; c, which two groups read; d and e, which the client reads.
    assert sorted(zip(found.writer.tolist(), found.bytes.tolist(), strict=True)) == [
        (-1, 24.0),
        (0, 48.0),
        (1, 24.0),
        (1, 24.0),
        (2, 24.0),
    ]
    assert found.followers == [[1], [2], []]
    assert found.missing == [0, 1, 1]
    assert found.is_output.sum() == 2


@pytest.mark.parametrize("seed", range(20))
def test_plans_of_groups_are_predicted_like_those_of_their_operations(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng, rng.choice([3, 30, 200]), 3)
    choice = [min(range(3), key=lambda n, costs=costs: costs[n]) for costs in problem.costs]  # type: ignore[misc]
    steps = problem.drained(choice)
    group_of = np.zeros(problem.count, np.intp)
    for number, (_, operations) in enumerate(steps):
        group_of[operations] = number
    inner = problem.contracted(group_of, len(steps))
    placed = [device for device, _ in steps]
    assert inner.predicted_of(placed) == pytest.approx(problem.predicted(steps))
    other = [rng.randrange(3) for _ in steps]
    if all(cost[device] < float("inf") for cost, device in zip(inner.costs, other, strict=True)):
        expanded = [
            (device, [n for group in found for n in steps[group][1]])
            for device, found in inner.drained(other)
        ]
        assert problem.predicted(expanded) == pytest.approx(inner.predicted_of(other))


def test_a_graph_without_operations() -> None:
    found = values_of(model("x", [], "x"))
    assert found.count == 0
    assert found.followers == []
    assert found.missing == []
