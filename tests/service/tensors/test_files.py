"""Files that users name but that are not regular: pipes without a writer, endless devices."""

import os
import resource
import signal
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import BadData
from neurald.service.tensors.arrays import read_inputs
from neurald.service.tensors.classification import read_labels
from neurald.service.tensors.files import open_archive, open_regular
from neurald.service.tensors.images import read_image

pytestmark = pytest.mark.quick

READERS: dict[str, Callable[[Path], Any]] = {
    "inputs": lambda path: read_inputs(path, []),
    "labels": read_labels,
    "image": lambda path: read_image(path, 4, 4, 3),
    "model": nd.load_tflite,
}


@pytest.fixture(autouse=True)
def _hangs_are_failures() -> Iterator[None]:
    def hangs(number: int, frame: object) -> None:
        pytest.fail("it waits for a writer, or reads without an end")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(5)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@sweep("reader", READERS)
@sweep("kind", ["pipe", "device"])
def test_only_regular_files_are_read(tmp_path: Path, reader: str, kind: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = {"pipe": pipe, "device": Path("/dev/zero")}[kind]
    with pytest.raises(BadData, match="regular file"):
        READERS[reader](path)


def test_links_to_regular_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"content"
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")


def test_archives_with_long_directories_are_not_read(tmp_path: Path) -> None:
    """They would take a multiple of the file's size in memory, and minutes."""
    path = tmp_path / "archive"
    count = 1_000
    for members, is_read in ((count, True), (1_000 * count, False)):
        entry = struct.pack("<4s16x3L3H12xL", b"PK\1\2", 0, 0, 0, 1, 0, 0, 0)[:46] + b"a"
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, members * len(entry), 0, 0)
        path.write_bytes(b"before" + entry * members + end)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with open_regular(path) as file:
            if is_read:
                assert len(open_archive(file).infolist()) == members
            else:
                with pytest.raises(BadData, match="not a zip archive"):
                    open_archive(file)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
