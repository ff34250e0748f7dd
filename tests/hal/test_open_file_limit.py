"""Advice for a process that may open no more files."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from support.process.descriptors import no_descriptors

from neurald.hal.errors import ResourceExhaustedTransient
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.open_file_limit import descriptor_advice, descriptor_shortage, system_reason
from neurald.hal.rpc.client.channel import ChannelClient
from neurald.hal.sync.fence import Fence
from neurald.runtime.tflite import load_tflite


@pytest.mark.parametrize(
    "opens",
    [
        lambda path: SharedMemory.create(4096),
        lambda path: SharedMemory.constant(memoryview(bytes(100))),
        lambda path: Fence(),
        lambda path: ChannelClient.connect(path, 1),
        lambda path: load_tflite(path),
    ],
    ids=["memory", "constants", "fence", "channel", "file"],
)
def test_what_lacks_a_descriptor_says_what_to_do(opens: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "a.tflite").touch()
    with (
        no_descriptors(),
        pytest.raises(ResourceExhaustedTransient, match=r"may have \d+ files open: .*ulimit -n"),
    ):
        opens(tmp_path / "a.tflite")


@pytest.mark.parametrize(
    ("number", "words"), [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "fs.file-max"), (errno.EACCES, "")]
)
def test_advice(number: int, words: str) -> None:
    error = OSError(number, "no")
    assert words in descriptor_advice(error)
    assert (descriptor_shortage("it cannot be opened", error) is None) == (not words)
    assert (descriptor_advice(error) == "") == (not words)
    assert system_reason(error) == f"no{descriptor_advice(error)}"
