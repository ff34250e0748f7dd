"""Files that users name but that are not regular: pipes without a writer, endless devices."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import BadData
from neurald.service.tensors.arrays import read_inputs
from neurald.service.tensors.classification import read_labels
from neurald.service.tensors.files import open_regular
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
