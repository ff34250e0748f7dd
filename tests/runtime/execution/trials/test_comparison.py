"""The sequential test between a plan and its rivals, on simulated times."""

import itertools
import random
from collections.abc import Sequence

import pytest

from neurald.runtime.execution.trials.comparison import (
    MAX_LOSS,
    MAX_PAIRS,
    PLAN,
    TURN,
    Comparison,
    Expectation,
)

CPU, GPU = 1, 2


def started(expected: Sequence[float | None] = (None,)) -> Comparison:
    names = ("the CPU device", "gpu")
    return Comparison(
        [Expectation(name=name, seconds=each) for name, each in zip(names, expected, strict=False)]
    )


def decide(
    *times: float,
    jitter: float = 0.1,
    expected: Sequence[float | None] = (None, None),
    seed: int = 0,
    cold: float = 1.0,
    change: float = 1.0,
) -> tuple[Comparison, int, float]:
    """Runs a comparison to its end; returns it, its runs, and what it cost beyond the fastest."""
    rng = random.Random(seed)
    comparison = started(expected[: len(times) - 1])
    spent, runs, last = 0.0, [0] * len(times), PLAN
    while comparison.winner is None:
        one = comparison.next_one
        seconds = times[one] * rng.lognormvariate(0, jitter)
        seconds *= 1.0 if runs[one] else cold
        # Only rivals need longer after runs of others.
        seconds *= change if one != PLAN and last != one else 1.0
        last = one
        comparison.add(one, seconds)
        runs[one] += 1
        spent += seconds
        assert sum(runs) <= len(times) * TURN * (MAX_PAIRS + 1)
    return comparison, sum(runs), spent - sum(runs) * min(times)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ratio", [1.3, 2.0, 5.0])
def test_the_fastest_wins(ratio: float, seed: int) -> None:
    for times in ((ratio, 1.0), (1.0, ratio), *itertools.permutations((1.0, ratio, 1.7 * ratio))):
        comparison, _, _ = decide(*times, jitter=0.05, seed=seed)
        assert comparison.winner == times.index(1.0)
        assert "ms by the plan" in comparison.reason


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ratio", [1.02, 1.2, 1.5, 3.0, 8.0, 19.0])
def test_it_costs_at_most_two_percent_of_a_thousand_runs(ratio: float, seed: int) -> None:
    for times in ((ratio, 1.0), (1.0, ratio), *itertools.permutations((1.0, ratio, 1.04 * ratio))):
        _, _, cost = decide(*times, jitter=0.02, seed=seed)
        # Of each there is one run, at least: the fastest is not known before.
        assert cost <= max(0.02 * 1000, 1.1 * (sum(times) - len(times)))


@pytest.mark.parametrize("ratio", [1.25, 2.0, 8.0])
def test_times_that_vary_much_need_more_runs(ratio: float) -> None:
    """Twelve pairs would choose the slower side in a tenth of the cases, and keep that decision."""
    wrong, costs = 0, []
    for seed in range(200):
        for times in ((ratio, 1.0), (1.0, ratio)):
            comparison, _, cost = decide(*times, jitter=0.3, seed=seed)
            wrong += comparison.winner != times.index(1.0)
            costs.append(cost)
    assert wrong <= 8
    assert sum(costs) / len(costs) <= 0.02 * 1000


@pytest.mark.parametrize("ratio", [1.4, 2.0, 6.0])
def test_rivals_of_varying_times_share_the_costs(ratio: float) -> None:
    wrong, costs = 0, []
    for seed in range(100):
        for times in itertools.permutations((1.0, ratio, 1.1 * ratio)):
            comparison, _, cost = decide(*times, jitter=0.2, seed=seed)
            wrong += comparison.winner != times.index(1.0)
            costs.append(cost)
    assert wrong <= 6
    assert sum(costs) / len(costs) <= 0.02 * 1000


def test_a_difference_that_does_not_matter_is_decided_soon() -> None:
    _, runs, _ = decide(1.0, 1.01, jitter=0.005)
    assert runs <= 4 * 2 * TURN
    comparison, runs, _ = decide(1.0, 1.01, 1.005, jitter=0.005)
    assert (comparison.winner, runs <= 4 * 3 * TURN) == (PLAN, True)


@pytest.mark.parametrize("seed", range(5))
def test_a_run_after_those_of_others_does_not_count(seed: int) -> None:
    for times in ((1.0, 0.85), (1.0, 1.2, 0.85)):
        comparison, _, _ = decide(*times, jitter=0.02, change=1.5, seed=seed)
        assert comparison.winner == times.index(0.85)


def test_warm_runs_before_a_rival_is_ready_count() -> None:
    comparison = started()
    for one, seconds in ((PLAN, 2.0), (PLAN, 0.05), (PLAN, 0.05), (CPU, 0.09)):
        comparison.add(one, seconds)
    assert comparison.winner is None
    assert comparison.typical_s(PLAN) == 0.05


def test_without_a_clear_difference_the_plan_stays() -> None:
    wins = [decide(1.0, 1.0, jitter=0.0, seed=seed)[0].winner for seed in range(5)]
    assert wins == [PLAN] * 5
    assert decide(1.5, 1.0, 1.0, jitter=0.0)[0].winner == CPU


def test_orders_of_magnitude_need_one_run_of_each() -> None:
    slow_plan, runs, _ = decide(300.0, 0.24)
    assert (slow_plan.winner, runs) == (CPU, 2)
    slow_cpu, runs, _ = decide(0.24, 300.0)
    assert (slow_cpu.winner, runs) == (PLAN, 2)
    fast_gpu, runs, _ = decide(300.0, 200.0, 0.24)
    assert (fast_gpu.winner, runs) == (GPU, 3)


def test_a_rival_that_is_expected_to_be_much_slower_is_not_tried() -> None:
    hopeless = (MAX_LOSS + 2) * 1.0
    comparison, runs, cost = decide(1.0, 100.0, jitter=0.0, expected=[hopeless])
    assert (comparison.winner, runs, cost) == (PLAN, 1, 0.0)
    assert "21000 ms predicted on the CPU device" in comparison.reason
    comparison, runs, _ = decide(1.0, 2.0, expected=[1.5])
    assert runs > 1
    comparison, _, _ = decide(1.0, 100.0, 0.5, expected=[hopeless, 1.0])
    assert comparison.winner == GPU


def test_what_a_run_in_the_background_took_counts_like_a_prediction() -> None:
    comparison = started((None, 1.0))
    comparison.add(PLAN, 1.0)
    comparison.expect(GPU, 100.0)
    assert not comparison.is_left(GPU)
    assert comparison.next_one == CPU


def test_cold_runs_do_not_count_beside_warm_ones() -> None:
    comparison, _, _ = decide(1.0, 1.5, jitter=0.02, cold=5.0)
    assert comparison.winner == PLAN


def test_a_cold_run_of_the_plan_is_no_loss() -> None:
    comparison = started()
    for one, seconds in ((PLAN, 5.0), (PLAN, 0.1), (PLAN, 0.1), (CPU, 0.09)):
        comparison.add(one, seconds)
    assert comparison.winner is None


def test_a_rival_that_fails_leaves_the_others() -> None:
    comparison = started((None, None))
    for one, seconds in ((PLAN, 1.0), (CPU, 0.5), (GPU, 0.4)):
        comparison.add(one, seconds)
    comparison.drop(GPU, "gpu: it failed: broken")
    assert comparison.winner is None
    while comparison.winner is None:
        one = comparison.next_one
        comparison.add(one, 1.0 if one == PLAN else 0.5)
    assert comparison.winner == CPU
    assert "gpu: it failed: broken" in comparison.reason


def test_without_rivals_the_plan_stays() -> None:
    comparison = started()
    comparison.drop(CPU, "the CPU device: it cannot run the whole model")
    assert comparison.winner is None
    comparison.add(PLAN, 1.0)
    assert comparison.winner == PLAN
    assert comparison.reason.startswith("1000 ms by the plan, measured in 1 run; the CPU device: it cannot")


def test_nothing_changes_after_the_decision() -> None:
    comparison, _, _ = decide(300.0, 0.24)
    reason = comparison.reason
    comparison.add(PLAN, 1e-9)
    comparison.drop(PLAN, "broken")
    assert (comparison.winner, comparison.reason) == (CPU, reason)
