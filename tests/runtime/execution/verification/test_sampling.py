"""Which executions are verified, and after how many a seeded device that is wrong is found."""

import random
from collections.abc import Callable
from itertools import count, pairwise

import pytest

from neurald.runtime.execution.verification.sampling import FIRST, Sampler


def verified(sampler: Sampler, runs: int, *, device_s: float = 1e-3, extra_s: float = 1e-3) -> list[int]:
    """Returns which of so many runs are verified."""
    found = []
    for number in range(runs):
        if sampler.is_due:
            found.append(number)
            sampler.verified_run(device_s, extra_s)
        else:
            sampler.ran(device_s)
    return found


def runs_until_found(
    is_wrong: Callable[[int], bool], seed: int, *, ready: int = 0, extra_s: float = 1e-3
) -> int:
    """Returns after how many runs one that is wrong is verified."""
    sampler = Sampler(0.01, seed=seed)
    for number in count():
        if number < ready or not sampler.is_due:
            sampler.ran(1e-3)
            continue
        sampler.verified_run(1e-3, extra_s)
        if is_wrong(number):
            break
    return sampler.runs


def test_the_first_runs_and_then_the_wanted_share_of_all_are_verified() -> None:
    found = verified(Sampler(0.01, seed=1), 20_000)
    assert found[:FIRST] == list(range(FIRST))
    assert found[FIRST] >= 900
    assert 195 <= len(found) <= 201
    distances = {after - before for before, after in pairwise(found[FIRST:])}
    assert len(distances) > 50


@pytest.mark.parametrize("extra_s", [1e-4, 1e-3])
def test_the_first_thousand_runs_take_the_wanted_share_more(extra_s: float) -> None:
    assert FIRST <= len(verified(Sampler(0.01, seed=3), 1000, extra_s=extra_s)) <= FIRST + 1
    # The CPU device takes three times as long as the device, so there are fewer.
    assert len(verified(Sampler(0.01, seed=3), 1000, extra_s=3e-3)) == 3


def test_a_slow_first_run_does_not_count_for_the_others() -> None:
    sampler = Sampler(0.01, seed=4)
    sampler.verified_run(1.0, 3e-3)
    assert sampler.is_due
    sampler.verified_run(1e-3, 3e-3)
    found = verified(sampler, 900, extra_s=30e-3)
    assert len(found) <= 1


@pytest.mark.parametrize("every", range(1, FIRST + 1))
def test_what_is_wrong_in_every_nth_run_is_found_by_the_first_ones(every: int) -> None:
    for phase in range(every):
        ready = 7 * phase
        found = runs_until_found(lambda n, p=phase: n % every == p, seed=phase, ready=ready)  # type: ignore[misc]
        assert found <= ready + every


def test_what_is_wrong_at_random_is_found_as_early_as_the_share_allows() -> None:
    """One in ten runs at random: ten verified runs miss it with 0.9^10 = 0.35."""
    found = []
    for seed in range(300):
        rng = random.Random(seed)
        found.append(runs_until_found(lambda _, rng=rng: rng.random() < 0.1, seed))  # type: ignore[misc]
    found.sort()
    assert found[150] <= FIRST
    assert 0.55 < sum(runs <= 1000 for runs in found) / len(found) < 0.75
    assert found[285] <= 4000


@pytest.mark.parametrize("extra_s", [1e-3, 3e-3, 30e-3])
def test_what_becomes_wrong_later_is_found_whatever_its_period(extra_s: float) -> None:
    """Also if the time for verifications, not their number, decides when they are due."""
    factor = max(1.0, extra_s / 1e-3)
    found = sorted(
        runs_until_found(lambda n: n >= 5000 and n % 10 == 9, seed, extra_s=extra_s) for seed in range(60)
    )
    assert found[30] <= 5000 + 1500 * factor
    assert len(set(found)) > 20


def test_all_runs_are_verified_if_all_are_wanted() -> None:
    sampler = Sampler(1.0)
    assert sampler.patience == 0
    assert verified(sampler, 50, extra_s=1.0) == list(range(50))
    assert sampler.runs == sampler.verified == 50


def test_verifications_take_at_most_the_wanted_share_of_the_time() -> None:
    # The CPU device takes 30 times as long as the device.
    found = verified(Sampler(0.01, seed=2), 30_000, extra_s=30e-3)
    assert 8 <= len(found) <= 11
    # It is ten times as fast.
    assert len(verified(Sampler(0.01, seed=2), 10_000, extra_s=1e-4)) > 60


def test_runs_whose_time_is_not_known_count_as_usual_ones() -> None:
    sampler = Sampler(0.5, seed=3)
    for _ in range(FIRST):
        sampler.verified_run(1e-3, 4e-3)
    # 40 ms were spent, for which 40 runs have to take as long; a part of the next is saved before.
    for _ in range(29):
        sampler.ran(None)
    assert not sampler.is_due
    for _ in range(6):
        sampler.ran(None)
    assert sampler.is_due
