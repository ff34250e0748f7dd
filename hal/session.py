"""What clients own in a daemon: memories and prepared models, in sessions with limits.

A memory is known to its client by a random token, good for one mention in one call: the call takes it out
of the session. A memory that a call or a prepared model still holds counts towards the limits until it is
let go.
"""

import itertools
import mmap
import os
import secrets
import threading
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from neurald.hal.device import PreparedModel
from neurald.hal.errors import (
    BadData,
    DeadObject,
    OutOfMemory,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
)
from neurald.hal.memory import HostMemory, Memory, SharedMemory
from neurald.hal.staging import Arenas
from neurald.hal.types import Model

_TOKEN_BYTES = 16
#: Arenas that a prepared model keeps, and how large they may be.
_ARENAS_KEPT = 2
_ARENA_BYTES_KEPT = 32 << 20


def _memory_share() -> int:
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return min(8 << 30, half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a daemon lends: sessions in all, the rest for each of them."""

    sessions: int = 256
    prepared_models: int = 256
    memories: int = 1024
    memory_bytes: int = field(default_factory=_memory_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared model, the model that requests are checked against, and memory for copies of arguments."""

    model: Model
    prepared: PreparedModel
    arenas: Arenas


class Session:
    """One client's things. Thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self.token = secrets.token_bytes(_TOKEN_BYTES)
        self._limits = limits
        self._lock = threading.Lock()
        self._is_open = True
        self._memories: dict[bytes, Memory] = {}
        self._unread: set[bytes] = set()
        # Every memory that still lives, and what its bytes are: a file that several map counts once.
        self._held: WeakKeyDictionary[Memory, object] = WeakKeyDictionary()
        self._prepared: dict[int, Prepared] = {}
        self._handles = itertools.count(1)

    def _check_memory(self, size_bytes: int, source: object = None) -> None:
        """Whether one more memory of that size fits; see `new_memory`."""
        if size_bytes <= 0:
            raise BadData(f"memory of {size_bytes} bytes; a positive size is expected")
        most = self._limits.memory_bytes
        if size_bytes > most:
            raise ResourceExhaustedPersistent(f"memory of {size_bytes} bytes; a session may have {most}")
        held = {source: size_bytes} | {known: memory.size for memory, known in self._held.items()}
        if len(self._held) >= self._limits.memories or sum(held.values()) > most:
            raise ResourceExhaustedTransient(
                f"one more memory of {size_bytes} bytes makes {len(self._held) + 1} with {sum(held.values())}; "
                f"a session may have {self._limits.memories} with {most}"
            )

    def add_memory(self, memory: Memory, *, is_result: bool = False) -> bytes:
        """Keeps a memory until its token, which is returned, is used.

        Args:
            memory: from the client, or by `new_memory`.
            is_result: the client is to read it.

        Raises:
            ResourceExhaustedPersistent, ResourceExhaustedTransient: it is too much.
            DeadObject: the session is over.
        """
        source: object = object()
        if isinstance(memory, SharedMemory):
            status = os.fstat(memory.fd)
            source = (status.st_dev, status.st_ino)
        token = secrets.token_bytes(_TOKEN_BYTES)
        with self._lock:
            self._require_open()
            if memory not in self._held:
                self._check_memory(memory.size, source)
                self._held[memory] = source
            self._memories[token] = memory
            if is_result:
                self._unread.add(token)
        return token

    def new_memory(self, size_bytes: int) -> Memory:
        """Zeroed memory of the daemon's own, which counts towards the limits.

        Raises:
            BadData: the size is not positive.
            ResourceExhaustedPersistent: it never fits.
            ResourceExhaustedTransient: it does not fit beside the others.
            OutOfMemory: the system has no such memory.
        """
        with self._lock:
            self._check_memory(size_bytes)
            try:
                memory = HostMemory(mmap.mmap(-1, size_bytes))
            except OSError as error:
                raise OutOfMemory(f"{size_bytes} bytes: {error.strerror}") from None
            self._held[memory] = object()
        return memory

    def take_memory(self, token: bytes) -> Memory:
        """The memory of a token, which is used up.

        Raises:
            BadData: there is none in this session.
        """
        with self._lock:
            self._unread.discard(token)
            memory = self._memories.pop(token, None)
        if memory is None:
            raise BadData("a memory token is not known; each is good for one call of its session")
        return memory

    def drop_memory(self, token: bytes) -> None:
        """Lets go of the memory of a token, if there is one."""
        with self._lock:
            self._unread.discard(token)
            self._memories.pop(token, None)

    def add_prepared(self, model: Model, prepared: PreparedModel) -> int:
        """Keeps a prepared model; returns its handle.

        Raises:
            ResourceExhaustedTransient: there are too many.
            DeadObject: the session is over.
        """
        arenas = Arenas(self.new_memory, kept=_ARENAS_KEPT, kept_bytes=_ARENA_BYTES_KEPT)
        with self._lock:
            self._require_open()
            self._check_prepared()
            handle = next(self._handles)
            self._prepared[handle] = Prepared(model=model, prepared=prepared, arenas=arenas)
        return handle

    def check_prepared(self) -> None:
        """Whether one more prepared model fits.

        Raises:
            ResourceExhaustedTransient: it does not.
        """
        with self._lock:
            self._check_prepared()

    def _check_prepared(self) -> None:
        most = self._limits.prepared_models
        if len(self._prepared) >= most:
            raise ResourceExhaustedTransient(f"{most} prepared models; a session may have no more")

    def prepared(self, handle: int) -> Prepared:
        """The prepared model of a handle.

        Raises:
            BadData: there is none in this session.
        """
        with self._lock:
            found = self._prepared.get(handle)
        if found is None:
            raise BadData(f"prepared model {handle} is not known in this session")
        return found

    def release(self, handle: int) -> None:
        """Lets go of a prepared model; executions under way finish.

        Raises:
            BadData: there is none in this session.
        """
        with self._lock:
            released = self._prepared.pop(handle, None)
        if released is None:
            raise BadData(f"prepared model {handle} is not known in this session")

    def close(self) -> None:
        """Lets go of everything."""
        with self._lock:
            self._is_open = False
            # Their last references go after the lock: drivers may have much to do then.
            memories, self._memories = self._memories, {}
            self._unread.clear()
            prepared, self._prepared = self._prepared, {}
        memories.clear()
        prepared.clear()

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeadObject("the session is over")

    @property
    def memories(self) -> int:
        """How many memories live."""
        return len(self._held)

    @property
    def has_unread(self) -> bool:
        """Whether results wait to be read."""
        return bool(self._unread)

    @property
    def prepared_models(self) -> int:
        """How many prepared models it has."""
        return len(self._prepared)


class Sessions:
    """The open sessions of a daemon. Thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._by_token: dict[bytes, Session] = {}

    def open(self) -> Session:
        """A new session.

        Raises:
            ResourceExhaustedTransient: there are too many.
        """
        with self._lock:
            if len(self._by_token) >= self._limits.sessions:
                raise ResourceExhaustedTransient(f"{self._limits.sessions} sessions are open; no more may be")
            session = Session(self._limits)
            self._by_token[session.token] = session
        return session

    def find(self, token: bytes) -> Session:
        """The open session of a token.

        Raises:
            DeadObject: there is none.
        """
        with self._lock:
            session = self._by_token.get(token)
        if session is None:
            raise DeadObject("the session is not open, or not any more")
        return session

    def close(self, session: Session) -> None:
        """Ends a session; one that is over already stays so."""
        with self._lock:
            self._by_token.pop(session.token, None)
        session.close()

    def all(self) -> tuple[Session, ...]:
        """Those that are open now."""
        with self._lock:
            return tuple(self._by_token.values())
