"""The memories that a session holds: each counts for as long as anything refers to it, and was reserved before it was made.

A client may give the same shared memory again and again, for one call each time. It is mapped once: whoever gives it again gets
another memory of the same bytes, which takes neither address space nor a descriptor. So what a session maps is never more than
what it has reserved.
"""

import contextlib
import mmap
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary, WeakValueDictionary

from neurald.hal.accounting.account import Account, Reservation
from neurald.hal.accounting.limits import Limits
from neurald.hal.errors import BadData, OutOfMemory, ResourceExhaustedTransient
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """What a session is charged for.

    Attributes:
        memory: bytes of memory, and of address space for memory of clients.
        descriptors: that stay open.
    """

    memory: Account
    descriptors: Account


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True, eq=False)
class _Mapping:
    """A client's shared memory, mapped once, and what that takes."""

    memory: SharedMemory
    reservations: tuple[Reservation, ...]


class Holdings:
    """Memories that live, as far as a session is to answer for them. Thread-safe.

    Args:
        limits: how many there may be.
        accounts: what they count in.
    """

    def __init__(self, limits: Limits, accounts: Accounts) -> None:
        self._most = limits.memories
        self._accounts = accounts
        self._lock = threading.Lock()
        # With each memory goes what it holds: reservations, or a mapping with its own.
        self._held: WeakKeyDictionary[Memory, object] = WeakKeyDictionary()
        self._mappings: WeakValueDictionary[tuple[int, int, bool], _Mapping] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._held)

    def _require_room(self, size_bytes: int) -> None:
        count = len(self._held)
        if count >= self._most:
            raise ResourceExhaustedTransient(
                f"one more memory of {size_bytes} bytes makes {count + 1}; a session may have {self._most} (memories)"
            )

    def new(self, size_bytes: int) -> Memory:
        """Zeroed memory.

        Raises:
            BadData: the size is not positive.
            ResourceExhaustedPersistent: it never fits.
            ResourceExhaustedTransient: it does not fit beside the others.
            OutOfMemory: the system has no such memory.
        """
        _require_positive(size_bytes)
        with self._lock:
            self._require_room(size_bytes)
            reservation = self._accounts.memory.reserve(size_bytes, "memory")
            try:
                memory = HostMemory(mmap.mmap(-1, size_bytes))
            except (OSError, OverflowError) as error:
                raise OutOfMemory(f"{size_bytes} bytes: {error}") from None
            self._held[memory] = reservation
        return memory

    def add(self, memory: Memory) -> None:
        """Counts a memory that exists; one that counts already stays as it is. Raises as `new` does."""
        with self._lock:
            if memory not in self._held:
                _require_positive(memory.size)
                self._require_room(memory.size)
                self._held[memory] = self._accounts.memory.reserve(memory.size, "memory")

    def receive(self, descriptor: int, size_bytes: int, *, constant: bool) -> Memory:
        """A client's shared memory; takes over the descriptor. See `SharedMemory.received`.

        Raises:
            BadData: it is not what a client may share, or has another size.
            ResourceExhaustedPersistent: it never fits.
            ResourceExhaustedTransient: it does not fit beside the others.
            OutOfMemory: the process can have no more memory.
        """
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(os.close, descriptor)
            SharedMemory.check(descriptor, size_bytes, constant=constant)
            status = os.fstat(descriptor)
            key = status.st_dev, status.st_ino, constant
            with self._lock:
                self._require_room(size_bytes)
                mapping = self._mappings.get(key)
                if mapping is None:
                    reservations = (
                        self._accounts.memory.reserve(size_bytes, "shared memory"),
                        self._accounts.descriptors.reserve(1, "shared memory"),
                    )
                    cleanup.pop_all()
                    memory = SharedMemory.received(descriptor, size_bytes, constant=constant)
                    memory.close()  # the mapping is all that is needed
                    mapping = _Mapping(memory=memory, reservations=reservations)
                    self._mappings[key] = mapping
                memory = mapping.memory.alias()
                self._held[memory] = mapping
        return memory

    def make(self, size_bytes: int, make: Callable[[], Memory]) -> Memory:
        """Memory that the device makes.

        Args:
            size_bytes: what it will take, 0 if that is not known.
            make: has the device make it.

        Raises:
            ResourceExhaustedPersistent: it never fits.
            ResourceExhaustedTransient: it does not fit beside the others.
            Error: the device cannot make it.
        """
        expected = max(1, size_bytes)
        with self._lock:
            self._require_room(expected)
        reservation = self._accounts.memory.reserve(expected, "memory of the device")
        memory = make()
        rest = self._accounts.memory.reserve(max(0, memory.size - expected), "memory of the device")
        with self._lock:
            self._require_room(expected)
            self._held[memory] = reservation, rest
        return memory


def _require_positive(size_bytes: int) -> None:
    if size_bytes <= 0:
        raise BadData(f"memory of {size_bytes} bytes; a positive size is expected")
