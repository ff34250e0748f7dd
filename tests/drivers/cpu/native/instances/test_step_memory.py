import errno
import mmap
from typing import NoReturn

import pytest

import neurald as nd
from neurald.drivers.cpu.native.instances import step_memory
from neurald.drivers.cpu.native.instances.step_memory import StepMemory


def test_memory_is_zero_and_begins_at_a_page() -> None:
    memory = StepMemory(100)
    assert memory.address % mmap.PAGESIZE == 0
    words = memory.words(8, 4, "q")
    assert words.tolist() == [0] * 4
    words[1] = -1
    assert memory.words(0, 8, "q").tolist() == [0, 0, -1, 0, 0, 0, 0, 0]
    assert memory.words(16, 2, "i").tolist() == [-1, -1]


def test_there_is_memory_for_a_step_without_values() -> None:
    assert StepMemory(0).words(0, 0, "i").tolist() == []


def test_an_error_says_what_the_memory_was_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(size_bytes: int) -> NoReturn:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(step_memory, "anonymous", fail)
    with pytest.raises(nd.OutOfMemory, match="cannot map 5 bytes for values"):
        StepMemory(5)
