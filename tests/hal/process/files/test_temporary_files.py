"""The directory of temporary files, where a container is read-only, too."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.daemon.processes import python_path

from neurald.hal.process.files.temporary_files import named_temporary_files, temporary_files

_ROOT = Path(__file__).parents[4]
_HERE = "hal/process/files/temporary_files.py"

#: Compiles, runs and lists devices in a process that can write temporary files nowhere.
_PROGRAM = """
import tempfile
def nowhere():
    raise FileNotFoundError(2, "No usable temporary directory found")
tempfile.gettempdir = nowhere

import numpy as np, neurald as nd
from support.models.addition import addition
print(float(nd.compile(addition(np.ones(2)))(np.full(2, 2, np.float32))[0][0]), nd.devices()[0].name)
"""


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert temporary_files() == named_temporary_files() == tmp_path


def test_a_machine_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert temporary_files() is None
    monkeypatch.setenv("TMPDIR", "/data")
    assert named_temporary_files() == Path("/data")
    monkeypatch.delenv("TMPDIR")
    assert named_temporary_files() == Path("/tmp")


def test_a_program_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": python_path()},
    )
    assert ran.stdout == "3.0 cpu\n", ran.stderr


def test_all_packages_ask_in_one_way() -> None:
    found = [
        str(path.relative_to(_ROOT))
        for package in ("hal", "drivers", "runtime", "service")
        for path in (_ROOT / package).rglob("*.py")
        if "gettempdir" in path.read_text()
    ]
    assert found == [_HERE], "ask temporary_files()"
