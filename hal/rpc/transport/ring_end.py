"""The shared memory through which the two ends of a ring signal, and how they wait.

Each direction has a sequence number and an entry of a few words. One entry is under way at a time:
the client puts a submission, the daemon puts its completion. The writer stores the entry first and
its number afterwards. The reader polls the number for a short time, and then sleeps on the ring's
socket. It does not poll while more threads want to run than there are cores. A flag says that it
sleeps, and only then is a packet sent, so that two busy ends need no system calls for each other.

A peer can overwrite all of it at any time. So entries are copied once and then checked, numbers are
kept on each side and only compared with those in memory, and no content of the memory can prolong a
wait.
"""

import os
import platform
import select
import socket
import struct
import time
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process.threads.processors import PROCESSORS
from neurald.hal.rpc.transport.ring_layout import (
    CANCELLED,
    COMPLETION,
    ENTRY_OFFSET,
    PACKETS,
    STAMPS_OFFSET,
    SUBMISSION,
    WANTED_STAMPS,
    WORD_BYTES,
)
from neurald.hal.rpc.transport.ring_layout import WAKE as WAKE
from neurald.hal.sync.fence import Fence

RING_BYTES = 4096
#: How long a waiting end polls before it sleeps, if a core is free for it. Waking from sleep costs
#: up to a tenth of this time, and a virtual core that was given up may be gone for as long.
SPIN_S = 1e-3
#: Waits that usually take longer begin with sleep: waking up takes a small part of them.
_SHORT_WAIT_S = 2e-3
#: How long it polls while threads of the peers may need all cores: they may be about to end.
_BRIEF_S = 2e-5
#: How often it polls before it looks at the clock.
_POLLS_AT_ONCE = 20
#: How often an end that polls yields its core, in case the peer has been placed on the same one. A
#: thread that yields to others is given less time afterwards.
_YIELD_S = 1e-4
#: After this long, an end that polls releases the interpreter's lock again and again: other threads
#: of its process may have received their entries.
_ALONE_S = 5e-5

_ENTRY_BYTES = 32
_STAMPS = struct.Struct("<6Q")
_NUMBERS = 1 << 32
_HALF_OF_NUMBERS = _NUMBERS // 2
#: When to look for an entry again after the flag was set: its writer may not have seen the flag
#: yet, and so wake no thread. A system call orders the accesses of this end, and takes longer than
#: stores of the other core take to become visible. The second time is a safety net.
_LOOKS_MS: tuple[float | None, ...] = (0, 100.0, None)
_LATER_LOOKS_MS = _LOOKS_MS[1:]
#: On these machines, an end that sees a number also sees the entry that was written before it. On
#: others the number is sent in a packet, since system calls order the accesses around them.
STORES_IN_ORDER = platform.machine() in {"x86_64", "AMD64", "i386", "i586", "i686"}

_WAKE = struct.Struct("<BI")
_WAKE_KIND = bytes([WAKE])
# Plain numbers: combining flags takes longer than a system call.
_PEEK_FLAGS = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)
_TAKE_FLAGS = int(socket.MSG_DONTWAIT)
_WAKE_FLAGS = int(socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)


class Stamps(Struct, frozen=True, array_like=True):
    """The times of a daemon's work for a call, in nanoseconds on `time.monotonic_ns()`'s clock.

    Attributes:
        number: the number by which the client asked for it.
        process: the daemon's process.
        arrived_ns: the submission was seen.
        admitted_ns: the device was free for it.
        ended_ns: the driver had returned.
        replied_ns: the result was about to be sent.
    """

    number: int
    process: int
    arrived_ns: int
    admitted_ns: int
    ended_ns: int
    replied_ns: int

    @property
    def times_ns(self) -> tuple[int, int, int, int]:
        """The times, in the order in which they have to be."""
        return self.arrived_ns, self.admitted_ns, self.ended_ns, self.replied_ns


def read_stamps(content: bytes) -> Stamps:
    """Returns the stamps in what `RingEnd.stamps` returned."""
    return Stamps(*_STAMPS.unpack(content))


class RingSide(Enum):
    """The two ends of a ring: (words that it writes, words that it reads)."""

    CLIENT = (SUBMISSION, COMPLETION)
    DAEMON = (COMPLETION, SUBMISSION)


class RingEnd:
    """One end of a ring. Not thread-safe.

    Args:
        memory: the memory of `RING_BYTES`, initially zero.
        connection: the connection to the peer; it becomes readable when the peer wakes this end,
            sends a packet, or dies.
        side: which end this is.
    """

    def __init__(self, memory: SharedMemory, connection: socket.socket, side: RingSide) -> None:
        view = memory.view()
        self._words = view.cast("I")
        self._stamps = view[STAMPS_OFFSET : STAMPS_OFFSET + _STAMPS.size]
        #: The address of the memory, that of the stamps, and that of the number of the submission
        #: that its client has cancelled.
        self.address = memory.address
        self.stamps_address = memory.address + STAMPS_OFFSET
        self.cancelled_address = memory.address + CANCELLED * WORD_BYTES
        (self._put_index, self._peer_sleeps), (self._take_index, self._sleeps) = side.value
        self._is_client = side is RingSide.CLIENT
        start = self._put_index * WORD_BYTES + ENTRY_OFFSET
        self._put_entry = view[start : start + _ENTRY_BYTES]
        start = self._take_index * WORD_BYTES + ENTRY_OFFSET
        self._take_entry = view[start : start + _ENTRY_BYTES]
        self._connection = connection
        self._connection_poll = select.poll()
        self._connection_poll.register(connection, select.POLLIN)
        #: What each sleep polls, and the fence that is among it. They change in one step, which no
        #: signal handler can interrupt: a fence is never polled after it was dropped, nor kept
        #: without being polled.
        self._sleeper: tuple[select.poll, Fence | None]
        self.wake_by(None)
        self._put_number = 0
        self._taken_number = 0
        self._woken_number = 0
        self._has_left_wake = False
        self._packets = 0
        self._usual_wait_s = 0.0

    @property
    def next_number(self) -> int:
        """The number of the entry that is put next."""
        return (self._put_number + 1) % _NUMBERS

    @property
    def is_answer_due(self) -> bool:
        """True if more entries were put than taken, where each one is answered by one."""
        return self._put_number != self._taken_number

    def put(self, entry: bytes) -> None:
        """Passes the next entry, of at most 32 bytes, to the peer."""
        self._put_entry[: len(entry)] = entry
        self._put_number = number = (self._put_number + 1) % _NUMBERS
        if not number % _HALF_OF_NUMBERS and self._is_client:
            # Entries that were cancelled have ended long ago, and the same numbers come again.
            self._words[CANCELLED] = (number + _HALF_OF_NUMBERS) % _NUMBERS
        self._words[self._put_index] = number
        if self._words[self._peer_sleeps] or not STORES_IN_ORDER:
            self._wake_peer(number)

    def repeat_put(self) -> None:
        """Tells the peer of the last entry again.

        A signal handler may have interrupted `put` before it did.
        """
        self._words[self._put_index] = self._put_number
        self._wake_peer(self._put_number)

    def _wake_peer(self, number: int) -> None:
        # A full socket wakes the peer as well; the next wait detects a broken one.
        try:
            self._connection.send(_WAKE.pack(WAKE, number), _WAKE_FLAGS)
        except OSError:
            return

    def always_wake(self) -> None:
        """Makes the peer send a packet with each entry, for an owner that waits by other means."""
        self._words[self._sleeps] = 1

    def note_wake(self, packet: bytes) -> None:
        """Records a packet that woke this end.

        Raises:
            BadData: the packet has another size.
        """
        if len(packet) != _WAKE.size:
            raise BadData(f"a packet of {len(packet)} bytes wakes the ring; {_WAKE.size} are expected")
        _, self._woken_number = _WAKE.unpack(packet)

    def announce_packet(self) -> None:
        """Tells the daemon's end, if it polls, that the client is about to send a packet."""
        self._packets = (self._packets + 1) % _NUMBERS
        self._words[PACKETS] = self._packets

    def note_packet(self) -> None:
        """Records that the daemon's end has received a packet that was announced."""
        # Packets are counted as they arrive. The number in the memory may already include one that
        # the client has yet to send.
        self._packets = (self._packets + 1) % _NUMBERS

    @property
    def has_announced(self) -> bool:
        """True if packets were announced that this end has not received."""
        return self._packets != self._words[PACKETS]

    @property
    def has_entry(self) -> bool:
        """True if the peer's next entry has arrived.

        Raises:
            BadData: its number is not the next one.
        """
        number = self._words[self._take_index] if STORES_IN_ORDER else self._woken_number
        if number == self._taken_number:
            return False
        if number != (self._taken_number + 1) % _NUMBERS:
            raise BadData(f"entry {number} came after entry {self._taken_number} of a ring")
        return True

    def spin(self, running: int = 0) -> bool:
        """Polls for the peer's next entry for a short time; returns whether it has arrived.

        Polls for as long as waits usually take, and `SPIN_S` more, until a packet is announced.
        Does not poll if that is long, nor while more threads want to run than there are cores.
        Polls very briefly if threads of peers, with this one, are more than the cores.

        Args:
            running: how many threads of peers may run for this process now.

        Raises:
            BadData: see `has_entry`.
        """
        if not STORES_IN_ORDER:
            return self.has_entry
        words, index, taken = self._words, self._take_index, self._taken_number
        usual_s = self._usual_wait_s
        now = time.perf_counter()
        if usual_s > _SHORT_WAIT_S or PROCESSORS.are_crowded(now):
            return self.has_entry
        end = now + (usual_s + SPIN_S if running < PROCESSORS.count else _BRIEF_S)
        packets = self._packets
        if words[PACKETS] != packets:
            return self.has_entry
        yields_at, shares_at = now, now + _ALONE_S
        while words[index] == taken:
            if now >= end or words[PACKETS] != packets or PROCESSORS.are_crowded(now):
                return False
            if now >= yields_at:
                os.sched_yield()
                yields_at = now + _YIELD_S
            if now >= shares_at and self._sleeper[0].poll(0):  # as a side effect, it releases the lock
                break
            for _ in range(_POLLS_AT_ONCE):
                if words[index] != taken:
                    break
            now = time.perf_counter()
        return self.has_entry

    def note_wait(self, taken_s: float) -> None:
        """Records how long a wait took, from its first poll on, for later waits."""
        # Falls fast and rises slowly, so that occasional load of the machine hardly counts.
        self._usual_wait_s = min(taken_s, self._usual_wait_s * 1.1 + 1e-6)

    @property
    def waker(self) -> Fence | None:
        """The fence that ends each sleep of this end once it has signalled; None if none does.

        Its owner drops it after the first one.
        """
        return self._sleeper[1]

    def wake_by(self, fence: Fence | None) -> None:
        """Makes this fence the `waker` in place of the last one."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        if fence is not None:
            poll.register(fence.fd, select.POLLIN)
        self._sleeper = poll, fence

    def sleep(self, timeout_s: float | None) -> bool:
        """Sleeps until the next entry arrives, the connection is readable, or the time is over.

        Args:
            timeout_s: None for no limit.

        Returns:
            Whether the entry has arrived.

        Raises:
            BadData: see `has_entry`.
        """
        if self.has_entry:
            # What `always_wake` has set ends with this wait, as it does with a sleep.
            self._words[self._sleeps] = 0
            return True
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        poll = self._sleeper[0]
        self._words[self._sleeps] = 1
        try:
            has_taken_wake, looks = False, _LOOKS_MS
            if self._has_left_wake:
                self._has_left_wake = False
                has_taken_wake = self._take_wake()
                # Its system calls order the accesses of this end, too.
                looks = _LATER_LOOKS_MS
            for seen_ms in looks:
                wait_ms = seen_ms
                if end_s is not None and seen_ms != 0:
                    left_ms = max(0.0, (end_s - time.monotonic()) * 1000)
                    wait_ms = left_ms if seen_ms is None else min(seen_ms, left_ms)
                while not self.has_entry:
                    if not poll.poll(wait_ms):
                        break
                    if STORES_IN_ORDER and self.has_entry:
                        # The packet that woke this end is taken before its next sleep, when nobody
                        # waits for it.
                        self._has_left_wake = True
                        return True
                    # One that is left of an earlier entry ends no sleep, so that few packets do.
                    if has_taken_wake or not self._take_wake():
                        return self.has_entry
                    has_taken_wake = True
                else:
                    return True
        finally:
            self._words[self._sleeps] = 0
        return self.has_entry

    def _take_wake(self) -> bool:
        """Takes a packet that woke this end from the connection, if that comes next.

        A packet that remained would end the next sleep at once.
        """
        # A socket with a timeout waits for a packet, whatever the flags say.
        if not self._connection_poll.poll(0):
            return False
        try:
            # Other packets may come with descriptors, and are left to the owner of this end.
            if self._connection.recv(1, _PEEK_FLAGS) != _WAKE_KIND:
                return False
            self.note_wake(self._connection.recv(_WAKE.size + 1, _TAKE_FLAGS))
        except OSError:  # nothing is there, or the connection broke: the owner finds out
            return False
        return True

    def take(self) -> bytes:
        """Returns a copy of the peer's next entry, which has arrived."""
        self._taken_number = (self._taken_number + 1) % _NUMBERS
        return bytes(self._take_entry)

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The last entries that were taken and put, and the announced packets, for native code."""
        return self._taken_number, self._put_number, self._packets

    def resume(self, taken: int, put: int) -> None:
        """Goes on after native code has taken and put entries."""
        self._taken_number, self._put_number = taken, put
        # It leaves no packet that woke this end without an entry.
        self._has_left_wake = False

    @property
    def put_number(self) -> int:
        """The number of the last entry that was put."""
        return self._put_number

    @property
    def wanted_stamps(self) -> int:
        """The number with which the client wants stamps of each call; 0 if it wants none."""
        return self._words[WANTED_STAMPS]

    def want_stamps(self, number: int) -> None:
        """Asks the daemon for stamps of all further calls, with a number; 0 asks for none."""
        self._words[WANTED_STAMPS] = number

    def put_stamps(self, stamps: Sequence[int]) -> None:
        """Leaves the stamps of a call for the client, before its completion is put.

        Args:
            stamps: the values of a `Stamps`, which takes longer to make than they take to leave.
        """
        _STAMPS.pack_into(self._stamps, 0, *stamps)

    def stamps(self) -> bytes:
        """Returns the stamps that the daemon left last, for `read_stamps`.

        They may be wrong in any way.
        """
        return bytes(self._stamps)

    def cancel(self, number: int) -> None:
        """Tells the peer that a submission is cancelled. Any thread may call this."""
        self._words[CANCELLED] = number
        # It may wait for its turn. Elsewhere the number of a packet is that of the last submission.
        if self._words[self._peer_sleeps] and STORES_IN_ORDER:
            self._wake_peer(number)

    @property
    def taken_number(self) -> int:
        """The number of the last entry that was taken."""
        return self._taken_number

    @property
    def is_cancelled(self) -> bool:
        """True if the client has cancelled the last submission that was taken."""
        return self._words[CANCELLED] == self._taken_number
