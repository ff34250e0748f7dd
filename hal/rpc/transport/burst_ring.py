"""The shared memory that both ends of a burst signal through, and how they wait for each other.

It has a line for each direction: a sequence number and an entry of a few words. One entry is under way at a time: the
client puts a submission, the daemon puts its completion. Who puts an entry writes it first and then its number; who
waits looks at the number, yielding the core, for a moment, and then sleeps on the burst's socket. A flag tells that
he does, and only then is a packet sent, so that two busy ends make no system call for each other.

All of it can be overwritten by a peer at any time. So entries are copied out once and then checked, numbers
are kept on each side and only compared with those in memory, and a wait never ends later because of what is there.
"""

import os
import platform
import select
import socket
import struct
import time
from enum import Enum

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import SharedMemory

RING_BYTES = 4096
#: How long an end that waits looks again and again before it sleeps. Yielding makes a core free for the peer. Waking
#: from sleep costs up to a tenth of this, and where cores are virtual, a core that is left may be gone for as long.
SPIN_S = 1e-3
#: How often it looks before it yields again, which costs as much as so many looks.
_LOOKS = 20

_ENTRY_BYTES = 32
#: Places of 32-bit words, each direction in cache lines of its own: (number of the entry, whether its reader sleeps).
_SUBMISSION = (0, 48)
_COMPLETION = (16, 32)
#: The number of the submission that its client wants no more.
_CANCELLED = 33
#: Where entries are, in bytes.
_ENTRY_OFFSET = 8
_WORD_BYTES = 4
_NUMBERS = 1 << 32
#: After this long, a store of the other core is seen for sure: one more look then replaces a barrier.
_STORE_SEEN_MS = 1.0
#: On these a peer that sees a number also sees the entry that was written before it. Elsewhere the number comes by
#: packet, since system calls order what is around them.
_STORES_IN_ORDER = platform.machine() in {"x86_64", "AMD64", "i386", "i586", "i686"}

#: A packet that wakes the other end: its kind and the number of the entry.
WAKE = 0
_WAKE = struct.Struct("<BI")


class Side(Enum):
    """The two ends of a burst."""

    CLIENT = (_SUBMISSION, _COMPLETION)
    DAEMON = (_COMPLETION, _SUBMISSION)


class RingEnd:
    """One end of a ring. Used by one thread at a time.

    Args:
        memory: of `RING_BYTES`, zeroed at first.
        connection: to the peer; it becomes readable when the peer wakes this end, sends something else, or dies.
        side: which end this is.
    """

    def __init__(self, memory: SharedMemory, connection: socket.socket, side: Side) -> None:
        view = memory.view()
        self._words = view.cast("I")
        #: Where the number of the submission that its client wants no more is in memory.
        self.cancelled_address = memory.address + _CANCELLED * _WORD_BYTES
        (self._put_place, self._peer_sleeps), (self._take_place, self._sleeps) = side.value
        start = self._put_place * _WORD_BYTES + _ENTRY_OFFSET
        self._put_entry = view[start : start + _ENTRY_BYTES]
        start = self._take_place * _WORD_BYTES + _ENTRY_OFFSET
        self._take_entry = view[start : start + _ENTRY_BYTES]
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._put_number = 0
        self._taken_number = 0
        self._heard_number = 0

    @property
    def next_number(self) -> int:
        """The number of the entry that is put next."""
        return (self._put_number + 1) % _NUMBERS

    def put(self, entry: bytes) -> None:
        """Gives the peer the next entry, of at most 32 bytes."""
        self._put_entry[: len(entry)] = entry
        self._put_number = number = (self._put_number + 1) % _NUMBERS
        self._words[self._put_place] = number
        if self._words[self._peer_sleeps] or not _STORES_IN_ORDER:
            self._wake_peer(number)

    def _wake_peer(self, number: int) -> None:
        # A socket that is full wakes the peer as well; one that is broken is found so by the next wait.
        try:
            self._connection.send(_WAKE.pack(WAKE, number), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        except OSError:
            return

    def hear(self, packet: bytes) -> None:
        """Takes note of a packet that woke this end.

        Raises:
            BadData: it is none.
        """
        if len(packet) != _WAKE.size:
            raise BadData(f"a packet of {len(packet)} bytes wakes the burst; {_WAKE.size} are expected")
        _, self._heard_number = _WAKE.unpack(packet)

    @property
    def is_there(self) -> bool:
        """Whether the peer's next entry has come.

        Raises:
            BadData: its number is another one than the next.
        """
        number = self._words[self._take_place] if _STORES_IN_ORDER else self._heard_number
        if number == self._taken_number:
            return False
        if number != (self._taken_number + 1) % _NUMBERS:
            raise BadData(f"entry {number} came after entry {self._taken_number} of a burst")
        return True

    def spin(self, limit_s: float) -> bool:
        """Whether the peer's next entry comes within a short time, for which other work can go on but this thread does not.

        Raises:
            BadData: see `is_there`.
        """
        if not _STORES_IN_ORDER:
            return self.is_there
        words, place, taken = self._words, self._take_place, self._taken_number
        end = time.perf_counter() + limit_s
        while words[place] == taken:
            if time.perf_counter() >= end:
                return False
            os.sched_yield()
            for _ in range(_LOOKS):
                if words[place] != taken:
                    break
        return self.is_there

    def sleep(self, timeout_s: float | None, also: int | None = None) -> bool:
        """Sleeps until the next entry comes, the connection is readable, or the time is over; whether it came.

        Args:
            timeout_s: None for no limit.
            also: a descriptor that ends the sleep when it becomes readable.

        Raises:
            BadData: see `is_there`.
        """
        limit_ms = None if timeout_s is None else max(0.0, timeout_s * 1000)
        if also is not None:
            self._poll.register(also, select.POLLIN)
        self._words[self._sleeps] = 1
        try:
            for wait_ms in (_STORE_SEEN_MS if limit_ms is None else min(_STORE_SEEN_MS, limit_ms), limit_ms):
                if self.is_there:
                    return True
                if self._poll.poll(wait_ms):
                    break
        finally:
            self._words[self._sleeps] = 0
            if also is not None:
                self._poll.unregister(also)
        return self.is_there

    def take(self) -> bytes:
        """A copy of the peer's next entry, which has come."""
        self._taken_number = (self._taken_number + 1) % _NUMBERS
        return bytes(self._take_entry)

    def cancel(self) -> None:
        """Tells the peer that the last submission is not wanted any more."""
        self._words[_CANCELLED] = self._put_number

    @property
    def taken_number(self) -> int:
        """The number of the peer's entry that was taken last."""
        return self._taken_number

    @property
    def is_cancelled(self) -> bool:
        """Whether the client does not want the last submission any more that was taken."""
        return self._words[_CANCELLED] == self._taken_number
