"""Files that users name but that are not regular: pipes without another end, endless devices."""

import os
import resource
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import OperandType
from neurald.hal.process.files import output_file
from neurald.hal.process.files.output_file import write_output
from neurald.service.benchmark.table_file import write_csv, write_profile_csv
from neurald.service.tensors.arrays import Slot, read_inputs, write_outputs
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


WRITERS: dict[str, Callable[[Path], Any]] = {
    "outputs": lambda path: write_outputs(path, [], []),
    "csv": lambda path: write_csv(path, {"runs": 1}),
    "profile": lambda path: write_profile_csv(path, {"steps": [], "types": {}, "by_type": []}),
    "report": lambda path: write_output(path, b"report"),
}


@pytest.fixture(autouse=True)
def _hangs_are_failures() -> Iterator[None]:
    def hangs(number: int, frame: object) -> None:
        pytest.fail("it waits for the other end, or reads without an end")

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


@sweep("writer", WRITERS)
def test_pipes_that_nobody_reads_are_refused(tmp_path: Path, writer: str) -> None:
    pipe = tmp_path / writer
    os.mkfifo(pipe)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_file, "_READER_S", 0.01)
        with pytest.raises(OSError, match="nobody reads this pipe"):
            WRITERS[writer](pipe)


@sweep("writer", WRITERS)
def test_a_full_disk_is_named(writer: str) -> None:
    with pytest.raises(OSError, match="it cannot be written: No space left") as raised:
        WRITERS[writer](Path("/dev/full"))
    assert raised.value.filename == "/dev/full"


def test_outputs_go_to_a_device() -> None:
    operand = Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(3,))
    write_outputs(Path(os.devnull), [Slot(key="out", alias="out", operand=operand)], [np.ones(3, np.float32)])


def test_outputs_go_to_the_reader_of_a_pipe(tmp_path: Path) -> None:
    """More than a pipe holds, through a file that cannot be sought."""
    pipe, copy = tmp_path / "pipe", tmp_path / "copy.npz"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: copy.write_bytes(pipe.read_bytes()))
    reader.start()
    array = np.arange(1 << 16, dtype=np.float32)
    operand = Operand(type=OperandType.TENSOR_FLOAT32, dimensions=array.shape)
    write_outputs(pipe, [Slot(key="out", alias="out", operand=operand)], [array])
    reader.join()
    assert np.array_equal(np.load(copy)["out"], array)


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
