"""Memories, mappings and descriptors of one user, however they are spread over sessions."""

import os
from pathlib import Path

import pytest
from support.daemon.open_files import open_files
from support.waiting import wait_until

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.sessions import Sessions
from neurald.hal.errors import BadData, DeadObject, ResourceExhaustedPersistent, ResourceExhaustedTransient
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.sync.fence import Fence

MIB = 1 << 20
LIMITS = Limits(
    memory_bytes=256 * MIB, user_memory_bytes=256 * MIB, total_memory_bytes=400 * MIB, user_descriptors=40
)


def receive(session: Session, memory: SharedMemory) -> Memory:
    return session.memories.receive(os.dup(memory.fd), memory.size, constant=memory.readonly)


def mappings(size_bytes: int) -> int:
    """Returns how many mappings of exactly this many bytes this process has."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if "memfd" in line]
    return sum(int(end, 16) - int(begin, 16) == size_bytes for begin, end in ranges)


def test_one_memory_given_16000_times_is_mapped_once_for_each_session() -> None:
    sessions = Sessions(Limits(user_memory_bytes=1 << 30))
    size = 64 * MIB + 4096
    memory = SharedMemory.create(size)
    mapped, before = mappings(size), open_files()
    opened = [sessions.open(1000) for _ in range(16)]
    kept: list[Memory] = []
    full = 0
    for session in opened:
        try:
            kept += [receive(session, memory) for _ in range(1000)]
        except ResourceExhaustedTransient:
            full += 1
    assert (len(kept), full) == (15_000, 1), "of 1 GiB there are 15 times 64 MiB and a little"
    assert mappings(size) == mapped + 15
    wait_until(lambda: len(open_files() - before) == 15)
    assert kept[0].address == kept[999].address
    kept[0].view()[:1] = b"!"
    assert bytes(memory.view(0, 1)) == b"!"
    kept.clear()
    assert mappings(size) == mapped
    wait_until(lambda: not open_files() - before)
    assert sessions.accounts.memory.used == sessions.accounts.descriptors.used == 0


def test_six_sessions_of_one_user_have_no_more_than_the_user() -> None:
    sessions = Sessions(LIMITS)
    opened = [sessions.open(1000) for _ in range(6)]
    first = opened[0].memories.new(250 * MIB)
    for session in opened[1:]:
        with pytest.raises(
            ResourceExhaustedTransient, match=r"one user .*user_memory_bytes.* 6291456 are left"
        ):
            session.memories.new(250 * MIB)
    other = sessions.open(1001)
    with pytest.raises(ResourceExhaustedTransient, match=r"the daemon .*total_memory_bytes"):
        other.memories.new(250 * MIB)
    kept = other.memories.new(150 * MIB)
    with pytest.raises(ResourceExhaustedPersistent, match=r"a session .*memory_bytes"):
        other.memories.new(256 * MIB + 1)
    del first
    opened[1].memories.new(250 * MIB)
    del kept
    assert sessions.accounts.memory.used == 0


def test_a_user_who_has_all_leaves_a_little_for_each_session() -> None:
    sessions = Sessions(LIMITS)
    greedy, honest = sessions.open(1000), sessions.open(1000)
    kept = [greedy.memories.new(256 * MIB)]
    kept.append(honest.memories.new(MIB))
    with pytest.raises(ResourceExhaustedTransient):
        honest.memories.new(1)


def test_a_session_has_as_many_memories_as_its_limit() -> None:
    session = Sessions(Limits(memories=3)).open(1000)
    kept = [session.memories.new(4096) for _ in range(3)]
    with pytest.raises(
        ResourceExhaustedTransient, match=r"asks for one more, of .*; a session may have 3 \(memories\)"
    ):
        session.memories.new(4096)
    kept.pop()
    kept.append(session.memories.new(4096))


def test_descriptors_of_a_user() -> None:
    sessions = Sessions(Limits(user_descriptors=40))
    opened = [sessions.open(1000) for _ in range(3)]
    kept: list[object] = [receive(opened[0], SharedMemory.create(10)) for _ in range(30)]
    for _ in range(10):
        fence = Fence()
        kept.append(fence)
        opened[1].fences.add(fence)
    for session in opened:
        with pytest.raises(ResourceExhaustedTransient, match="user_descriptors"):
            receive(session, SharedMemory.create(10))
        with pytest.raises(ResourceExhaustedTransient, match="user_descriptors"):
            session.fences.add(Fence())
    sessions.open(1001).fences.add(Fence())
    opened[1].close()
    kept.clear()
    del fence
    assert sessions.accounts.descriptors.used == 1
    receive(opened[2], SharedMemory.create(10))


def test_what_is_refused_leaves_nothing_behind() -> None:
    sessions = Sessions(LIMITS)
    session = sessions.open(1000)
    large, small = SharedMemory.create(256 * MIB + 4096), SharedMemory.create(4096)
    before = open_files()
    with pytest.raises(ResourceExhaustedPersistent):
        receive(session, large)
    for size, constant in ((4095, False), (0, False), (1 << 63, False), (4096, True)):
        with pytest.raises(BadData):
            session.memories.receive(os.dup(small.fd), size, constant=constant)
    with pytest.raises(BadData):
        session.memories.receive(os.memfd_create("unsealed", os.MFD_ALLOW_SEALING), 0, constant=False)
    wait_until(lambda: not open_files() - before)
    assert (len(session.memories), sessions.accounts.memory.used, sessions.accounts.descriptors.used) == (
        0,
        0,
        0,
    )


def test_memory_of_the_device_is_reserved_before_it_is_made() -> None:
    sessions = Sessions(LIMITS)
    session = sessions.open(1000)
    asked: list[int] = []

    def make(size: int) -> Memory:
        asked.append(sessions.accounts.memory.used)
        return HostMemory(bytearray(size))

    memory = session.memories.make(100, lambda: make(100))
    assert asked == [100]
    with pytest.raises(ResourceExhaustedPersistent):
        session.memories.make(1 << 40, lambda: make(1))
    assert asked == [100]
    # One that turns out to be larger than the device had said.
    larger = session.memories.make(0, lambda: make(5000))
    assert sessions.accounts.memory.used == 5100
    del memory, larger
    assert sessions.accounts.memory.used == 0


def test_what_lives_on_after_its_session_still_counts_for_the_user() -> None:
    sessions = Sessions(LIMITS)
    session = sessions.open(1000)
    memory = session.memories.new(200 * MIB)
    sessions.close(session)
    with pytest.raises(DeadObject):
        session.memories.add(memory)
    with pytest.raises(ResourceExhaustedTransient, match="user_memory_bytes"):
        sessions.open(1000).memories.new(100 * MIB)
    del memory
    sessions.open(1000).memories.new(100 * MIB)
