"""Branch and bound finds what trying every choice finds."""

import random

import pytest
from support.models.placement_problems import optimum, random_problem
from support.sweeps import sweep

from neurald.runtime.partitioning.min_cost import exact_search


def graph_of(seed: int) -> tuple[int, int]:
    """Returns a number of operations and of devices."""
    rng = random.Random(seed)
    devices = rng.choice([2, 3])
    most = 14 if devices == 2 else 9
    return rng.randint(1, most if seed >= 200 else 7), devices


@sweep("seed", range(200), full=range(200, 10_000))
def test_the_optimum_is_found(seed: int) -> None:
    operations, devices = graph_of(seed)
    problem = random_problem(random.Random(seed), operations, devices, is_sequential=seed % 4 == 0)
    start = [0] * problem.count
    choice, cost, is_optimal = exact_search.search(
        problem, start, problem.predicted_of(start), max_nodes=1_000_000
    )
    assert is_optimal
    assert problem.predicted_of(choice) == pytest.approx(cost, rel=1e-12)
    alone = [problem.predicted_alone(n) for n in range(devices) if problem.uniform(n)]
    assert min(cost, *alone) == pytest.approx(optimum(problem), rel=1e-9)


def test_the_limit_ends_a_search_with_the_best_so_far() -> None:
    problem = random_problem(random.Random(3), 14, 3)
    start = [0] * problem.count
    choice, cost, is_optimal = exact_search.search(problem, start, problem.predicted_of(start), max_nodes=20)
    assert not is_optimal
    assert cost == problem.predicted_of(choice) <= problem.predicted_of(start)
