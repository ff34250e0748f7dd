"""The relaxation: devices that can run operations, together where that pays."""

import itertools
import math
import random

import numpy as np
import pytest
from support.models.graphs import model
from support.models.placement_problems import CAPABILITIES, problem_of, random_problem

import neurald as nd
from neurald.runtime.costs.estimate import DeviceCosts
from neurald.runtime.costs.table import DeviceLink
from neurald.runtime.partitioning.min_cost import relaxation
from neurald.runtime.partitioning.min_cost.search import find_plan

ADD = nd.OperationType.ADD
INF = math.inf
NAMES = [f"v{n}" for n in range(41)]
CHAIN = model("v0", [(ADD, a, b) for a, b in itertools.pairwise(NAMES)], "v40")
NEAR = DeviceCosts(capabilities=CAPABILITIES, launch_s=1e-4)
FAR = DeviceCosts(
    capabilities=CAPABILITIES,
    launch_s=1e-4,
    link=DeviceLink(input_bytes_per_s=1e4, output_bytes_per_s=1e4, shares_memory=False),
)


@pytest.mark.parametrize("seed", range(20))
def test_operations_get_devices_that_can_run_them(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng, rng.choice([1, 2, 40, 300]), 3, is_sequential=seed % 2 == 0)
    found = relaxation.search(problem).tolist()
    assert all(math.isfinite(costs[device]) for costs, device in zip(problem.costs, found, strict=True))


def test_neighbours_settle_where_both_are_cheap() -> None:
    halves = [[1e-3, 1e-5, INF]] * 20 + [[1e-5, 1e-3, INF]] * 20
    found = relaxation.search(problem_of(CHAIN, [NEAR, NEAR], halves, is_sequential=False))
    assert found.tolist() == [1] * 20 + [0] * 20


@pytest.mark.parametrize("device", [NEAR, FAR])
def test_differences_that_do_not_pay_for_a_step_of_their_own(device: DeviceCosts) -> None:
    """The search after the relaxation, which looks at whole steps, joins what settled apart."""
    alternating = [[1e-5, 0.9e-5, INF] if n % 2 else [0.9e-5, 1e-5, INF] for n in range(40)]
    cheaper_in_the_middle = [[1e-4, 1e-4 if n in range(10) or n >= 30 else 0.99e-4, INF] for n in range(40)]
    for costs in (alternating, cheaper_in_the_middle):
        problem = problem_of(CHAIN, [NEAR, device], costs, is_sequential=False)
        assert len(find_plan(problem, ["a", "b"]).steps) == 1


def test_operations_without_anything_in_common() -> None:
    apart = model("x", [(ADD, "x", "a"), (ADD, "x", "b")], "a b")
    costs = [[1.0, 2.0, INF], [INF, 1.0, INF]]
    found = relaxation.search(problem_of(apart, [NEAR, NEAR], costs, is_sequential=False))
    assert found.tolist() == [0, 1]


def test_figures_of_any_size() -> None:
    """Devices without figures cost 10^5 seconds, and other ones less than a microsecond."""
    costs = [[1e5, 1e-9, INF], [1e-9, 1e5, INF], [1e5, 1e5, INF], [INF, 1e5, INF]] * 10
    with np.errstate(all="raise", under="ignore"):
        found = relaxation.search(problem_of(CHAIN, [NEAR, NEAR], costs, is_sequential=False))
    assert found[:2].tolist() == [1, 0]
    assert found[3] == 1
