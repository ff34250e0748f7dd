"""Directories for the temporary files of drivers, which are locked by their processes."""

import errno
import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from neurald.hal.errors import BadState
from neurald.hal.process.files import runtime_directory
from neurald.service.sandbox.temporary_directory import (
    TemporaryDirectory,
    remove_abandoned,
    shared_directory,
)


@pytest.fixture(autouse=True)
def _shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(runtime_directory, "_kept", None)  # and forgets it at the end
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_directories_of_processes_that_have_ended_are_removed(tmp_path: Path) -> None:
    (tmp_path / "neurald-driver-old").mkdir()
    (tmp_path / "neurald-driver-old" / "file").touch()
    directory = TemporaryDirectory()
    assert list(tmp_path.iterdir()) == [directory.path]
    remove_abandoned(tmp_path)
    assert directory.path.is_dir()
    directory.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_container_has_the_runtime_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "neurald").mkdir(mode=0o700)
    directory = TemporaryDirectory()
    assert directory.path.parent == shared_directory() == tmp_path / "neurald"
    directory.remove()
    assert not list((tmp_path / "neurald").iterdir())


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(BadState, match="can be locked; set TMPDIR"):
        TemporaryDirectory()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(BadState, match="none: No such file or directory"):
        TemporaryDirectory()
