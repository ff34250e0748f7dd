"""The frontier search: chains optimally, and graphs of any shape and size."""

import itertools
import math
import random

import pytest
from support.models.every_choice import optimum
from support.models.graphs import model
from support.models.placement_problems import CAPABILITIES, problem_of, random_problem

import neurald as nd
from neurald.runtime.costs.estimate import DeviceCosts
from neurald.runtime.costs.table import DeviceLink
from neurald.runtime.partitioning.min_cost import frontier_search

ADD = nd.OperationType.ADD


@pytest.mark.parametrize("seed", range(30))
def test_chains_are_placed_optimally(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"v{n}" for n in range(9)]
    subject = model("v0", [(ADD, a, b) for a, b in itertools.pairwise(names)], "v8")
    link = DeviceLink(input_bytes_per_s=rng.choice([1e3, 1e6]), output_bytes_per_s=1e4)
    devices = [
        DeviceCosts(capabilities=CAPABILITIES, launch_s=1e-4),
        DeviceCosts(capabilities=CAPABILITIES, launch_s=1e-3, link=link),
    ]
    costs = [[rng.choice([1e-4, 1e-2]), rng.choice([1e-4, 1e-2, math.inf]), math.inf] for _ in range(8)]
    problem = problem_of(subject, devices, costs, is_sequential=True)
    assert problem.predicted_of(frontier_search.search(problem)) == pytest.approx(optimum(problem))


@pytest.mark.parametrize("seed", range(10))
def test_wide_graphs_get_devices_that_can_run_them(seed: int) -> None:
    problem = random_problem(random.Random(seed), 300, 3)
    choice = frontier_search.search(problem)
    assert len(choice) == 300
    assert all(problem.costs[position][device] < math.inf for position, device in enumerate(choice))
    assert problem.predicted_of(choice) <= 1.5 * problem.predicted_alone(0)
