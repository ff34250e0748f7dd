"""Executions are chosen for verification, and a seeded device that is wrong is found."""

import math
import random
from collections.abc import Callable
from itertools import count, pairwise

import pytest

from neurald.runtime.execution.verification.sampling import (
    FIRST,
    MEASURED,
    MIN_SHARE,
    WITHOUT_FAST_PATH,
    Sampler,
    certain_distance,
)


def verified(
    sampler: Sampler,
    runs: int,
    *,
    run_s: float = 1e-3,
    copies_s: float = 1e-5,
    cpu_s: float = 1e-3,
    disturbed_s: float | None = None,
) -> list[int]:
    """Returns which of this many runs are verified.

    Args:
        sampler: chooses them.
        runs: how many.
        run_s: how long a run takes.
        copies_s: how long one waits for the copies of a verified run.
        cpu_s: how long the CPU device takes for it, meanwhile.
        disturbed_s: how long others take meanwhile; None if that makes no difference.
    """
    found = []
    busy_s = 0.0
    for number in range(runs):
        if len(sampler.noted) >= sampler.pause and sampler.is_due:
            found.append(number)
            is_waiting = bool(sampler.verified) and not sampler.verifies_all
            sampler.verified_run(run_s, copies_s if is_waiting else copies_s + cpu_s, is_waiting=is_waiting)
        else:
            sampler.ran(run_s if disturbed_s is None or not sampler.waiting else disturbed_s)
        busy_s += run_s
        while sampler.waiting and busy_s >= cpu_s:
            busy_s -= cpu_s
            sampler.compared(cpu_s)
        busy_s = busy_s if sampler.waiting else 0.0
    return found


def runs_until_found(
    is_wrong: Callable[[int], bool], seed: int, *, ready: int = 0, cpu_s: float = 1e-3
) -> int:
    """Returns after how many runs one that is wrong is verified."""
    sampler = Sampler(0.01, seed=seed)
    for number in count():
        if number < ready or len(sampler.noted) < sampler.pause or not sampler.is_due:
            sampler.ran(1e-3)
            continue
        sampler.verified_run(1e-3, 1e-5)
        sampler.compared(cpu_s)
        if is_wrong(number):
            break
    return sampler.runs


def test_the_first_runs_and_then_four_times_the_share_of_all_are_verified() -> None:
    found = verified(Sampler(0.01, seed=1), 20_000)
    assert found[:FIRST] == list(range(FIRST))
    assert 800 <= len(found) <= 812
    distances = {after - before for before, after in pairwise(found[FIRST:])}
    assert len(distances) > 40
    assert max(distances) < 50


@pytest.mark.parametrize(("cpu_s", "least"), [(1e-4, 44), (1e-3, 44), (2e-3, 44), (4e-3, 22), (30e-3, 3)])
def test_a_thousand_runs_have_enough_verified_ones_at_a_hundredth_of_their_time(
    cpu_s: float, least: int
) -> None:
    """44 of them miss a fault of one run in ten with a probability of 0.01."""
    for seed in range(20):
        found = verified(Sampler(0.01, seed=seed), 1000, cpu_s=cpu_s, copies_s=5e-5)
        assert least <= len(found) <= 51
        # But for the first one, and those that find a fault of every n-th run for certain.
        assert len(found) * cpu_s <= max(0.1, FIRST * cpu_s) + 2 * cpu_s
        assert len(found) * WITHOUT_FAST_PATH * 5e-5 <= 0.01


@pytest.mark.parametrize("runs", [1000, 6000])
def test_what_verification_slows_down_counts(runs: int) -> None:
    """Copies take half of a run, or others take half longer meanwhile: then there are fewer."""
    for seed in range(5):
        found = verified(Sampler(0.01, seed=seed), runs, copies_s=5e-4)
        assert 0.005 * runs <= len(found) <= max(0.01 * runs, FIRST + 2)
        disturbed = verified(Sampler(0.01, seed=seed), runs, cpu_s=2e-3, disturbed_s=1.5e-3)
        assert len(disturbed) <= 0.025 * runs + FIRST


def test_what_is_usual_follows_a_device_that_becomes_slower() -> None:
    """Runs that all take longer are not taken for runs that verification disturbs."""
    sampler = Sampler(0.01, seed=7)
    verified(sampler, 3000)
    found = verified(sampler, 6000, run_s=1.5e-3, cpu_s=2e-3)
    assert 230 <= len(found) <= 245


def test_a_slow_first_run_does_not_count_for_the_others() -> None:
    sampler = Sampler(0.01, seed=4)
    sampler.verified_run(1.0, 30e-3, is_waiting=False)
    assert sampler.is_due
    sampler.verified_run(1e-3, 1e-5)
    sampler.compared(30e-3)
    found = verified(sampler, 900, cpu_s=30e-3)
    # The first run alone allows three; the others are certain.
    assert len([number for number in found if number < 90]) <= 6
    assert len(found) <= FIRST


@pytest.mark.parametrize("every", range(1, FIRST + 1))
def test_what_is_wrong_in_every_nth_run_is_found_by_the_first_ones(every: int) -> None:
    for phase in range(every):
        ready = 7 * phase
        found = runs_until_found(lambda n, p=phase: n % every == p, seed=phase, ready=ready)  # type: ignore[misc]
        assert found <= ready + every


@pytest.mark.parametrize("every", range(1, FIRST + 1))
@pytest.mark.parametrize("shortage", ["copies", "CPU", "never compared"])
def test_what_is_wrong_in_every_nth_run_is_found_within_a_thousand_on_a_busy_machine(
    every: int, shortage: str
) -> None:
    """However little time verification has: among the certain runs is a wrong one."""
    for phase in range(every):
        sampler = Sampler(0.01, seed=phase)
        sampler.verified_run(1e-3, 1e-3, is_waiting=False)
        while phase:
            number = sampler.runs
            assert number <= 1000
            if len(sampler.noted) < sampler.pause or not sampler.is_due:
                sampler.ran(1e-3)
                continue
            sampler.verified_run(1e-3, 0.5 if shortage == "copies" else 1e-5)
            if number % every == phase:
                break
            if shortage != "never compared":
                sampler.compared(10.0 if shortage == "CPU" else 1e-3)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.3, 0.1, 0.01, 0.003, MIN_SHARE])
def test_certain_runs_have_a_distance_without_common_divisors(share: float) -> None:
    distance = certain_distance(share)
    assert 1 <= distance <= 1 / share
    assert all(math.gcd(distance, period) == 1 for period in range(2, FIRST + 1))


def test_no_run_is_certain_after_ten_in_a_row() -> None:
    sampler = Sampler(0.01, seed=1)
    for _ in range(FIRST):
        assert sampler.is_due
        sampler.verified_run(1e-3, 1e-5)
        sampler.compared(1e-3)
    for _ in range(900):
        assert not sampler.is_certain
        sampler.ran(1e-3)


def test_what_is_wrong_at_random_is_found_within_a_thousand_runs() -> None:
    """One in ten runs at random: 49 verified runs miss it with a probability of 0.9^49 = 0.006."""
    found = []
    for seed in range(300):
        rng = random.Random(seed)
        found.append(runs_until_found(lambda _, rng=rng: rng.random() < 0.1, seed))  # type: ignore[misc]
    found.sort()
    assert found[150] <= FIRST
    assert sum(runs <= 1000 for runs in found) >= 293


@pytest.mark.parametrize("cpu_s", [1e-3, 3e-3, 30e-3])
def test_what_becomes_wrong_later_is_found_whatever_its_period(cpu_s: float) -> None:
    """Also if the time for verifications, not their number, decides when they are due."""
    factor = max(1.0, cpu_s / 2.5e-3)
    found = sorted(
        runs_until_found(lambda n: n >= 5000 and n % 10 == 9, seed, cpu_s=cpu_s) for seed in range(30)
    )
    assert found[15] <= 5000 + 400 * factor
    assert len(set(found)) > 10


def test_the_budget_is_not_computed_before_every_run() -> None:
    """Runs of 0.2 ms may spend 2 us each for all of verification."""
    sampler = Sampler(0.01, seed=6)
    sampler.verified_run(2e-4, 1e-3, is_waiting=False)
    for _ in range(FIRST):
        sampler.verified_run(2e-4, 4e-4)
        sampler.compared(1e-4)
    computed = 0
    for _ in range(1000):
        if len(sampler.noted) >= sampler.pause:
            computed += 1
            if sampler.is_due:
                break
        sampler.ran(2e-4)
    assert sampler.runs == 1 + FIRST + 1000
    assert computed <= 100
    assert not sampler.is_due
    while not sampler.is_due:
        sampler.ran(2e-4)
    # A quarter of the share is for noting times, and the first run took time as well.
    assert 0.6 <= FIRST * WITHOUT_FAST_PATH * 4e-4 / (0.01 * MEASURED * 2e-4 * sampler.runs) <= 0.75


def test_all_runs_are_verified_if_all_are_wanted() -> None:
    sampler = Sampler(1.0)
    assert sampler.patience == 0
    assert verified(sampler, 50, cpu_s=1.0) == list(range(50))
    assert sampler.runs == sampler.verified == 50
    assert not sampler.waiting


def test_no_more_than_ten_runs_wait_to_be_compared() -> None:
    sampler = Sampler(0.5, seed=5)
    for _ in range(FIRST):
        assert sampler.is_due
        sampler.verified_run(1e-3, 1e-5)
    assert not sampler.is_due
    sampler.compared(1e-3)
    for _ in range(3):
        sampler.ran(1e-3)
    assert sampler.is_due


def test_runs_whose_time_is_not_known_count_as_usual_ones() -> None:
    sampler = Sampler(0.5, seed=3)
    for _ in range(30):
        sampler.verified_run(1e-3, 4e-3 / WITHOUT_FAST_PATH)
        sampler.compared(1e-3)
    # 120 ms were spent, for which 147 runs have to be made; a part of the next is saved before.
    for _ in range(115):
        sampler.ran(None)
    assert not sampler.is_due
    for _ in range(6):
        sampler.ran(None)
    assert sampler.is_due
