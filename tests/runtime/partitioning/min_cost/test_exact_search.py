"""The search finds what trying every choice finds."""

import math
import random
import time
from itertools import chain
from typing import Any

import pytest
from support.models.every_choice import optimum
from support.models.placement_problems import CAPABILITIES, problem_of, random_problem
from support.sweeps import sweep

from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.runtime.costs.estimate import DeviceCosts
from neurald.runtime.costs.table import DeviceLink
from neurald.runtime.partitioning.min_cost import exact_search
from neurald.runtime.partitioning.min_cost.problem import PlacementProblem
from neurald.runtime.partitioning.min_cost.search import MAX_EXACT, find_plan


def problem_with(seed: int, most: int) -> PlacementProblem:
    rng = random.Random(seed)
    return random_problem(rng, rng.randint(1, most), rng.choice([2, 3]), is_sequential=seed % 4 == 0)


@sweep("seed", range(60))
def test_the_optimum_is_found_from_any_choice(seed: int) -> None:
    problem = problem_with(seed, 7)
    start = [0] * problem.count
    choice, cost, is_optimal = exact_search.search(
        problem, start, problem.predicted_of(start), max_s=math.inf
    )
    assert is_optimal
    assert problem.predicted_of(choice) == pytest.approx(cost, rel=1e-12)
    alone = [problem.predicted_alone(n) for n in range(problem.device_count) if problem.uniform(n)]
    assert min(cost, *alone) == pytest.approx(optimum(problem), rel=1e-9)


@sweep("seed", range(150), full=range(150, 10_000))
def test_plans_of_small_graphs_are_optimal(seed: int) -> None:
    problem = problem_with(seed, 8 if seed < 150 else MAX_EXACT)
    found = find_plan(problem, ("a", "b", "c"), max_s=math.inf)
    assert found.is_optimal
    assert found.seconds == pytest.approx(problem.predicted(found.steps), rel=1e-12)
    assert found.seconds <= optimum(problem) * (1 + 1e-9)


@pytest.mark.parametrize("seed", [5001, 5009])
def test_three_devices_and_as_many_operations_as_are_searched(seed: int) -> None:
    """Branch and bound in the order of the operations gave these up after 10,000 parts."""
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(10, MAX_EXACT), 3)
    assert problem.count == MAX_EXACT
    assert find_plan(problem, ("a", "b", "c"), max_s=math.inf).is_optimal


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


@pytest.mark.parametrize(("runs", "limit_s"), [(1000, exact_search.MAX_S), (0, exact_search._MIN_S)])
def test_a_search_takes_no_longer_than_its_result_can_save(
    runs: int, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node takes a millisecond; without a limit of time the search would take 30 seconds."""
    problem = divided(12, 1)
    now, spent = 0.0, exact_search._Search._is_spent

    def counted(self: exact_search._Search) -> bool:
        nonlocal now
        now += 1e-3
        return spent(self)

    monkeypatch.setattr(exact_search, "_RUNS", runs)
    monkeypatch.setattr(exact_search._Search, "_is_spent", counted)
    monkeypatch.setattr(time, "thread_time", lambda: now)
    start = [0] * problem.count
    _, _, is_optimal = exact_search.search(problem, start, problem.predicted_of(start))
    assert not is_optimal
    assert now <= limit_s + 2 * exact_search._NODES_AT_ONCE * 1e-3


def divided(readers: int, values: int) -> PlacementProblem:
    """Returns the problem of an operation that writes this many values for each reader.

    The readers wait for another operation, too. Three devices cost nearly the same.
    """
    operands: list[Operand] = []

    def add(count: int, lifetime: Lifetime = Lifetime.TEMPORARY_VARIABLE) -> list[int]:
        operand = Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(1,), lifetime=lifetime)
        operands.extend([operand] * count)
        return list(range(len(operands) - count, len(operands)))

    given, other = add(1, Lifetime.SUBGRAPH_INPUT), add(1)
    parts = [add(values) for _ in range(readers)]
    outputs = add(readers, Lifetime.SUBGRAPH_OUTPUT)
    operations = [
        Operation(type=OperationType.SPLIT, inputs=tuple(given), outputs=tuple(chain.from_iterable(parts))),
        Operation(type=OperationType.ADD, inputs=tuple(given), outputs=tuple(other)),
    ]
    for part, output in zip(parts, outputs, strict=True):
        inputs = (*part, *other)
        operations.append(Operation(type=OperationType.CONCATENATION, inputs=inputs, outputs=(output,)))
    main = Subgraph(
        operands=tuple(operands), operations=tuple(operations), inputs=tuple(given), outputs=tuple(outputs)
    )
    link = DeviceLink(input_bytes_per_s=1e9, output_bytes_per_s=1e9)
    devices = [DeviceCosts(capabilities=CAPABILITIES, launch_s=1e-6, link=link)] * 3
    costs = [[1e-3 + 1e-4 * n, 1.1e-3, 1e-3 + 1e-5 * n, float("inf")] for n in range(readers + 2)]
    return problem_of(Model(main=main), devices, costs, is_sequential=False)


def test_values_with_the_same_readers_are_moved_together() -> None:
    problem = divided(4, 20)
    start = [0] * problem.count
    _, _, is_optimal = exact_search.search(
        problem, start, problem.predicted_of(start), max_nodes=5_000, max_s=math.inf
    )
    assert is_optimal


def test_the_limit_counts_moves_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, decided = divided(12, 1), 0
    move_out = exact_search._Search._move_out

    def counted(self: exact_search._Search, *given: Any) -> None:
        nonlocal decided
        decided += 1
        move_out(self, *given)

    monkeypatch.setattr(exact_search._Search, "_move_out", counted)
    start = [0] * problem.count
    exact_search.search(problem, start, problem.predicted_of(start), max_nodes=200)
    assert decided <= 400
