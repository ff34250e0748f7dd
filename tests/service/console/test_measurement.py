import time

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.service.console.measurement import RunControl, repeat, summarise


def control(runs: int = 1, min_s: float = 0.0, max_s: float = 100.0) -> RunControl:
    return RunControl(runs=runs, min_s=min_s, max_s=max_s)


def test_summary() -> None:
    seconds = np.random.default_rng(0).permutation(np.arange(1, 101)) / 1000
    figures = summarise(seconds.tolist())
    assert figures["runs"] == 100
    assert figures["min_ms"] == pytest.approx(1)
    assert figures["median_ms"] == pytest.approx(50.5)
    assert figures["mean_ms"] == pytest.approx(50.5)
    assert figures["p90_ms"] == pytest.approx(90.1)
    assert figures["p99_ms"] == pytest.approx(99.01)
    assert figures["max_ms"] == pytest.approx(100)
    assert figures["std_ms"] == pytest.approx(np.std(np.arange(1, 101)))
    assert figures["inferences_per_s"] == pytest.approx(100 / 5.05)


def test_other_percentiles_are_stated_besides_the_usual_ones() -> None:
    figures = summarise([0.001, 0.002, 0.003], [50, 99.9])
    assert [name for name in figures if name.startswith("p")] == ["p50_ms", "p90_ms", "p99_ms", "p99.9_ms"]
    assert figures["p50_ms"] == pytest.approx(2)


def test_summary_of_one_and_of_nothing_measurable() -> None:
    assert summarise([0.25])["p99_ms"] == pytest.approx(250)
    assert summarise([0.25])["std_ms"] == 0
    assert summarise([0.0])["inferences_per_s"] == 0


@sweep(
    ("given", "runs", "elapsed", "done"),
    [
        (control(runs=50, min_s=1), 49, 5.0, False),
        (control(runs=50, min_s=1), 50, 0.9, False),
        (control(runs=50, min_s=1), 50, 1.0, True),
        (control(runs=50, min_s=1, max_s=3), 2, 3.0, True),
        (control(runs=1, min_s=0), 1, 0.0, True),
        (control(runs=0, min_s=0.5), 3, 0.4, False),
        (control(runs=9, min_s=9, max_s=0), 1, 0.0, True),
    ],
)
def test_when_enough_was_run(given: RunControl, runs: int, elapsed: float, done: bool) -> None:
    assert (given.share_done(runs, elapsed) >= 1) == done


def test_share_done_is_that_of_the_slower_condition() -> None:
    assert control(runs=100, min_s=10).share_done(50, 1.0) == pytest.approx(0.1)
    assert control(runs=100, min_s=1).share_done(20, 0.9) == pytest.approx(0.2)
    assert control(runs=100, min_s=10, max_s=20).share_done(1, 15.0) == pytest.approx(0.75)


def test_repeat_runs_until_all_conditions_hold() -> None:
    shares: list[float] = []
    seconds = repeat(lambda: 0.5, control(runs=7), shares.append)
    assert seconds == [0.5] * 7
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_repeat_runs_at_least_once() -> None:
    assert len(repeat(lambda: 0.0, control(runs=100, max_s=0))) == 1


def test_repeat_keeps_to_times() -> None:
    def wait() -> float:
        time.sleep(0.001)
        return 0.001

    start = time.perf_counter()
    repeat(wait, control(runs=1, min_s=0.05))
    repeat(wait, control(runs=10**6, max_s=0.05))
    assert 0.1 <= time.perf_counter() - start < 30
