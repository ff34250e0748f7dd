"""Groups of operations that stay together: they can run as one, and good plans keep them."""

import itertools
import random

import numpy as np
import pytest
from support.models.graphs import model
from support.models.placement_problems import CAPABILITIES, problem_of, random_problem

import neurald as nd
from neurald.runtime.costs.estimate import DeviceCosts
from neurald.runtime.costs.table import DeviceLink
from neurald.runtime.partitioning.min_cost.contraction import contract

ADD = nd.OperationType.ADD
INF = float("inf")
HOST = DeviceCosts(capabilities=CAPABILITIES, launch_s=1e-4)
FAR = DeviceCosts(
    capabilities=CAPABILITIES,
    launch_s=1e-4,
    link=DeviceLink(input_bytes_per_s=1e6, output_bytes_per_s=1e6, shares_memory=False),
)


@pytest.mark.parametrize("seed", range(40))
def test_groups_can_run_in_their_order_and_cost_what_their_operations_do(seed: int) -> None:
    problem = random_problem(random.Random(seed), random.Random(seed).choice([3, 30, 300]), 3)
    inner, groups = contract(problem)
    assert sorted(set(groups.tolist())) == list(range(inner.count))
    sources, targets = problem.graph.edges
    # No group reads what a later one writes, so that no path returns to a group.
    assert (groups[sources] <= groups[targets]).all()
    choice = [min(range(3), key=lambda n, costs=costs: costs[n]) for costs in inner.costs]  # type: ignore[misc]
    steps = inner.drained(choice)
    members: list[list[int]] = [[] for _ in range(inner.count)]
    for position, group in enumerate(groups.tolist()):
        members[group].append(position)
    expanded = [(device, [n for group in found for n in members[group]]) for device, found in steps]
    assert problem.predicted(expanded) == pytest.approx(inner.predicted(steps))


def test_operations_that_are_cheapest_on_the_same_device_are_joined() -> None:
    names = [f"v{n}" for n in range(9)]
    chain = model("v0", [(ADD, a, b) for a, b in itertools.pairwise(names)], "v8")
    costs = [[1.0, 2.0, INF]] * 3 + [[2.0, 1.0, INF]] * 5
    inner, groups = contract(problem_of(chain, [HOST, HOST], costs, is_sequential=False))
    assert groups.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert inner.costs == [[3.0, 6.0, INF], [10.0, 5.0, INF]]


def test_a_small_value_between_large_ones_is_where_a_plan_may_change_devices() -> None:
    """All operations are cheapest on the first device, but the small value is the best place to cut."""
    chain = model(
        "a",
        [(ADD, "a", "b"), (ADD, "b", "small"), (ADD, "small", "c"), (ADD, "c", "d")],
        "d",
        dimensions={"a": (10000,), "b": (10000,), "small": (1,), "c": (10000,), "d": (10000,)},
    )
    cheap = [[1.0e-3, 1.1e-3, INF]] * 4
    _, groups = contract(problem_of(chain, [HOST, FAR], cheap, is_sequential=False))
    assert groups[1] != groups[2]
    # What costs much more elsewhere stays.
    dear = [[1.0e-3, 1.0, INF]] * 4
    _, groups = contract(problem_of(chain, [HOST, FAR], dear, is_sequential=False))
    assert groups.tolist() == [0, 0, 0, 0]


def test_a_path_around_an_operation_keeps_it_apart() -> None:
    diamond = model("x", [(ADD, "x", "a"), (ADD, "a", "b"), (ADD, "a b", "c")], "c")
    costs = [[1.0, 9.0, INF], [9.0, 1.0, INF], [1.0, 9.0, INF]]
    inner, groups = contract(problem_of(diamond, [HOST, HOST], costs, is_sequential=False))
    assert np.unique(groups).tolist() == [0, 1, 2]
    assert inner.count == 3
