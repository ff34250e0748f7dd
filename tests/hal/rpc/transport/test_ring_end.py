"""The ends of a ring wait: they poll while that is short and a core is free for it."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import astuple

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process.threads.processors import Processors
from neurald.hal.rpc.transport import ring_end
from neurald.hal.rpc.transport.ring_end import (
    _YIELD_S,
    RING_BYTES,
    SPIN_S,
    WAKE,
    RingEnd,
    RingSide,
    Stamps,
    read_stamps,
)


class Clock:
    """Time that passes while the core is yielded, and a little when it is read.

    Attributes:
        running: how many threads want to run on two processors.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.yields = 0
        self.per_yield_s = 1e-5
        self.running = 2
        self.on_yield: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now

    def sched_yield(self) -> None:
        self.yields += 1
        self.on_yield()
        self.now += self.per_yield_s

    def yields_in(self, end: RingEnd) -> int:
        """Returns how often an end yields in a wait for an entry that does not come."""
        before = self.yields
        assert not end.spin()
        return self.yields - before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ring_end, "STORES_IN_ORDER", True)
    monkeypatch.setattr("neurald.hal.rpc.transport.ring_end.time.perf_counter", clock)
    monkeypatch.setattr("neurald.hal.rpc.transport.ring_end.os.sched_yield", clock.sched_yield)
    monkeypatch.setattr(ring_end, "PROCESSORS", Processors(2, lambda: clock.running))
    return clock


@pytest.fixture
def ends() -> Iterator[tuple[RingEnd, RingEnd]]:
    memory = SharedMemory.create(RING_BYTES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield RingEnd(memory, ours, RingSide.CLIENT), RingEnd(memory, theirs, RingSide.DAEMON)


def test_an_end_polls_for_a_moment(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    _, daemon = ends
    start = clock.now
    assert clock.yields_in(daemon) == pytest.approx(SPIN_S / _YIELD_S, rel=0.3)
    assert clock.now == pytest.approx(start + SPIN_S, rel=0.1)


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


def test_while_cores_are_scarce_an_end_does_not_poll(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    clock.running = 3
    start = clock.now
    assert clock.yields_in(daemon) == 0
    assert clock.now < start + 1e-5
    client.put(b"1")
    assert daemon.spin()


@pytest.mark.parametrize(("running", "polls_s"), [(1, SPIN_S), (2, 2e-5), (5, 2e-5)])
def test_an_end_polls_briefly_while_peers_may_need_all_cores(
    clock: Clock, ends: tuple[RingEnd, RingEnd], running: int, polls_s: float
) -> None:
    client, daemon = ends
    start = clock.now
    assert not client.spin(running)
    assert clock.now == pytest.approx(start + polls_s, rel=0.7)
    daemon.put(b"1")
    assert client.spin(running)


def test_polling_ends_once_cores_are_scarce(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    _, daemon = ends
    for _ in range(300):
        daemon.note_wait(1.5e-3)
    start = clock.now
    assert clock.yields_in(daemon) > 10
    assert clock.now > start + 2e-3
    clock.now += 1
    clock.on_yield = lambda: setattr(clock, "running", 3)
    start = clock.now
    assert clock.yields_in(daemon) > 0
    assert clock.now < start + 1.5e-3


def test_a_packet_ends_the_polling(clock: Clock, ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    client.announce_packet()
    for _ in range(2):
        assert clock.yields_in(daemon) == 0
        assert daemon.has_announced
    client.announce_packet()
    daemon.note_packet()
    assert clock.yields_in(daemon) == 0
    assert daemon.has_announced  # one of two has arrived
    daemon.note_packet()
    assert clock.yields_in(daemon) > 0
    assert not daemon.has_announced


def test_a_sleeping_end_is_woken(ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    assert not daemon.sleep(0.0)
    client.put(b"x")
    assert daemon.sleep(None)
    daemon.take()
    assert not daemon.has_entry


@pytest.mark.skipif(not ring_end.STORES_IN_ORDER, reason="packets name entries on this machine")
def test_a_wait_ends_that_its_peer_sends_packets(ends: tuple[RingEnd, RingEnd]) -> None:
    """Also one for an entry that is there: packets of later ones would stay in the socket."""
    client, daemon = ends
    client.always_wake()
    daemon.put(b"first")
    assert client.sleep(10)
    client.take()
    assert client._connection.recv(16)[0] == WAKE
    daemon.put(b"second")
    assert not select.select([client._connection], [], [], 0)[0]
    assert client.sleep(10)
    client.take()


@pytest.mark.skipif(not ring_end.STORES_IN_ORDER, reason="packets name entries on this machine")
def test_a_cancellation_wakes_native_code_that_sleeps(ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    client.put(b"x")
    daemon.take()
    client.cancel(1)
    assert daemon.is_cancelled
    assert not select.select([daemon._connection], [], [], 0)[0], "it does not sleep"
    daemon.always_wake()
    client.cancel(1)
    assert select.select([daemon._connection], [], [], 0)[0]
    assert not daemon.sleep(0.0)


def after(ends: tuple[RingEnd, RingEnd], entries: int) -> None:
    """Lets ends go on after as many entries, of which all have been taken."""
    for end in ends:
        end.resume(taken=entries % (1 << 32), put=entries % (1 << 32))


@pytest.mark.parametrize("cancelled", [0, 1, 5, (1 << 31) - 1, 1 << 31, (1 << 31) + 5, (1 << 32) - 1])
def test_cancellations_end_before_their_numbers_come_again(
    ends: tuple[RingEnd, RingEnd], cancelled: int
) -> None:
    client, daemon = ends
    if cancelled:  # nothing has the number 0 at first, and the memory has zeros
        after(ends, cancelled - 1)
        client.put(b"1")
        daemon.take()
        client.cancel(cancelled)
        assert daemon.is_cancelled
    for half in [half for half in (1 << 31, 1 << 32) if half > cancelled]:
        after(ends, half - 1)
        client.put(b"1")
        daemon.take()
        assert not daemon.is_cancelled
    after(ends, (1 << 32) + cancelled - 1)
    client.put(b"1")
    daemon.take()
    assert not daemon.is_cancelled


def test_numbers_out_of_turn(ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    client.put(b"1")
    client.put(b"2")
    with pytest.raises(BadData, match="entry 2 came after entry 0"):
        _ = daemon.has_entry


def test_stamps_are_left_for_the_client(ends: tuple[RingEnd, RingEnd]) -> None:
    client, daemon = ends
    assert daemon.wanted_stamps == 0
    client.want_stamps(7)
    assert daemon.wanted_stamps == 7
    stamps = Stamps(7, 123, 1, 2, 3, 2**64 - 1)
    daemon.put_stamps(astuple(stamps))
    daemon.put(b"x" * 32)
    assert read_stamps(client.stamps()) == stamps
    assert client.take() == b"x" * 32
    client.want_stamps(0)
    assert daemon.wanted_stamps == 0


def test_a_wake_that_another_has_taken_is_not_waited_for() -> None:
    """The connection's owner reads packets as well, and its socket may have a timeout."""
    memory = SharedMemory.create(RING_BYTES)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.settimeout(60)
        client, daemon = RingEnd(memory, ours, RingSide.CLIENT), RingEnd(memory, theirs, RingSide.DAEMON)
        client.always_wake()
        put = threading.Timer(0.1, lambda: daemon.put(b"first"))
        put.start()
        assert client.sleep(10)
        put.join()
        client.take()
        # The end leaves the packet that woke it for later.
        assert ours.recv(16)[0] == WAKE
        began = time.monotonic()
        assert not client.sleep(0)
        assert time.monotonic() - began < 30
