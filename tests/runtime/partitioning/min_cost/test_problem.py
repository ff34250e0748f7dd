"""Predictions of plans that can be computed by hand."""

import random

import numpy as np
import pytest
from support.models.graphs import model
from support.models.placement_problems import CAPABILITIES, problem_of, random_problem

import neurald as nd
from neurald.hal.records import replace
from neurald.runtime.costs.estimate import STEP_S, DeviceCosts
from neurald.runtime.costs.table import DeviceLink
from neurald.runtime.partitioning.min_cost.problem import PlacementProblem

ADD = nd.OperationType.ADD
#: x -> a -> b -> d, x -> c -> d; values of 24 bytes.
DIAMOND = model("x", [(ADD, "x", "a"), (ADD, "a", "b"), (ADD, "x", "c"), (ADD, "b c", "d")], "d")
HOST = DeviceCosts(capabilities=CAPABILITIES, launch_s=1.0)
#: 2 seconds in and 3 out for each value.
FAR = DeviceCosts(
    capabilities=CAPABILITIES,
    launch_s=10.0,
    link=DeviceLink(input_bytes_per_s=12.0, output_bytes_per_s=8.0, shares_memory=False),
)


def problem(*, is_sequential: bool = False, step_s: float = STEP_S) -> PlacementProblem:
    costs = [[100.0 * (position + 1), 7.0, float("inf")] for position in range(4)]
    return problem_of(DIAMOND, [HOST, replace(FAR, step_s=step_s)], costs, is_sequential=is_sequential)


def test_a_plan_of_one_step_has_no_steps_to_organise() -> None:
    assert problem().predicted_of([0, 0, 0, 0]) == pytest.approx(1001)
    assert problem().predicted_of([1, 1, 1, 1]) == pytest.approx(10 + 2 + 28 + 3)
    assert problem().predicted_alone(0) == pytest.approx(1001)
    assert problem().predicted_alone(1) == pytest.approx(43)
    assert problem(is_sequential=True).predicted_alone(1) == pytest.approx(43 + STEP_S)


def test_steps_take_what_was_measured_for_their_devices() -> None:
    before, after = problem(), problem(step_s=0.5)
    steps = [(0, [0]), (1, [1, 2]), (0, [3])]
    assert after.predicted(steps) == pytest.approx(before.predicted(steps) + 0.5 - STEP_S)
    assert after.predicted_of([1, 1, 1, 1]) == before.predicted_of([1, 1, 1, 1])
    assert after.predicted_alone(1) == before.predicted_alone(1)
    assert after.launches == [HOST.launch_s + STEP_S, 10.5, 0.5]


def test_steps_on_different_devices_overlap() -> None:
    choice = [1, 1, 0, 1]
    # The first step of the second device runs beside that of the first one.
    first = 10 + 2 + 14 + 0
    second = 1 + 300
    third = 10 + 2 + 7 + 3
    assert problem().drained(choice) == [(1, [0, 1]), (0, [2]), (1, [3])]
    assert problem().predicted_of(choice) == pytest.approx(max(first, second) + third, abs=1e-3)
    assert problem(is_sequential=True).predicted_of(choice) == pytest.approx(first + second + third, abs=1e-3)


def test_a_value_is_moved_once_for_a_step_and_back_only_if_it_is_read_elsewhere() -> None:
    # Operations 0 and 2 both read x; only b is read by the other device.
    steps = problem().drained([1, 1, 1, 0])
    assert steps == [(1, [0, 2, 1]), (0, [3])]
    assert problem().predicted(steps) == pytest.approx((10 + 2 + 21 + 3 + 3) + (1 + 400), abs=1e-3)


def test_operations_of_one_device_wait_for_each_other() -> None:
    """Two steps of one device do not run at the same time, even if they could."""
    two = model("x", [(ADD, "x", "a"), (ADD, "x", "b")], "a b")
    subject = problem_of(two, [HOST], [[5.0, float("inf")]] * 2, is_sequential=False)
    assert subject.predicted([(0, [0]), (0, [1])]) == pytest.approx(12, abs=1e-3)


def test_what_a_device_cannot_run() -> None:
    costs = [[1.0, float("inf") if n else 1.0, float("inf")] for n in range(4)]
    subject = problem_of(DIAMOND, [HOST, FAR], costs, is_sequential=False)
    assert subject.uniform(0)
    assert not subject.uniform(1)


@pytest.mark.parametrize("seed", range(20))
def test_many_operations_are_predicted_like_few(seed: int) -> None:
    rng = random.Random(seed)
    subject = random_problem(rng, rng.choice([1, 5, 40, 200]), 3, is_sequential=seed % 4 == 0)
    choice = [
        rng.choice([n for n, cost in enumerate(costs) if cost < float("inf")]) for costs in subject.costs
    ]
    for chosen in (choice, [0] * subject.count):
        steps = subject.drained(chosen)
        expected = subject._predicted_by_loops(steps)
        assert subject._predicted_by_arrays(steps) == pytest.approx(expected, rel=1e-12)
        assert subject.least_of(np.array(chosen)) <= expected
    assert subject.predicted_alone(0) == pytest.approx(subject.predicted_of([0] * subject.count))
