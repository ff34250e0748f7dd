"""Where the daemons of a user listen."""

import os
from pathlib import Path

import pytest

from neurald.hal.runtime_directory import default_address, runtime_directory


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
    assert str(default_address("cpu")) == f"unix://{tmp_path}/neurald/cpu.sock"
    assert str(default_address("my.driver:make")) == f"unix://{tmp_path}/neurald/my.driver-make.sock"
