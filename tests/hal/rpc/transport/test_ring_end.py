"""How the ends of a ring wait: they poll while that is short and no other program wants the core."""

import socket
from collections.abc import Iterator

import pytest

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport import ring_end
from neurald.hal.rpc.transport.ring_end import RING_BYTES, SPIN_S, RingEnd, RingSide


class Clock:
    """Time that passes while the core is yielded, and a little when it is read."""

    def __init__(self) -> None:
        self.now = 100.0
        self.yields = 0
        self.per_yield_s = 1e-5

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now

    def sched_yield(self) -> None:
        self.yields += 1
        self.now += self.per_yield_s

    def yields_in(self, end: RingEnd) -> int:
        """Returns how often an end yields in a wait for an entry that does not come."""
        before = self.yields
        assert not end.spin()
        return self.yields - before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ring_end, "_STORES_IN_ORDER", True)
    monkeypatch.setattr("neurald.hal.rpc.transport.ring_end.time.perf_counter", clock)
    monkeypatch.setattr("neurald.hal.rpc.transport.ring_end.os.sched_yield", clock.sched_yield)
    return clock


@pytest.fixture
def ends() -> Iterator[tuple[RingEnd, RingEnd]]:
    memory = SharedMemory.create(RING_BYTES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield RingEnd(memory, ours, RingSide.CLIENT), RingEnd(memory, theirs, RingSide.DAEMON)


def test_an_end_polls_for_a_moment(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    _, daemon = ends
    assert clock.yields_in(daemon) == pytest.approx(SPIN_S / clock.per_yield_s, rel=0.2)


def test_an_entry_ends_the_wait(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    client.put(b"1")
    assert daemon.spin()
    assert daemon.take()[:1] == b"1"
    assert not clock.yields


def test_waits_that_usually_take_long_begin_with_sleep(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    _, daemon = ends
    for _ in range(200):
        daemon.note_wait(0.1)
    start = clock.now
    assert clock.yields_in(daemon) == 0
    assert clock.now < start + 1e-5
    daemon.note_wait(1e-5)  # one short wait suffices to poll again
    assert clock.yields_in(daemon) > 0


def test_a_core_that_others_take_is_not_polled_on(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    _, daemon = ends
    rests = []
    clock.per_yield_s = 3e-3  # the time slice of another program
    assert clock.yields_in(daemon) == 1
    for _ in range(6):
        start = clock.now
        while not clock.yields_in(daemon):
            clock.now += 1e-3
        rests.append(clock.now - start)
    # Ever longer, up to a limit.
    assert rests == sorted(rests)
    assert rests[1] > 1.5 * rests[0]
    assert rests[-1] < 1
    clock.now += 10
    clock.per_yield_s = 1e-5
    assert clock.yields_in(daemon) > 10


def test_without_yielding_an_end_polls_briefly(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    clock.per_yield_s = 3e-3
    assert clock.yields_in(daemon) == 1
    start = clock.now
    assert clock.yields_in(daemon) == 0
    assert start + 1e-5 < clock.now < start + 1e-4
    for _ in range(100):
        daemon.note_wait(1e-3)  # entries that take longer are not polled for
    start = clock.now
    assert clock.yields_in(daemon) == 0
    assert clock.now < start + 1e-5
    client.put(b"1")
    daemon.note_wait(0.0)
    assert daemon.spin()


def test_a_peer_on_the_same_core_is_no_other_program(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    client, _ = ends
    for _ in range(300):
        client.note_wait(1.5e-3)
    clock.per_yield_s = 1.5e-3  # as long as executions usually take
    for _ in range(3):
        assert clock.yields_in(client) > 1


def test_a_packet_ends_the_polling(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    client.announce_packet()
    assert clock.yields_in(daemon) == 0
    assert clock.yields_in(daemon) > 0  # it was announced once
    client.announce_packet()
    daemon.note_packets()
    assert clock.yields_in(daemon) > 0


def test_a_sleeping_end_is_woken(ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    assert not daemon.sleep(0.0)
    client.put(b"x")
    assert daemon.sleep(None)
    daemon.take()
    assert not daemon.has_entry


def test_numbers_out_of_turn(ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    client.put(b"1")
    client.put(b"2")
    with pytest.raises(BadData, match="entry 2 came after entry 0"):
        _ = daemon.has_entry
