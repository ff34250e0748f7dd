"""The benchmark of traces relates what they add to calls."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.daemon.processes import python_path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "tracing" / "run.py"


def test_rows(import_benchmark: Callable[..., Any]) -> None:
    run = import_benchmark("run", "tracing")
    table = run.table_of([run.row("slow", 100.0, 103.0, 3.0), run.row("as fast", 100.0, 99.0, -1.0)])
    assert [table.value("slow", name) for name in ("added", "from")] == [pytest.approx(3), pytest.approx(150)]
    assert table.value("as fast", "from") == 0


def test_a_call_is_measured_in_turns(import_benchmark: Callable[..., Any]) -> None:
    run = import_benchmark("run", "tracing")
    made: list[float] = []
    without, with_trace, added = run.measured(
        lambda: made.append(time.monotonic()), rounds=3, end_s=time.monotonic() + 60
    )
    assert len(made) > 3 * 2 * run._LEAST_CALLS + run._WARM_UP
    assert without > 0 < with_trace
    assert abs(added) <= with_trace + without
    before = len(made)
    run.measured(lambda: made.append(0.0), rounds=99, end_s=0.0)
    assert len(made) > before


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
