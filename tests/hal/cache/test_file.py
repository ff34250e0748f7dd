"""Small files of the cache."""

import os
import tracemalloc
from pathlib import Path

import pytest
from support.daemon.open_files import open_files
from support.waiting import wait_until

from neurald.hal.cache.file import read_small, write_small
from neurald.hal.errors import BadData

_LIMIT = 16 << 20


def test_reading_takes_memory_for_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "small"
    write_small(path, b"content")
    tracemalloc.start()
    try:
        assert read_small(path, _LIMIT) == b"content"
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()


def test_a_file_at_the_limit_and_one_beyond_it(tmp_path: Path) -> None:
    path = tmp_path / "small"
    write_small(path, bytes(7))
    assert read_small(path, 7) == bytes(7)
    with pytest.raises(BadData, match="has 7 bytes; at most 6 are expected"):
        read_small(path, 6)


def test_a_file_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "small"
    write_small(path, bytes(7))
    read = os.read

    def grown(descriptor: int, count: int) -> bytes:
        with path.open("ab") as file:
            file.write(b"more")
        return read(descriptor, count)

    monkeypatch.setattr(os, "read", grown)
    with pytest.raises(BadData, match="grew while it was read"):
        read_small(path, _LIMIT)


def test_files_and_directories_that_others_may_change_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    path = folder / "small"
    write_small(path, b"content")  # in a directory that did not exist
    pipe, link = folder / "pipe", folder / "link"
    os.mkfifo(pipe, 0o600)
    link.symlink_to(path)
    before = open_files()
    for mode in (0o720, 0o702):
        folder.chmod(mode)
        with pytest.raises(BadData, match="other users can write to"):
            read_small(path, _LIMIT)
    folder.chmod(0o700)
    with pytest.raises(BadData, match="pipe is not a regular file of this user"):
        read_small(pipe, _LIMIT)
    with pytest.raises(OSError, match="link"):
        read_small(link, _LIMIT)
    assert read_small(path, _LIMIT) == b"content"
    wait_until(lambda: not open_files() - before)
