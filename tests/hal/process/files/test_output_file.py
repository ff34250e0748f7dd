"""Files for results: regular ones, devices, and pipes whose readers come late or never."""

import os
import threading
from errno import ENXIO
from pathlib import Path

import pytest

from neurald.hal.process.files import output_file
from neurald.hal.process.files.output_file import open_output, write_output


def test_a_file_is_created_or_emptied(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"a longer text", b"short"):
        write_output(path, content)
        assert path.read_bytes() == content
    write_output(Path(os.devnull), b"nothing")


def test_a_reader_may_come_late(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_output, args=(pipe, b"text" * (1 << 16)))
    writer.start()
    found.append(pipe.read_bytes())
    writer.join()
    assert found == [b"text" * (1 << 16)]


def test_a_pipe_without_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_file, "_READER_S", 0.01)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="nobody reads this pipe") as raised:
        open_output(pipe)
    assert raised.value.errno == ENXIO


def test_other_failures_stay(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_output(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_output(tmp_path / "none" / "file")
