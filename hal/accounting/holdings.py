"""The memories of a session. Each is reserved before it is made, and counts while it lives.

A client may pass the same shared memory again and again, for one call each time. It is mapped once:
passing it again gives another `Memory` of the same bytes, which takes neither address space nor a
descriptor. So a session never maps more than it has reserved.
"""

import contextlib
import mmap
import os
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import Struct

from neurald.hal.accounting.account import Account, Reservation
from neurald.hal.accounting.limits import Limits
from neurald.hal.errors import BadData, OutOfMemory, ResourceExhaustedTransient
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.memory.private_memory import anonymous

#: Memory up to this size gets its pages at once: one system call takes less time than a fault for
#: each page.
_USED_SOON_BYTES = 1 << 20
#: Memory up to this size is from the heap: to map pages, to fault on them and to remove them from
#: all cores takes longer than a small execution.
_HEAP_BYTES = 1 << 14


class SessionAccounts(Struct, frozen=True, kw_only=True):
    """The accounts that a session is charged in.

    Attributes:
        memory: bytes of memory, and of address space for memory of clients.
        descriptors: descriptors that stay open.
    """

    memory: Account
    descriptors: Account


class _Mapping(Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """A client's shared memory, mapped once, with the reservations for it."""

    memory: SharedMemory
    reservations: tuple[Reservation, ...]


class Holdings:
    """Counts the living memories of a session. Thread-safe.

    Args:
        limits: `memories` says how many there may be.
        accounts: the accounts that are charged for them.
    """

    def __init__(self, limits: Limits, accounts: SessionAccounts) -> None:
        self._limit = limits.memories
        self._accounts = accounts
        self._lock = threading.Lock()
        # The value is what goes with the memory: reservations, or a mapping that has some.
        self._held: WeakKeyDictionary[Memory, object] = WeakKeyDictionary()
        self._mappings: WeakValueDictionary[tuple[int, int, bool], _Mapping] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._held)

    def _require_room(self, size_bytes: int) -> None:
        count = len(self._held)
        if count >= self._limit:
            raise ResourceExhaustedTransient(
                f"the session has {count} memories and asks for one more, of {size_bytes} bytes; "
                f"a session may have {self._limit} (memories)"
            )

    def new(self, size_bytes: int) -> Memory:
        """Returns new, zeroed memory.

        Raises:
            BadData: the size is not positive.
            ResourceExhaustedPersistent: it is more than the session may ever have.
            ResourceExhaustedTransient: it is more than what is left.
            OutOfMemory: the system cannot provide it.
        """
        _require_positive(size_bytes)
        with self._lock:
            self._require_room(size_bytes)
            reservation = self._accounts.memory.reserve(size_bytes, "memory")
            try:
                memory = HostMemory(_zeroed(size_bytes))
            except (OSError, OverflowError) as error:
                raise OutOfMemory(f"no memory of {size_bytes} bytes can be mapped: {error}") from None
            self._held[memory] = reservation
        return memory

    def add(self, memory: Memory) -> None:
        """Counts an existing memory, unless it counts already.

        Raises:
            Error: see `new`.
        """
        with self._lock:
            if memory not in self._held:
                _require_positive(memory.size)
                self._require_room(memory.size)
                self._held[memory] = self._accounts.memory.reserve(memory.size, "memory")

    def receive(self, descriptor: int, size_bytes: int, *, constant: bool) -> Memory:
        """Maps a client's shared memory and takes over its descriptor; see `SharedMemory.received`.

        Raises:
            BadData: it is not a memory that a client may share, or has another size.
            ResourceExhaustedPersistent: it is more than the session may ever have.
            ResourceExhaustedTransient: it is more than what is left.
            OutOfMemory: the process cannot map more memory.
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
                    memory.close()  # only the mapping is needed
                    mapping = _Mapping(memory=memory, reservations=reservations)
                    self._mappings[key] = mapping
                memory = mapping.memory.alias()
                self._held[memory] = mapping
        return memory

    def make(self, size_bytes: int, make: Callable[[], Memory]) -> Memory:
        """Makes the device allocate a memory.

        Args:
            size_bytes: the size that it will take, 0 if that is not known.
            make: the function that has the device make it.

        Raises:
            ResourceExhaustedPersistent: it is more than the session may ever have.
            ResourceExhaustedTransient: it is more than what is left.
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
        raise BadData(f"a memory has {size_bytes} bytes; a positive size is expected")


def _zeroed(size_bytes: int) -> "bytearray | mmap.mmap":
    """Allocates zeroed private memory.

    Raises:
        OSError, OverflowError: there is not enough memory.
    """
    if size_bytes <= _HEAP_BYTES:
        return bytearray(size_bytes)
    return anonymous(size_bytes, is_used_soon=size_bytes <= _USED_SOON_BYTES)
