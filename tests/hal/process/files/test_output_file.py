"""Files for results: regular ones, devices, and pipes whose readers come late or never."""

import os
import resource
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
        write_output(pipe, b"text")
    assert raised.value.errno == ENXIO


def test_other_failures_stay(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_output(tmp_path, b"text")
    with pytest.raises(FileNotFoundError):
        write_output(tmp_path / "none" / "file", b"text")


def test_a_failure_names_the_file_and_leaves_no_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"an older result")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="it cannot be written: File too large") as raised:
            write_output(path, bytes(8192))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.filename == str(path)
    assert not path.exists()


def test_an_error_of_the_writer_stays_and_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(OverflowError), open_output(path) as file:
        file.write((256).to_bytes(1, "little"))
    assert not path.exists()


def test_a_device_stays() -> None:
    with pytest.raises(OSError, match="it cannot be written: No space left") as raised:
        write_output(Path("/dev/full"), b"text")
    assert raised.value.filename == "/dev/full"
    assert Path("/dev/full").exists()
