"""Short runs of `tests/faults/run.py --soak`, and tests of its leak detection."""

import math
import os
import random
import subprocess
import sys

import pytest
from faults.attacks.attack import MIB
from faults.soak.soak import EXACT_MEMORY, Growth, Sample, slope, slope_interval, soak
from support.daemon.processes import python_path

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
    least, most = growth.memory_interval
    assert 1.5 * MIB < least < growth.memory_per_hour < most < 2.5 * MIB
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


def test_most_intervals_hold_the_slope() -> None:
    generator = random.Random(3)
    inside, rising = 0, 0
    for _ in range(400):
        points = [(float(n), 3.0 * n + generator.gauss(0, 20)) for n in range(20)]
        least, most = slope_interval(points)
        inside += least <= 3.0 <= most
        rising += least > 0
    assert 0.93 * 400 <= inside <= 0.99 * 400
    assert rising > 200
    assert slope_interval([(0.0, 1.0), (1.0, 2.0)]) == (-math.inf, math.inf)
    assert slope_interval([]) == (-math.inf, math.inf)


#: Prints the memory in use once for each ten seconds of half an hour, between which messages come
#: and go, and a leak keeps some bytes. What is freed stays in the heap.
PROGRAM = """
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from neurald.hal.process.memory.heap import keep_freed_memory, live_bytes, resident_bytes, use_one_arena

leaked_bytes, piece_bytes = int(sys.argv[1]), int(sys.argv[2])
use_one_arena()
keep_freed_memory()
generator = random.Random(2)
leaked = []

def messages(count, small):
    large = [bytes(generator.randrange(100_000, 700_000)) + b"x" for _ in range(count)]
    pinning = [bytes(generator.randrange(10, 4000)) + b"x" for _ in range(small)]
    return large, pinning

with ThreadPoolExecutor(4) as threads:
    messages(40, 4000)
    kept = 0
    for sample in range(180):
        taken = [threads.submit(messages, generator.randrange(10), generator.randrange(1000)) for _ in range(4)]
        share = leaked_bytes * (sample + 1) // 180
        while kept < share:
            leaked.append(bytes(piece_bytes - sys.getsizeof(b"")))
            kept += piece_bytes
        for each in taken:
            each.result()
        del taken, each
        print(live_bytes(), resident_bytes())
"""


def measured(bytes_per_hour: int, piece_bytes: int) -> list[Sample]:
    """Returns what a process of `PROGRAM` reports of itself."""
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(bytes_per_hour // 2), str(piece_bytes)],
        env={**os.environ, "PYTHONPATH": python_path(), **EXACT_MEMORY},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [
        Sample(
            seconds=10.0 * number,
            live_bytes=live,
            resident_bytes=resident,
            descriptors=9,
            threads=9,
        )
        for number, (live, resident) in enumerate(map(int, line.split()) for line in output.splitlines())
    ]


@pytest.mark.skipif("glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="another allocator")
@pytest.mark.parametrize("piece_bytes", [360, 3000], ids=["objects", "allocations"])
@pytest.mark.parametrize("leak", [0, 1 * MIB])
def test_a_leak_of_one_mebibyte_an_hour_is_told_apart(leak: int, piece_bytes: int) -> None:
    growth = Growth.in_samples(measured(leak, piece_bytes))
    assert growth.memory_per_hour == pytest.approx(leak, abs=0.25 * MIB)
    least, most = growth.memory_interval
    assert most - least < 0.5 * MIB
    assert least - 0.2 * MIB < leak < most + 0.2 * MIB
    assert bool(growth.faults("it", 0.5 * MIB)) == bool(leak)


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
