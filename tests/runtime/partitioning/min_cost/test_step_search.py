"""Steps of plans are cut and changed so that devices work at the same time."""

import math
import random

import pytest
from support.models.every_choice import least_of_all_plans, optimum
from support.models.graphs import model
from support.models.placement_problems import CAPABILITIES, problem_of, random_problem
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.costs.estimate import DeviceCosts
from neurald.runtime.costs.table import DeviceLink
from neurald.runtime.partitioning.min_cost import step_search
from neurald.runtime.partitioning.min_cost.problem import PlacementProblem, Steps
from neurald.runtime.partitioning.min_cost.search import MAX_EXACT, find_plan

ADD = OperationType.ADD
NAMES = ("a", "b", "c")
FEW = 0.03


def two_devices(lines: str, *seconds: tuple[float, float]) -> PlacementProblem:
    """Returns the problem of operations such as "x>a", and of their seconds on each device."""
    parts = [each.split(">") for each in lines.split()]
    subject = model("x", [(ADD, a.replace(",", " "), b) for a, b in parts], parts[-1][1])
    device = DeviceCosts(capabilities=CAPABILITIES, launch_s=1e-3, step_s=0.0, link=DeviceLink())
    costs = [(*each, math.inf) for each in seconds]
    return problem_of(subject, [device, device], costs, is_sequential=False)


def check(problem: PlacementProblem, seconds: float, steps: Steps) -> None:
    """Checks that steps run each operation once, after what it reads, and take so long."""
    done: list[int] = []
    for device, operations in steps:
        for n in operations:
            assert problem.costs[n][device] < math.inf
            assert set(problem.written_reads[n]) <= {*done, *operations}
        done += operations
    assert sorted(done) == list(range(problem.count))
    assert seconds == pytest.approx(problem.predicted(steps), rel=1e-12)


def test_a_step_is_cut_after_what_another_device_reads() -> None:
    """The second operation of the first device must not delay the other device."""
    problem = two_devices("x>a x>b a>c b,c>d", (1.0, 9.0), (2.0, 9.0), (9.0, 2.0), (0.1, 9.0))
    merged = [(0, [0, 1]), (1, [2]), (0, [3])]
    assert problem.predicted(merged) == pytest.approx(5.103)
    seconds, choice, steps = step_search.changed(problem, 5.103, merged, 1000)
    check(problem, seconds, steps)
    assert choice == [0, 0, 1, 0]
    assert seconds == pytest.approx(3.103)


def test_a_step_is_cut_before_what_waits_for_another_device() -> None:
    problem = two_devices("x>a x>b a>c b,c>d", (9.0, 2.0), (2.0, 9.0), (0.1, 9.0), (0.1, 9.0))
    merged = [(1, [0]), (0, [1, 2, 3])]
    assert problem.predicted(merged) == pytest.approx(4.202)
    seconds, _, steps = step_search.changed(problem, 4.202, merged, 1000)
    check(problem, seconds, steps)
    assert seconds == pytest.approx(2.203, abs=2e-3)


def test_an_operation_leaves_a_step_that_had_all() -> None:
    problem = two_devices("x>a x>b a,b>c", (1.0, 1.0), (1.0, 1.0), (0.1, 0.1))
    seconds, choice, steps = step_search.changed(problem, 2.101, [(0, [0, 1, 2])], 1000)
    check(problem, seconds, steps)
    assert sorted(choice[:2]) == [0, 1]
    assert seconds == pytest.approx(1.102)


def test_few_visits_end_it() -> None:
    problem = random_problem(random.Random(5), 10, 3)
    steps = problem.drained([0] * 10)
    assert step_search.changed(problem, problem.predicted(steps), steps, 0)[2] == steps


@sweep("seed", range(60), full=range(60, 600))
def test_changes_keep_plans_whole_and_make_none_slower(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(2, 30), rng.choice([2, 3]))
    choice = [
        rng.choice([d for d in range(problem.device_count) if costs[d] < math.inf]) for costs in problem.costs
    ]
    steps = problem.drained(choice)
    before = problem.predicted(steps)
    seconds, choice, changed = step_search.changed(problem, before, steps, 2000)
    check(problem, seconds, changed)
    assert seconds <= before
    assert [choice[n] for _, operations in changed for n in operations] == [
        device for device, operations in changed for _ in operations
    ]


def test_hardly_any_plan_of_few_operations_is_better() -> None:
    """Steps that are as large as possible are not the best ones in many of these graphs."""
    rng = random.Random(3)
    worse, larger, count = 0, 0, 150
    for _ in range(count):
        problem = random_problem(rng, rng.choice([3, 4]), 2)
        found = find_plan(problem, NAMES[:2], max_s=math.inf)
        check(problem, found.seconds, found.steps)
        least = least_of_all_plans(problem)
        assert found.seconds >= least * (1 - 1e-9)
        worse += found.seconds > least * (1 + 1e-9)
        larger += optimum(problem) > least * (1 + 1e-9)
    assert larger > 0.1 * count
    assert worse <= FEW * count


def test_large_graphs_of_few_steps_are_changed_too() -> None:
    """The second device should run a branch while the first one runs what the result needs, too."""
    before, beside = 20, 12
    lines = [f"v{n}>v{n + 1}" for n in range(before)] + ["v0>s0"] + [f"s{n}>s{n + 1}" for n in range(beside)]
    lines += [f"v{before},s{beside}>y"]
    text = " ".join(lines).replace("v0", "x")
    seconds = [(0.1, 0.9)] * before + [(0.9, 0.1)] * (beside + 1) + [(0.1, 0.1)]
    problem = two_devices(text, *seconds)
    assert problem.count > MAX_EXACT
    found = find_plan(problem, NAMES[:2])
    check(problem, found.seconds, found.steps)
    assert found.seconds == pytest.approx(2.1, abs=0.01)
