"""Assigns slot numbers to the shared memories that the client of a ring sends to the daemon."""

import socket
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable

from msgspec import Struct

from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport.packet import send_packet
from neurald.hal.rpc.transport.ring_packet import MAX_SLOTS, MEMORY, MEMORY_HEAD, RELEASE, RELEASE_HEAD


class _MemorySlot(Struct, frozen=True, kw_only=True):
    number: int
    memory: "weakref.ref[SharedMemory]"


class _PendingReleases:
    """Slots to release. Finalizers add to them at any point, so no lock is taken."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._numbers: deque[int] = deque()

    def add(self, number: int) -> None:
        """Releases a slot, now if the daemon's socket has space, otherwise later."""
        self._numbers.append(number)
        self.send()

    def send(self) -> None:
        """Sends pending releases, as far as the daemon's socket has space."""
        while self._numbers:
            try:
                number = self._numbers.popleft()
            except IndexError:  # the finalizer of another thread was faster
                return
            if not send_packet(self._connection, RELEASE_HEAD.pack(RELEASE, number)):
                self._numbers.append(number)
                return


class RingSlots:
    """Memories that the daemon keeps mapped for a ring, at most `MAX_SLOTS`.

    Not thread-safe, except for finalizers of memories.

    Args:
        connection: the connection to the daemon.
        ask: sends a packet with descriptors, and waits until the daemon confirms it.
    """

    def __init__(self, connection: socket.socket, ask: Callable[[bytes, tuple[int, ...]], None]) -> None:
        self._ask = ask
        self._releases = _PendingReleases(connection)
        self._slots: OrderedDict[int, _MemorySlot] = OrderedDict()  # by identity of the memory
        self._assigned = 0

    @property
    def assigned(self) -> int:
        """The number of slots that were assigned to memories so far."""
        return self._assigned

    def find(self, memory: SharedMemory) -> int | None:
        """Returns the slot of a memory; None if it has none."""
        slot = self._slots.get(id(memory))
        return slot.number if slot is not None and slot.memory() is memory else None

    def assign(self, memory: SharedMemory, forget: Callable[[int], None]) -> int:
        """Returns the slot of a memory, and assigns one if it has none.

        Args:
            memory: any shared memory.
            forget: the function that is called with the least recently used slot, if it is released
                for this memory.

        Raises:
            BadState: the memory is closed.
            DeadObject: the daemon is gone.
            Error: the daemon refuses the memory.
        """
        number = self.find(memory)
        if number is not None:
            self._slots.move_to_end(id(memory))
            return number
        self._releases.send()
        self._make_room(forget)
        self._assigned = number = self._assigned + 1
        packet, releases = MEMORY_HEAD.pack(MEMORY, number, memory.size, memory.readonly), self._releases
        reference = weakref.ref(memory, lambda _: releases.add(number))
        try:
            self._slots[id(memory)] = _MemorySlot(number=number, memory=reference)
            self._ask(packet, (memory.fd,))
        except BaseException:
            # The daemon may have it: a signal handler raises an exception at any time.
            self._slots.pop(id(memory), None)
            releases.add(number)
            raise
        return number

    def _make_room(self, forget: Callable[[int], None]) -> None:
        for key, slot in tuple(self._slots.items()):
            if slot.memory() is None:
                del self._slots[key]
        while len(self._slots) >= MAX_SLOTS:
            _, slot = self._slots.popitem(last=False)
            self._releases.add(slot.number)
            forget(slot.number)

    def release_all(self) -> None:
        """Releases the slots of all memories, which continue to live."""
        while self._slots:
            _, slot = self._slots.popitem()
            self._releases.add(slot.number)

    def release(self, memory: SharedMemory) -> int | None:
        """Releases the slot of a memory that continues to live, and returns it if there was one."""
        number = self.find(memory)
        if number is not None:
            del self._slots[id(memory)]
            self._releases.add(number)
        return number
