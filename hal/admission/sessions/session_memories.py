"""The memories of one client in a daemon, by the tokens that its calls name them with.

A memory counts towards the limits for as long as it lives, so also while a call or a prepared model
uses it.
"""

import secrets
import threading
from collections.abc import Callable, Iterable

from msgspec import Struct

from neurald.hal.accounting.holdings import Holdings
from neurald.hal.admission.sessions.handle_table import HandleTable
from neurald.hal.errors import SESSION_OVER, DeadObject, Error
from neurald.hal.memory.pool import Memory

_TOKEN_BYTES = 16


class _KeptMemory(Struct, frozen=True, kw_only=True):
    """A memory that waits until its token is used.

    Attributes:
        is_result: the client is to read it.
    """

    memory: Memory
    is_result: bool


class SessionMemories:
    """Keeps memories until their tokens are used, and counts those that live. Thread-safe.

    Args:
        holdings: counts the memories, within the limits of the session.
    """

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._kept: HandleTable[bytes, _KeptMemory] = HandleTable("memory token", new_token)
        self._lock = threading.Lock()
        self._is_open = True

    def __len__(self) -> int:
        """Returns the number of memories that live."""
        return len(self._holdings)

    @property
    def has_unread(self) -> bool:
        """True if results wait to be read."""
        return any(kept.is_result for kept in self._kept.values())

    def new(self, size_bytes: int) -> Memory:
        """Returns new, zeroed memory, which counts while it lives; see `Holdings.new`."""
        return self._holdings.new(size_bytes)

    def receive(self, descriptor: int, size_bytes: int, *, constant: bool) -> Memory:
        """Maps a client's shared memory, which counts while it lives; see `Holdings.receive`."""
        return self._holdings.receive(descriptor, size_bytes, constant=constant)

    def make(self, size_bytes: int, make: Callable[[], Memory]) -> Memory:
        """Makes the device allocate a memory, which counts while it lives.

        Args:
            size_bytes: the size that it will take, 0 if that is not known.
            make: the function that has the device make it.

        Raises:
            ResourceExhaustedPersistent: it is larger than the session may hold.
            ResourceExhaustedTransient: it is larger than what the session may still hold.
            DeadObject: the session is over.
            Error: the device cannot make it.
        """
        with self._lock:
            self._require_open()
        memory = self._holdings.make(size_bytes, make)
        with self._lock:
            self._require_open()
        return memory

    def hold(self, memory: Memory) -> None:
        """Counts a memory for as long as it lives.

        Raises:
            ResourceExhaustedPersistent, ResourceExhaustedTransient: the session may not hold that
                much.
            DeadObject: the session is over.
        """
        with self._lock:
            self._require_open()
            self._holdings.add(memory)

    def add(self, memory: Memory, *, is_result: bool = False) -> bytes:
        """Keeps a memory until its token is used, and returns the token.

        Args:
            memory: the memory from the client, or by `new`.
            is_result: the client is to read it.

        Raises:
            Error: see `hold`.
        """
        self.hold(memory)
        return self._kept.add(lambda: _KeptMemory(memory=memory, is_result=is_result))

    def add_results(self, memories: Iterable[Memory]) -> list[bytes]:
        """Keeps memories for the client to read, all or none of them; returns their tokens.

        Raises:
            Error: see `hold`.
        """
        tokens: list[bytes] = []
        try:
            for memory in memories:
                tokens.append(self.add(memory, is_result=True))
        except Error:
            for token in tokens:
                self.drop(token)
            raise
        return tokens

    def take(self, token: bytes) -> Memory:
        """Returns the memory of a token, which cannot be used again.

        Raises:
            BadData: the session has no such token.
            DeadObject: the session is over.
        """
        return self._kept.take(token).memory

    def drop(self, token: bytes) -> None:
        """Drops the memory of a token; an unknown token is ignored."""
        self._kept.discard(token)

    def close(self) -> None:
        """Drops all memories; no more can be kept."""
        with self._lock:
            self._is_open = False
        self._kept.close()

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeadObject(SESSION_OVER)


def new_token() -> bytes:
    """Returns a random token, by which a client names an object of its session."""
    return secrets.token_bytes(_TOKEN_BYTES)
