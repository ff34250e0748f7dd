"""Memories of a session, their tokens and limits."""

import pytest

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.session_memories import SessionMemories
from neurald.hal.errors import BadData, ResourceExhaustedPersistent, ResourceExhaustedTransient
from neurald.hal.memory.pool import HostMemory


@pytest.fixture
def memories() -> SessionMemories:
    return Session(Limits(memories=3, memory_bytes=1000)).memories


def test_memory_of_its_own_is_empty_and_can_be_written(memories: SessionMemories) -> None:
    memory = memories.new(100)
    assert bytes(memory.view()) == bytes(100)
    memory.view(1, 1)[:] = b"x"
    assert len(memories) == 1


def test_limits_at_the_border(memories: SessionMemories) -> None:
    with pytest.raises(ResourceExhaustedPersistent):
        memories.new(1001)
    whole = memories.new(1000)
    with pytest.raises(ResourceExhaustedTransient):
        memories.new(1)
    del whole
    kept = [memories.new(1) for _ in range(3)]
    with pytest.raises(ResourceExhaustedTransient):
        memories.new(1)
    assert len(kept) == len(memories)
    for size in (0, -1):
        with pytest.raises(BadData, match="positive"):
            memories.new(size)


def test_memory_counts_as_long_as_somebody_has_it(memories: SessionMemories) -> None:
    token = memories.add(HostMemory(bytes(600)))
    memory = memories.take(token)
    with pytest.raises(ResourceExhaustedTransient):
        memories.new(600)
    del memory
    memories.new(600)


def test_tokens(memories: SessionMemories) -> None:
    memory = memories.new(10)
    first, second = memories.add(memory), memories.add(memory)
    assert first != second
    assert len(memories) == 1
    assert memories.take(first) is memory
    with pytest.raises(BadData):
        memories.take(first)
    memories.drop(second)
    memories.drop(second)
    for token in (second, b"", b"x" * 16):
        with pytest.raises(BadData):
            memories.take(token)


def test_results_wait_to_be_read(memories: SessionMemories) -> None:
    memories.add(memories.new(1))
    assert not memories.has_unread
    read, dropped = (memories.add(memories.new(1), is_result=True) for _ in range(2))
    memories.take(read)
    assert memories.has_unread
    memories.drop(dropped)
    assert not memories.has_unread
