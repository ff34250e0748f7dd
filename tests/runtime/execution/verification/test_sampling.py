from itertools import pairwise

from neurald.runtime.execution.verification.sampling import Sampler


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


def test_the_first_run_and_about_the_wanted_share_of_all_are_verified() -> None:
    found = verified(Sampler(0.01, seed=1), 20_000)
    assert found[0] == 0
    assert 120 <= len(found) <= 280
    distances = {after - before for before, after in pairwise(found)}
    # Faults of every second or every tenth execution are found, too.
    assert len(distances) > 20


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
    sampler.verified_run(1e-3, 4e-3)
    for _ in range(2):
        sampler.ran(None)
    assert not sampler.is_due
    for _ in range(3):
        sampler.ran(None)
    assert sampler.is_due
