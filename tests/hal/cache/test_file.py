"""Small files of the cache."""

import os
import tracemalloc
from pathlib import Path

import pytest

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
