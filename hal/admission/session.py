"""What clients own in a daemon: memories and prepared models, in sessions with limits.

A memory is known to its client by a random token, good for one mention in one call: the call takes it out
of the session. A memory that a call or a prepared model still holds counts towards the limits until it is
let go.
"""

import contextlib
import itertools
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from neurald.hal.accounting.account import Account, Reservation
from neurald.hal.accounting.holdings import Accounts, Holdings
from neurald.hal.accounting.lending import Lender
from neurald.hal.accounting.limits import Limits, UserCalls
from neurald.hal.admission.buffer_tracker import BufferTracker
from neurald.hal.buffers.staging import Arenas
from neurald.hal.device import PreparedModel
from neurald.hal.errors import (
    BadData,
    BadState,
    DeadObject,
    Error,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
)
from neurald.hal.execution.fenced_execution import FencedRun
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Model, Priority
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.fence import Fence

_TOKEN_BYTES = 16
#: Arenas that a prepared model keeps, and how large they may be.
_ARENA_CACHE_SIZE = 2
_MAX_CACHED_ARENA_BYTES = 32 << 20
#: That a burst keeps open: its socket and its ring.
_BURST_DESCRIPTORS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared model, the model that requests are checked against, and memory for copies of arguments.

    Attributes:
        model: of one that came from a cache only the inputs and outputs are known.
        priority: of its executions.
        account: that is charged for what its executions take.
        cache_key: under which its artifact may be asked for; none if it may not.
    """

    model: Model
    prepared: PreparedModel
    arenas: Arenas
    priority: Priority
    account: Account
    cache_key: bytes = b""


class _Burst(Protocol):
    """A burst of the session; it is told when the session ends."""

    def stop(self) -> None: ...


class Session:
    """One client's things. Thread-safe.

    Attributes:
        buffers: its device buffers.
        accounts: that are charged for what it holds.
    """

    def __init__(
        self,
        limits: Limits,
        user: int | str | None = None,
        user_calls: UserCalls | None = None,
        accounts: Accounts | None = None,
    ) -> None:
        self.token = secrets.token_bytes(_TOKEN_BYTES)
        self.user = user
        self._calls = 0
        self._user_calls = user_calls or UserCalls(limits)
        self._limits = limits
        self._lock = threading.Lock()
        self._is_open = True
        self._memories: dict[bytes, Memory] = {}
        self._unread: set[bytes] = set()
        self.accounts = Lender(limits).session(user) if accounts is None else accounts
        self._holdings = Holdings(limits, self.accounts)
        self._fences: dict[bytes, Fence] = {}
        # As long as they live, also after they were taken.
        self._fence_descriptors: WeakKeyDictionary[Fence, Reservation] = WeakKeyDictionary()
        self._prepared: dict[int, Prepared] = {}
        self._fenced: dict[int, FencedRun] = {}
        self._bursts: dict[_Burst, Reservation] = {}
        self._under_way: set[Cancellation] = set()
        self._handles = itertools.count(1)
        self.buffers = BufferTracker()

    def add_memory(self, memory: Memory, *, is_result: bool = False) -> bytes:
        """Keeps a memory until its token, which is returned, is used.

        Args:
            memory: from the client, or by `new_memory`.
            is_result: the client is to read it.

        Raises:
            ResourceExhaustedPersistent, ResourceExhaustedTransient: it is too much.
            DeadObject: the session is over.
        """
        self.hold_memory(memory)
        token = secrets.token_bytes(_TOKEN_BYTES)
        with self._lock:
            self._require_open()
            self._memories[token] = memory
            if is_result:
                self._unread.add(token)
        return token

    def hold_memory(self, memory: Memory) -> None:
        """Counts a memory for as long as it lives; see `add_memory`."""
        with self._lock:
            self._require_open()
            self._holdings.add(memory)

    def receive_memory(self, descriptor: int, size_bytes: int, *, constant: bool) -> Memory:
        """A client's shared memory, which counts for as long as it lives; see `Holdings.receive`."""
        return self._holdings.receive(descriptor, size_bytes, constant=constant)

    def new_memory(self, size_bytes: int) -> Memory:
        """Zeroed memory of the daemon's own, which counts towards the limits; see `Holdings.new`."""
        return self._holdings.new(size_bytes)

    def add_results(self, memories: Iterable[Memory]) -> list[bytes]:
        """Keeps memories for the client to read, all of them or none; returns their tokens. See `add_memory`."""
        tokens: list[bytes] = []
        try:
            for memory in memories:
                tokens.append(self.add_memory(memory, is_result=True))
        except Error:
            for token in tokens:
                self.drop_memory(token)
            raise
        return tokens

    def hold(self, size_bytes: int, make: Callable[[], Memory]) -> Memory:
        """Memory that the device makes, which counts towards the limits for as long as it lives.

        Args:
            size_bytes: what it will take, 0 if that is not known.
            make: has the device make it.

        Raises:
            ResourceExhaustedPersistent: it never fits.
            ResourceExhaustedTransient: it does not fit beside the others.
            DeadObject: the session is over.
            Error: the device cannot make it.
        """
        with self._lock:
            self._require_open()
        memory = self._holdings.make(size_bytes, make)
        with self._lock:
            self._require_open()
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

    def add_fence(self, fence: Fence) -> bytes:
        """Keeps a fence for one mention in one call; returns its token.

        Raises:
            ResourceExhaustedTransient: there are too many.
            DeadObject: the session is over.
        """
        token = secrets.token_bytes(_TOKEN_BYTES)
        with self._lock:
            self._require_open()
            if len(self._fences) >= self._limits.fences:
                raise ResourceExhaustedTransient(
                    f"{self._limits.fences} fences wait to be used; a session may have no more"
                )
            self._fence_descriptors[fence] = self.accounts.descriptors.reserve(1, "a fence")
            self._fences[token] = fence
        return token

    def take_fence(self, token: bytes) -> Fence:
        """The fence of a token, which is used up.

        Raises:
            BadData: there is none in this session.
        """
        with self._lock:
            fence = self._fences.pop(token, None)
        if fence is None:
            raise BadData("a fence token is not known; each is good for one call of its session")
        return fence

    def start_fenced(self, execution: FencedRun) -> int:
        """Starts a fenced execution and keeps it until it is asked for; returns its handle.

        Raises:
            ResourceExhaustedTransient: there are too many, or no thread can be started. Nothing is kept then.
            DeadObject: the session is over.
        """
        with self._lock:
            self._require_open()
            if len(self._fenced) >= self._limits.fenced_executions:
                raise ResourceExhaustedTransient(
                    f"{self._limits.fenced_executions} fenced executions are open; a session may have no more"
                )
            execution.start()
            handle = next(self._handles)
            self._fenced[handle] = execution
        return handle

    def take_fenced(self, handle: int) -> FencedRun:
        """The fenced execution of a handle, which is used up.

        Raises:
            BadData: there is none in this session.
            BadState: it is not over yet.
        """
        with self._lock:
            execution = self._fenced.get(handle)
            if execution is None:
                raise BadData(f"fenced execution {handle} is not known in this session")
            if not execution.is_over:
                raise BadState(f"fenced execution {handle} is not over yet")
            return self._fenced.pop(handle)

    def add_prepared(
        self,
        model: Model,
        prepared: PreparedModel,
        priority: Priority = Priority.MEDIUM,
        cache_key: bytes = b"",
    ) -> int:
        """Keeps a prepared model; returns its handle. Arguments are described in `Prepared`.

        Raises:
            ResourceExhaustedTransient: there are too many.
            DeadObject: the session is over.
        """
        arenas = Arenas(self.new_memory, kept=_ARENA_CACHE_SIZE, kept_bytes=_MAX_CACHED_ARENA_BYTES)
        with self._lock:
            self._require_open()
            self._check_prepared()
            handle = next(self._handles)
            self._prepared[handle] = Prepared(
                model=model,
                prepared=prepared,
                arenas=arenas,
                priority=priority,
                account=self.accounts.memory,
                cache_key=cache_key,
            )
        return handle

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """One call that the device works on.

        Raises:
            ResourceExhaustedTransient: there are too many at the same time.
        """
        with self._lock:
            if self._calls >= self._limits.calls:
                raise ResourceExhaustedTransient(
                    f"{self._limits.calls} calls of the session are under way; it may have no more"
                )
            self._user_calls.begin(is_first=not self._calls)
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1
            self._user_calls.end()

    def check_model(self, size_bytes: int) -> None:
        """Whether the constants of a model may take so many bytes.

        Raises:
            ResourceExhaustedPersistent: they may not.
        """
        most = self._limits.model_bytes
        if size_bytes > most:
            raise ResourceExhaustedPersistent(
                f"constants of {size_bytes} bytes; one model may have {most} (model_bytes)"
            )

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

    def add_burst(self, burst: _Burst) -> None:
        """Keeps a burst until it ends, to stop it when the session does.

        Raises:
            ResourceExhaustedTransient: there are too many.
            DeadObject: the session is over.
        """
        with self._lock:
            self._require_open()
            if len(self._bursts) >= self._limits.bursts:
                raise ResourceExhaustedTransient(f"{self._limits.bursts} bursts; a session may have no more")
            self._bursts[burst] = self.accounts.descriptors.reserve(_BURST_DESCRIPTORS, "a burst")

    def remove_burst(self, burst: _Burst) -> None:
        """Forgets a burst that has ended."""
        with self._lock:
            self._bursts.pop(burst, None)

    @contextlib.contextmanager
    def cancelling(self, cancellation: Cancellation) -> Iterator[None]:
        """Work that is cancelled if the session ends meanwhile.

        Raises:
            DeadObject: the session is over.
        """
        with self._lock:
            self._require_open()
            self._under_way.add(cancellation)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(cancellation)

    def close(self) -> None:
        """Lets go of everything."""
        with self._lock:
            self._is_open = False
            under_way = tuple(self._under_way)
            # Their last references go after the lock: drivers may have much to do then.
            memories, self._memories = self._memories, {}
            self._unread.clear()
            self._fences.clear()
            fenced, self._fenced = self._fenced, {}
            prepared, self._prepared = self._prepared, {}
            bursts = tuple(self._bursts)
        for cancellation in under_way:
            cancellation.cancel()
        for burst in bursts:
            burst.stop()
        for execution in fenced.values():
            execution.cancel()
        memories.clear()
        prepared.clear()
        self.buffers.clear()

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeadObject("the session is over")

    @property
    def memories(self) -> int:
        """How many memories live."""
        return len(self._holdings)

    @property
    def has_unread(self) -> bool:
        """Whether results wait to be read."""
        return bool(self._unread)

    @property
    def prepared_models(self) -> int:
        """How many prepared models it has."""
        return len(self._prepared)


class Sessions:
    """The open sessions of a daemon. Thread-safe.

    Attributes:
        lender: whose accounts they are charged on.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._by_token: dict[bytes, Session] = {}
        # Those of users who have no session any more go by themselves.
        self._user_calls: WeakValueDictionary[int | str | None, UserCalls] = WeakValueDictionary()
        self.lender = Lender(limits)

    def open(self, user: int | str | None = None) -> Session:
        """A new session.

        Args:
            user: whose it is: the number of a user of this host, or another host; None where that is not known.

        Raises:
            ResourceExhaustedTransient: there are too many.
        """
        with self._lock:
            if len(self._by_token) >= self._limits.sessions:
                raise ResourceExhaustedTransient(f"{self._limits.sessions} sessions are open; no more may be")
            open_ones = Counter(session.user for session in self._by_token.values())
            if open_ones[user] >= self._limits.user_sessions:
                raise ResourceExhaustedTransient(
                    f"{self._limits.user_sessions} sessions of one user are open; no more may be"
                )
            calls = self._user_calls.get(user) or UserCalls(self._limits)
            self._user_calls[user] = calls
            session = Session(self._limits, user, calls, self.lender.session(user))
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
