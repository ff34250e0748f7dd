"""Files that this process has made are removed, and not what has replaced them."""

import socket
from pathlib import Path

import pytest
from support.daemon.open_files import open_files
from support.waiting import wait_until

from neurald.hal.process.files.own_file import OwnFile


def test_only_the_own_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    mine = OwnFile(path)
    assert mine.is_there
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "other").replace(path)
    assert not mine.is_there
    mine.remove()
    assert path.read_text() == "theirs"
    OwnFile(path).remove()
    assert not path.exists()


def test_a_file_with_the_number_of_one_that_is_gone_is_another(tmp_path: Path) -> None:
    """File systems give the number of a socket that was closed and replaced to the next file."""
    path, own = tmp_path / "socket", []
    for _ in range(20):
        listener = socket.socket(socket.AF_UNIX)
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        own.append(OwnFile(path))
        listener.close()
    assert [each.is_there for each in own] == [False] * 19 + [True]
    for each in own:
        each.remove()
    assert not path.exists()


def test_a_file_that_is_moved_is_removed_from_its_new_path(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("mine")
    new.write_text("theirs")
    mine = OwnFile(old)
    mine.move(new)
    old.write_text("theirs")
    assert mine.is_there
    mine.remove()
    assert old.exists()
    assert not new.exists()


def test_a_file_that_is_gone_or_was_left_to_others(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        OwnFile(path)
    path.write_text("mine")
    before = open_files()
    mine = OwnFile(path)
    mine.forget()
    mine.remove()
    assert not mine.is_there
    assert path.exists()
    wait_until(lambda: not open_files() - before)
