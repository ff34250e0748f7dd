"""Programs that neurald starts load no modules of the folder that somebody works in."""

import re
import subprocess
from pathlib import Path

import pytest

from neurald.hal.process.own_program import find_modules_here, own_program

_SOURCES = Path(__file__).parents[3]


def test_modules_in_the_current_folder_are_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "typing_extensions.py").write_text("raise SystemExit(77)\n")
    (tmp_path / "neurald.py").write_text("raise SystemExit(78)\n")
    done = subprocess.run(own_program("neurald", "--version"), cwd=tmp_path, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_folder_comes_after_all_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.path", ["/packages"])
    monkeypatch.chdir(tmp_path)
    find_modules_here()
    import sys

    assert sys.path == ["/packages", str(tmp_path)]


def test_all_programs_are_started_in_this_way() -> None:
    found = [
        str(file.relative_to(_SOURCES))
        for package in ("hal", "runtime", "drivers", "service")
        for file in (_SOURCES / package).rglob("*.py")
        if re.search(r'sys\.executable,\s*"-m"', file.read_text()) or '"-m", "neurald' in file.read_text()
    ]
    assert found == []
