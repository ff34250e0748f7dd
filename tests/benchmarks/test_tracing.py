"""The benchmark of traces relates what they add to calls."""

import contextlib
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.daemon.processes import python_path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "tracing" / "run.py"


def test_rows(import_benchmark: Callable[..., Any]) -> None:
    run = import_benchmark("run", "tracing")
    table = run.table_of(
        [
            run.row("slow", [90.0, 100.0, 110.0], [0.02, 0.03, 0.5]),
            run.row("as fast", [100.0] * 40, [-0.01] * 40),
        ]
    )
    found = {name: [table.value(row, name) for row in ("slow", "as fast")] for name in ("added", "from")}
    assert found == {"added": pytest.approx([3, -1]), "from": pytest.approx([150, 0])}
    assert [table.value("slow", name) for name in ("with", "least", "most")] == pytest.approx([103, 2, 50])
    assert table.value("as fast", "least") == table.value("as fast", "most") == pytest.approx(-1)


def test_the_interval_of_a_median(import_benchmark: Callable[..., Any]) -> None:
    """The bounds are those of tables of the sign test."""
    run = import_benchmark("run", "tracing")
    for count, least, most in ((1, 0, 0), (5, 0, 4), (6, 0, 5), (10, 1, 8), (25, 7, 17), (100, 39, 60)):
        assert run.median_interval([float(each) for each in reversed(range(count))]) == (least, most)
    # It has the median of a distribution nineteen times in twenty.
    source = random.Random(1)
    hits = 0
    for _ in range(1000):
        least, most = run.median_interval([source.expovariate(1) for _ in range(61)])
        hits += least <= math.log(2) <= most
    assert 930 < hits < 990


def test_kinds_of_calls_are_measured_in_turns(import_benchmark: Callable[..., Any]) -> None:
    run = import_benchmark("run", "tracing")
    made: list[str] = []

    def kind(name: str) -> Any:
        def call() -> None:
            made.append(name)
            end_s = time.monotonic() + 2e-4
            while time.monotonic() < end_s:
                pass

        return run.Calls(name, call)

    kinds = [kind("a"), kind("b")]
    made.clear()
    run.measure(kinds, rounds=2, end_s=time.monotonic() + 60)
    assert [name for name, _ in itertools.groupby(made)] == ["a", "b", "a", "b"]
    for each in kinds:
        assert len(each.without) == len(each.added) >= 2
        assert statistics.median(each.without) > 100
    before = [len(each.added) for each in kinds]
    run.measure(kinds, rounds=99, end_s=0.0)
    assert all(len(each.added) > count for each, count in zip(kinds, before, strict=True))


def test_kinds_that_are_known_well_leave_turns_to_others(
    import_benchmark: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = import_benchmark("run", "tracing")
    monkeypatch.setattr(run, "_TURN_S", 0.0)

    def kind(shares: list[float]) -> Any:
        calls = run.Calls("calls", lambda: None)
        following = itertools.cycle(shares)
        monkeypatch.setattr(calls, "measure_pair", lambda: calls.added.append(next(following)))
        return calls

    steady, varying = kind([0.01, 0.011]), kind([0.01, 0.03])
    run.measure([steady, varying], rounds=95, end_s=time.monotonic() + 60)
    assert len(varying.added) == 95
    assert len(steady.added) == 15 + 80 // 8


@pytest.mark.timed
def test_a_trace_is_found_to_add_what_it_adds(
    import_benchmark: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = import_benchmark("run", "tracing")
    is_traced = False

    @contextlib.contextmanager
    def trace() -> Iterator[None]:
        nonlocal is_traced
        is_traced = True
        yield
        is_traced = False

    def call() -> None:
        for _ in range(1200 if is_traced else 1000):
            pass

    monkeypatch.setattr(run, "trace", trace)
    calls = run.Calls("loop", call)
    for _ in range(20):
        calls.measure_pair()
    _, _, _, added, least, most, _ = run.row("loop", calls.without, calls.added)
    assert least <= added <= most
    assert 15 < added < 25


@pytest.mark.full
def test_a_short_run(tmp_path: Path) -> None:
    file = tmp_path / "tracing.json"
    command = [sys.executable, str(PROGRAM), "--rounds", "2", "--max-s", "20", "--json", str(file)]
    subprocess.run(
        [*command, "--only", "run, ", "invoke"],
        env={**os.environ, "NEURALD_AUTOSTART": "0", "PYTHONPATH": python_path()},
        capture_output=True,
        timeout=300,
        check=True,
    )
    (table,) = json.loads(file.read_text())["tables"]
    assert [row[0] for row in table["rows"]] == [
        "run, in process",
        "invoke of neurald.litert",
        "run, daemon",
        "run, gRPC",
    ]
    for _, without, with_trace, *_ in table["rows"]:
        assert 0 < without < 1e6
        assert 0 < with_trace < 1e6
