"""Stored digests of models' constants: unchanged files are not read again."""

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.devices.caching import CachingDevice
from support.models.addition import addition

from neurald.hal.cache import constant_digests
from neurald.hal.cache.constant_digests import CONSTANTS
from neurald.hal.cache.key import constants_question, key_parts
from neurald.hal.cache.secret import SECRET_VARIABLE
from neurald.hal.cache.store import Cache
from neurald.hal.device import PrepareOptions
from neurald.hal.memory import mapped_file
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.records import replace

VALUES = np.arange(6, dtype=np.float32)


@pytest.fixture(autouse=True)
def _soon_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "_REST_NS", 20_000_000)


def model_of(path: Path, offset: int = 64) -> Model:
    """Returns a model whose constant is in a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return addition(VALUES, pool=FileMemory(descriptor, str(path)), offset=offset)
    finally:
        os.close(descriptor)


def written(path: Path, offset: int = 64, values: np.ndarray = VALUES) -> Path:
    path.write_bytes(bytes(offset) + values.tobytes() + bytes(100))
    time.sleep(0.05)
    return path


def test_the_question_stays_until_the_file_changes(tmp_path: Path) -> None:
    path = written(tmp_path / "file")
    first = constants_question(model_of(path))
    assert first is not None
    assert constants_question(model_of(path)) == first
    written(path, values=VALUES + 1)
    assert constants_question(model_of(path)) not in (first, None)


def test_other_places_and_other_files_are_other_questions(tmp_path: Path) -> None:
    path, other = written(tmp_path / "file"), written(tmp_path / "other")
    questions = {constants_question(model_of(path, offset)) for offset in (0, 64, 128)}
    questions.add(constants_question(model_of(other)))
    assert len(questions - {None}) == 4


def test_values_that_are_in_no_file_are_part_of_the_question(tmp_path: Path) -> None:
    model = model_of(written(tmp_path / "file"))
    assert constants_question(addition(VALUES)) is None

    def beside(number: int) -> bytes | None:
        pool = HostMemory(np.full(8, number, np.uint8))
        # Another constant, of which only the memory changes.
        operands = [
            replace(each, location=replace(each.location, pool=1, offset=0, length=4))
            if each.location is not None and position == 1
            else each
            for position, each in enumerate(model.main.operands)
        ]
        graph = replace(model.main, operands=tuple(operands))
        return constants_question(
            replace(model, main=graph, referenced=(model.main,), pools=(*model.pools, pool))
        )

    assert beside(1) == beside(1) != beside(2)


def test_a_file_that_is_not_at_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "file")
    monkeypatch.setattr(mapped_file, "_REST_NS", 10_000_000_000)
    assert constants_question(model_of(path)) is None


def test_constants_that_are_known_give_the_same_key(tmp_path: Path) -> None:
    model = model_of(written(tmp_path / "file"))
    parts = key_parts(model, CachingDevice(), PrepareOptions())
    again = key_parts(model, CachingDevice(), PrepareOptions(), constants=parts.constants)
    assert again == parts


def test_answers_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "cache"
    known = Cache(directory).constants
    assert known.recall(b"question") is None
    known.remember(b"question", "answer")
    assert Cache(directory).constants.recall(b"question") == "answer"
    assert [path.name for path in directory.iterdir()] == [CONSTANTS]
    known.remember(b"question", "other")
    assert known.recall(b"question") == "other"
    monkeypatch.setattr(constant_digests, "_MAX_ENTRIES", 3)
    for number in range(5):
        known.remember(b"%d" % number, str(number))
    assert [known.recall(b"%d" % number) for number in range(5)] == [None, None, "2", "3", "4"]


def test_answers_of_others_are_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "cache"
    Cache(directory).constants.remember(b"question", "answer")
    path = directory / CONSTANTS
    whole = path.read_bytes()
    for position in range(len(whole)):
        content = bytearray(whole)
        content[position] ^= 4
        path.write_bytes(content)
        assert Cache(directory).constants.recall(b"question") is None
    path.write_bytes(whole[:20])
    assert Cache(directory).constants.recall(b"question") is None
    path.write_bytes(whole)
    monkeypatch.setenv(SECRET_VARIABLE, str(tmp_path / "other secret"))
    assert Cache(directory).constants.recall(b"question") is None


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    known = Cache(Path("/proc/cache")).constants
    known.remember(b"question", "answer")
    assert known.recall(b"question") is None


def test_threads_leave_something_whole(tmp_path: Path) -> None:
    known = Cache(tmp_path / "cache").constants

    def remember(number: int) -> None:
        for _ in range(20):
            known.remember(b"%d" % number, str(number))

    threads = [threading.Thread(target=remember, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {known.recall(b"%d" % n) for n in range(4)} - {None}
    assert [path.name for path in known._directory.path.iterdir()] == [CONSTANTS]
