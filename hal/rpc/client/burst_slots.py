"""The client's end of a burst gives each shared memory a slot number once, and gives the slot up with the memory."""

import socket
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport.burst_packet import MAX_SLOTS, MEMORY, MEMORY_HEAD, RELEASE, RELEASE_HEAD
from neurald.hal.rpc.transport.packet import send_packet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    number: int
    memory: "weakref.ref[SharedMemory]"


class _Releases:
    """Slots to give up. Finalizers add to them, in the midst of anything: no lock is taken and nothing waits."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._numbers: deque[int] = deque()

    def add(self, number: int) -> None:
        """Gives a slot up, now if the daemon's socket has room and else later."""
        self._numbers.append(number)
        self.send()

    def send(self) -> None:
        """Tells the daemon those that it was not told yet, as far as its socket has room."""
        while self._numbers:
            try:
                number = self._numbers.popleft()
            except IndexError:  # another thread's finalizer was quicker
                return
            if not send_packet(self._connection, RELEASE_HEAD.pack(RELEASE, number)):
                self._numbers.append(number)
                return


class Slots:
    """Memories that the daemon keeps mapped for a burst, at most `MAX_SLOTS`. Only finalizers use it from other threads.

    Args:
        connection: to the daemon.
        ask: sends a packet with descriptors, and waits until the daemon says that all is well.
    """

    def __init__(self, connection: socket.socket, ask: Callable[[bytes, tuple[int, ...]], None]) -> None:
        self._ask = ask
        self._releases = _Releases(connection)
        self._slots: OrderedDict[int, _Slot] = OrderedDict()  # by the identity of the memory
        self._given = 0

    @property
    def given(self) -> int:
        """How many slots were ever given to memories."""
        return self._given

    def known(self, memory: SharedMemory) -> int | None:
        """The slot of a memory, if it has one."""
        slot = self._slots.get(id(memory))
        return slot.number if slot is not None and slot.memory() is memory else None

    def give(self, memory: SharedMemory, forget: Callable[[int], None]) -> int:
        """The slot of a memory, which gets one if it has none.

        Args:
            memory: any shared memory.
            forget: told of a slot that is given up for it, the one that was not asked for for longest.

        Raises:
            BadState: the memory was closed.
            DeadObject: the daemon is gone.
            Error: the daemon refuses the memory.
        """
        number = self.known(memory)
        if number is not None:
            self._slots.move_to_end(id(memory))
            return number
        self._releases.send()
        self._make_room(forget)
        number = self._given + 1
        self._ask(MEMORY_HEAD.pack(MEMORY, number, memory.size, memory.readonly), (memory.fd,))
        self._given = number
        releases = self._releases
        reference = weakref.ref(memory, lambda _: releases.add(number))
        self._slots[id(memory)] = _Slot(number=number, memory=reference)
        return number

    def _make_room(self, forget: Callable[[int], None]) -> None:
        for key, slot in tuple(self._slots.items()):
            if slot.memory() is None:
                del self._slots[key]
        while len(self._slots) >= MAX_SLOTS:
            _, slot = self._slots.popitem(last=False)
            self._releases.add(slot.number)
            forget(slot.number)

    def release(self, memory: SharedMemory) -> int | None:
        """Gives up the slot of a memory that goes on living; its number, if it had one."""
        number = self.known(memory)
        if number is not None:
            del self._slots[id(memory)]
            self._releases.add(number)
        return number
