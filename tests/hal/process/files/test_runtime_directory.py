"""The directory in which the daemons of a user listen."""

import os
from pathlib import Path

import pytest

from neurald.hal.process.files import runtime_directory as module
from neurald.hal.process.files.runtime_directory import (
    MACHINE_VARIABLE,
    address_of,
    in_machine_directory,
    machine_directory,
    machine_user,
    runtime_directory,
)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert runtime_directory() == tmp_path / "neurald"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    assert runtime_directory() == tmp_path / "tmp" / f"neurald-{os.getuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    assert runtime_directory() == tmp_path / "tmp" / f"neurald-{os.getuid()}"


def test_daemons_listen_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert str(address_of("cpu", None)) == f"unix://{tmp_path}/neurald/cpu.sock"
    assert str(address_of("my.driver:make", None)) == f"unix://{tmp_path}/neurald/my.driver-make.sock"
    assert str(address_of("cpu", "localhost:7")) == "localhost:7"


def test_the_directory_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MACHINE_VARIABLE, raising=False)
    assert machine_directory() == Path("/run/neurald")
    monkeypatch.setenv(MACHINE_VARIABLE, "relative")
    assert machine_directory() == Path("/run/neurald")
    monkeypatch.setenv(MACHINE_VARIABLE, str(tmp_path / "m"))
    assert machine_directory() == tmp_path / "m"
    assert machine_user() is None
    (tmp_path / "m").write_text("")
    assert machine_user() is None
    (tmp_path / "m").unlink()
    assert not in_machine_directory(tmp_path / "m" / "a.sock")
    (tmp_path / "m").mkdir(mode=0o755)
    assert machine_user() == os.geteuid()
    assert in_machine_directory(tmp_path / "m" / "a.sock")
    assert not in_machine_directory(tmp_path / "a.sock")


def test_a_process_that_serves_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", None)
    monkeypatch.setenv(MACHINE_VARIABLE, str(tmp_path / "m"))
    module.serve_machine()
    assert runtime_directory() == tmp_path / "m"
