"""Short runs of `tests/faults/run.py --soak`, and tests of its leak detection."""

import math
import random

import pytest
from faults.attacks.attack import MIB
from faults.soak.soak import Growth, Sample, slope, soak

_HALF_HOUR_S = 1800


def samples(
    *, bytes_per_hour: float = 0.0, descriptors_per_hour: float = 0.0, threads_per_hour: float = 0.0
) -> list[Sample]:
    """Simulates half an hour of a process that fluctuates, warms up, and leaks."""
    generator = random.Random(1)
    made = []
    for second in range(0, _HALF_HOUR_S, 5):
        hours = second / 3600
        warm = min(1.0, second / 300)
        busy = generator.randrange(20 * MIB) * (generator.random() < 0.8)
        made.append(
            Sample(
                seconds=second,
                resident_bytes=int(50 * MIB + 10 * MIB * warm + busy + bytes_per_hour * hours),
                descriptors=int(20 + generator.randrange(10) + descriptors_per_hour * hours),
                threads=int(12 + generator.randrange(5) + threads_per_hour * hours),
            )
        )
    return made


def test_fluctuation_is_not_growth() -> None:
    growth = Growth.in_samples(samples())
    assert growth.memory_per_hour == pytest.approx(0, abs=0.1 * MIB)
    assert growth.faults("it") == []


def test_memory_that_is_freed_between_rises_grows_less_than_they() -> None:
    """The halves of what counts begin at 600 and 1200 seconds, after the warm-up."""
    per_hour = 6 * MIB
    growth = Growth.in_samples(
        [
            Sample(
                seconds=second, resident_bytes=int(second % 600 / 3600 * per_hour), descriptors=9, threads=9
            )
            for second in range(0, _HALF_HOUR_S, 5)
        ]
    )
    assert growth.memory_per_hour < per_hour / 2


def test_leaks_are_found() -> None:
    growth = Growth.in_samples(samples(bytes_per_hour=2 * MIB, descriptors_per_hour=60, threads_per_hour=60))
    assert growth.memory_per_hour == pytest.approx(2 * MIB, rel=0.1)
    memory, descriptors, threads = growth.faults("it")
    assert memory.startswith("it: memory grows by 2.0")
    assert descriptors.startswith("it: ")
    assert "descriptors" in descriptors
    assert "threads" in threads


def test_outliers_do_not_change_a_slope() -> None:
    points = [(float(n), 3.0 * n) for n in range(20)]
    points[7], points[13] = (7.0, 1e6), (13.0, -1e6)
    assert slope(points) == pytest.approx(3.0, rel=0.1)
    assert slope([(1.0, 5.0)]) == 0.0


@pytest.mark.full
@pytest.mark.slow
def test_a_short_soak() -> None:
    # Within three seconds sessions come and go by chance, with dozens of descriptors each.
    report = soak(3.0, clients=2, most_per_hour=math.inf, flat=60)
    assert not report["wrong"], report["wrong"]
    outcomes = report["outcomes"]
    assert all(outcomes[name] for name in ("call", "burst", "fenced", "prepared")), outcomes
    assert {who: len(each) > 5 for who, each in report["samples"].items()} == {
        "daemon": True,
        "client 0": True,
        "client 1": True,
    }
