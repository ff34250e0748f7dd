"""Programs are started with a Python interpreter, and never with an application."""

import re
import sys
from pathlib import Path

import pytest

from neurald.hal.errors import BadState
from neurald.hal.process.interpreter import interpreter
from neurald.hal.process.own_program import own_program

_SOURCES = Path(__file__).parents[3]
#: Files that name the interpreter in messages, or look for what is installed beside it.
_NAMING = {
    "hal/process/interpreter.py",
    "service/benchmark/peers.py",
    "service/diagnosis/installation.py",
    "service/installation/installer.py",
}


def _install(folder: Path) -> Path:
    """Returns a file in the place of the interpreter of an installation in a folder."""
    path = folder / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    path.parent.mkdir()
    path.touch(mode=0o755)
    return path


@pytest.mark.parametrize(
    "path",
    ["/usr/bin/python3", "/venv/bin/python3.13t", "/usr/libexec/platform-python3.6", "/opt/bin/pypy3", ""],
)
def test_interpreters_are_known_by_their_names(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", path)
    assert interpreter() == path


def test_an_application_that_embeds_python_is_not_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path))
    assert interpreter() == ""
    installed = _install(tmp_path)
    assert interpreter() == str(installed)


def test_an_application_that_was_built_from_python_is_not_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _install(tmp_path)
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python3"))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert interpreter() == ""
    with pytest.raises(BadState, match=r"neurald cannot be started as a program: .* is not known"):
        own_program("neurald")


def test_no_other_code_starts_what_is_called_the_executable() -> None:
    found = {
        str(file.relative_to(_SOURCES))
        for package in ("hal", "runtime", "drivers", "service")
        for file in (_SOURCES / package).rglob("*.py")
        if re.search(r"\bsys\.executable\b", file.read_text())
    }
    assert found == _NAMING
