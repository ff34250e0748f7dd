"""The benchmark of a client beside hogs measures both, and makes a table of the figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "ipc" / "neighbours.py"


@pytest.mark.full
def test_a_short_run(tmp_path: Path) -> None:
    file = tmp_path / "neighbours.json"
    command = [sys.executable, str(PROGRAM), "--hogs", "1", "--rounds", "1", "--seconds", "0.2"]
    done = subprocess.run(
        [*command, "--settings", "other users, TLS", "HIGH", "--json", str(file)],
        env={**os.environ, "NEURALD_AUTOSTART": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert file.exists(), done.stderr
    (table,) = json.loads(file.read_text())["tables"]
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    assert [row["setting"] for row in rows] == [
        "other users, TLS",
        "the same user, crowded, HIGH beside LOW",
    ]
    for row in rows:
        assert 0 < row["p50_alone_us"] <= row["p99_alone_us"]
        assert row["hogs_per_s"] > 0
    missed = rows[0]["p99_ratio"] > rows[0]["goal"]
    assert done.returncode == int(missed and len(os.sched_getaffinity(0)) >= 6)
