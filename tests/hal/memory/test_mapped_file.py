"""Files in memory, and what their states say about their bytes."""

import os
import time
from pathlib import Path

import pytest
from support.sweeps import sweep

from neurald.hal.memory import mapped_file
from neurald.hal.memory.mapped_file import FileMemory, FileState


@pytest.fixture(autouse=True)
def _soon_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "_REST_NS", 20_000_000)


def mapped(path: Path) -> FileMemory:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return FileMemory(descriptor, str(path))
    finally:
        os.close(descriptor)


def rest() -> None:
    time.sleep(0.05)


def test_a_file_at_rest_has_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    memory = mapped(path)
    assert bytes(memory.view()) == b"content"
    assert memory.readonly
    with monkeypatch.context() as later:
        later.setattr(mapped_file, "_REST_NS", 10**12)
        assert memory.state() is None
    rest()
    state = memory.state()
    assert state is not None
    assert state == memory.state() == mapped(path).state()
    assert state.is_at_rest


def test_a_write_makes_another_state(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    memory = mapped(path)
    rest()
    before = memory.state()
    with path.open("r+b") as file:
        file.write(b"CONTENT")
    # Nobody can make it look as if it had not been.
    assert before is not None
    os.utime(path, ns=(before.modified_ns, before.modified_ns))
    rest()
    after = memory.state()
    assert after is not None
    assert after.modified_ns == before.modified_ns
    assert after != before


@sweep("change", ["replaced", "removed", "longer"])
def test_another_file_of_the_name_has_none(tmp_path: Path, change: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    memory = mapped(path)
    path.with_name("other").write_bytes(b"content")
    if change == "replaced":
        path.with_name("other").rename(path)
    elif change == "removed":
        path.unlink()
    else:
        path.write_bytes(b"longer content")
    rest()
    assert memory.state() is None


def test_a_path_that_is_not_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"content")
    memory = mapped(Path("file"))
    monkeypatch.chdir("/")
    rest()
    assert memory.state() is not None


def test_another_boot_is_another_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = tmp_path.stat()
    before = FileState.of(status)
    monkeypatch.setattr(mapped_file, "_boot", lambda: "another")
    assert FileState.of(status) != before
    monkeypatch.setattr(mapped_file, "_boot", lambda: "")
    assert FileState.of(status) is None
