"""The search finds what trying every choice finds."""

import random

import pytest
from support.models.every_choice import optimum
from support.models.placement_problems import random_problem
from support.sweeps import sweep

from neurald.runtime.partitioning.min_cost import exact_search
from neurald.runtime.partitioning.min_cost.problem import PlacementProblem
from neurald.runtime.partitioning.min_cost.search import MAX_EXACT, find_plan


def problem_of(seed: int, most: int) -> PlacementProblem:
    rng = random.Random(seed)
    return random_problem(rng, rng.randint(1, most), rng.choice([2, 3]), is_sequential=seed % 4 == 0)


@sweep("seed", range(60))
def test_the_optimum_is_found_from_any_choice(seed: int) -> None:
    problem = problem_of(seed, 7)
    start = [0] * problem.count
    choice, cost, is_optimal = exact_search.search(problem, start, problem.predicted_of(start))
    assert is_optimal
    assert problem.predicted_of(choice) == pytest.approx(cost, rel=1e-12)
    alone = [problem.predicted_alone(n) for n in range(problem.device_count) if problem.uniform(n)]
    assert min(cost, *alone) == pytest.approx(optimum(problem), rel=1e-9)


@sweep("seed", range(150), full=range(150, 10_000))
def test_plans_of_small_graphs_are_optimal(seed: int) -> None:
    problem = problem_of(seed, 8 if seed < 150 else MAX_EXACT)
    found = find_plan(problem, ("a", "b", "c"))
    assert found.is_optimal
    assert found.seconds == pytest.approx(problem.predicted(found.steps), rel=1e-12)
    assert found.seconds == pytest.approx(optimum(problem), rel=1e-9)


@pytest.mark.parametrize("seed", [5001, 5009])
def test_three_devices_and_as_many_operations_as_are_searched(seed: int) -> None:
    """Branch and bound over choices in the order of the operations gave these up after 10,000 parts."""
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(10, MAX_EXACT), 3)
    assert problem.count == MAX_EXACT
    assert find_plan(problem, ("a", "b", "c")).is_optimal


def test_many_devices() -> None:
    problem = random_problem(random.Random(1), 5, 40)
    found = find_plan(problem, [str(n) for n in range(40)])
    assert found.seconds == pytest.approx(problem.predicted(found.steps))


def test_the_limit_ends_a_search_with_the_best_so_far() -> None:
    problem = random_problem(random.Random(3), 14, 3)
    start = [0] * problem.count
    choice, cost, is_optimal = exact_search.search(problem, start, problem.predicted_of(start), max_nodes=20)
    assert not is_optimal
    assert cost == problem.predicted_of(choice) <= problem.predicted_of(start)
