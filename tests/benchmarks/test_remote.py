"""The benchmark of executions on other hosts relates them to the link that it measures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "ipc" / "remote.py"


@pytest.mark.full
def test_a_short_run(tmp_path: Path) -> None:
    file = tmp_path / "remote.json"
    command = [sys.executable, str(PROGRAM), "--bytes", "1024", "65536", "--rounds", "1", "--gbit", "0.1"]
    subprocess.run(
        [*command, "--json", str(file)],
        env={**os.environ, "NEURALD_AUTOSTART": "0"},
        capture_output=True,
        timeout=300,
        check=True,
    )
    (table,) = json.loads(file.read_text())["tables"]
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    assert [row["case"] for row in rows] == [
        f"{way}, {size} bytes" for way in ("plain", "TLS") for size in ("1,024", "65,536")
    ]
    for row, size in zip(rows, (1024, 65536) * 2, strict=True):
        assert row["bytes_us"] == pytest.approx(2 * size / row["rate_mb_per_s"])
        rest = row["here_us"] + row["round_trip_us"] + row["bytes_us"] + row["overhead_us"]
        assert row["execution_us"] == pytest.approx(rest)
        assert 0 < row["socket_round_trip_us"] < 1e6
        assert 0 < row["rate_mb_per_s"] < 12.5 * 2
        assert 0 < row["socket_rate_mb_per_s"] < 12.5 * 2
