"""The benchmark of clients of one daemon measures many clients, or the executions of one, alone."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "ipc" / "clients.py"


@pytest.mark.parametrize(
    ("depths", "names"),
    [
        ((), ["1 client", "8 clients"]),
        ((1, 2), ["1 client", "1 client, 2 under way", "1 client, arrays", "1 client, 2 under way, arrays"]),
    ],
)
def test_each_part_is_measured_alone(
    import_benchmark: Callable[..., Any], depths: tuple[int, ...], names: list[str]
) -> None:
    cases = import_benchmark("clients", "ipc").cases_of((1, 8), depths)
    assert [case.name for case in cases] == names


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "title", "rows"),
    [
        (("--clients", "1", "2"), "Many clients of one daemon", ["1 client", "2 clients"]),
        (
            ("--depths", "2"),
            "Executions under way of one client",
            ["1 client, 2 under way", "1 client, 2 under way, arrays"],
        ),
    ],
)
def test_a_short_run(tmp_path: Path, options: tuple[str, ...], title: str, rows: list[str]) -> None:
    file = tmp_path / "clients.json"
    subprocess.run(
        [sys.executable, str(PROGRAM), *options, "--seconds", "0.2", "--rounds", "1", "--json", str(file)],
        env={**os.environ, "NEURALD_AUTOSTART": "0"},
        capture_output=True,
        timeout=300,
        check=True,
    )
    result = json.loads(file.read_text())
    assert result["title"] == title
    assert [row[0] for row in result["tables"][0]["rows"]] == rows
