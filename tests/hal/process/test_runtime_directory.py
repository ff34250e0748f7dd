"""The directory in which the daemons of a user listen."""

import os
from pathlib import Path

import pytest

from neurald.hal.process.runtime_directory import address_of, runtime_directory


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
