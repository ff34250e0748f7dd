"""The sequential test between a plan and the CPU device, on simulated times."""

import random

import pytest

from neurald.runtime.execution.trials.comparison import MAX_LOSS, MAX_PAIRS, TURN, Comparison, Side


def decide(
    plan_s: float,
    cpu_s: float,
    *,
    jitter: float = 0.1,
    predicted: float | None = None,
    seed: int = 0,
    cold: float = 1.0,
    change: float = 1.0,
) -> tuple[Comparison, int, float]:
    """Runs a comparison to its end; returns it, its runs, and what it cost beyond the faster side."""
    rng = random.Random(seed)
    comparison = Comparison(predicted)
    spent, runs, last = 0.0, dict.fromkeys(Side, 0), Side.PLAN
    while comparison.winner is None:
        side = comparison.next_side
        seconds = (plan_s if side is Side.PLAN else cpu_s) * rng.lognormvariate(0, jitter)
        seconds *= 1.0 if runs[side] else cold
        # Only the CPU device needs longer after runs of the other side.
        seconds *= change if side is Side.CPU and last is Side.PLAN else 1.0
        last = side
        comparison.add(side, seconds)
        runs[side] += 1
        spent += seconds
        assert sum(runs.values()) <= 2 * TURN * (MAX_PAIRS + 1)
    count = sum(runs.values())
    return comparison, count, spent - count * min(plan_s, cpu_s)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ratio", [1.3, 2.0, 5.0])
def test_the_faster_side_wins(ratio: float, seed: int) -> None:
    for plan_s, cpu_s, winner in ((ratio, 1.0, Side.CPU), (1.0, ratio, Side.PLAN)):
        comparison, _, _ = decide(plan_s, cpu_s, jitter=0.05, seed=seed)
        assert comparison.winner is winner
        assert "ms by the plan" in comparison.reason


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ratio", [1.02, 1.2, 1.5, 3.0, 8.0, 19.0])
def test_it_costs_at_most_two_percent_of_a_thousand_runs(ratio: float, seed: int) -> None:
    for plan_s, cpu_s in ((ratio, 1.0), (1.0, ratio)):
        _, _, cost = decide(plan_s, cpu_s, jitter=0.02, seed=seed)
        assert cost <= 0.02 * 1000


@pytest.mark.parametrize("ratio", [1.25, 2.0, 8.0])
def test_times_that_vary_much_need_more_runs(ratio: float) -> None:
    """Twelve pairs would choose the slower side in a tenth of the cases, and keep that decision."""
    wrong, costs = 0, []
    for seed in range(200):
        for plan_s, cpu_s, winner in ((ratio, 1.0, Side.CPU), (1.0, ratio, Side.PLAN)):
            comparison, _, cost = decide(plan_s, cpu_s, jitter=0.3, seed=seed)
            wrong += comparison.winner is not winner
            costs.append(cost)
    assert wrong <= 8
    assert sum(costs) / len(costs) <= 0.02 * 1000


def test_a_difference_that_does_not_matter_is_decided_soon() -> None:
    _, runs, _ = decide(1.0, 1.01, jitter=0.005)
    assert runs <= 4 * 2 * TURN


@pytest.mark.parametrize("seed", range(5))
def test_a_run_after_those_of_the_other_side_does_not_count(seed: int) -> None:
    comparison, _, _ = decide(1.0, 0.85, jitter=0.02, change=1.5, seed=seed)
    assert comparison.winner is Side.CPU


def test_warm_runs_before_the_cpu_device_is_ready_count() -> None:
    comparison = Comparison()
    for side, seconds in ((Side.PLAN, 2.0), (Side.PLAN, 0.05), (Side.PLAN, 0.05), (Side.CPU, 0.09)):
        comparison.add(side, seconds)
    assert comparison.winner is None
    assert comparison.typical_s(Side.PLAN) == 0.05


def test_without_a_clear_difference_the_plan_stays() -> None:
    wins = [decide(1.0, 1.0, jitter=0.0, seed=seed)[0].winner for seed in range(5)]
    assert wins == [Side.PLAN] * 5


def test_orders_of_magnitude_need_one_run_of_each() -> None:
    slow_plan, runs, _ = decide(300.0, 0.24)
    assert (slow_plan.winner, runs) == (Side.CPU, 2)
    slow_cpu, runs, _ = decide(0.24, 300.0)
    assert (slow_cpu.winner, runs) == (Side.PLAN, 2)


def test_a_cpu_device_that_is_predicted_to_be_much_slower_is_not_tried() -> None:
    comparison, runs, cost = decide(1.0, 100.0, jitter=0.0, predicted=(MAX_LOSS + 2) * 1.0)
    assert (comparison.winner, runs, cost) == (Side.PLAN, 1, 0.0)
    assert "predicted" in comparison.reason
    comparison, runs, _ = decide(1.0, 2.0, predicted=1.5)
    assert runs > 1


def test_cold_runs_do_not_count_beside_warm_ones() -> None:
    comparison, _, _ = decide(1.0, 1.5, jitter=0.02, cold=5.0)
    assert comparison.winner is Side.PLAN


def test_a_cold_run_of_the_plan_is_no_loss() -> None:
    comparison = Comparison()
    for side, seconds in ((Side.PLAN, 5.0), (Side.PLAN, 0.1), (Side.PLAN, 0.1), (Side.CPU, 0.09)):
        comparison.add(side, seconds)
    assert comparison.winner is None


def test_nothing_changes_after_the_decision() -> None:
    comparison, _, _ = decide(300.0, 0.24)
    reason = comparison.reason
    comparison.add(Side.PLAN, 1e-9)
    assert (comparison.winner, comparison.reason) == (Side.CPU, reason)
