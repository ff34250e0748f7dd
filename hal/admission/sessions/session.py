"""A session of a daemon, which holds everything that one client has there.

A client names a memory or a fence by a random token, which can be used in one call: the call takes
the object out of the session.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Protocol
from weakref import WeakKeyDictionary

from msgspec import Struct

from neurald.hal.accounting.account import Reservation
from neurald.hal.accounting.daemon_accounts import DaemonAccounts
from neurald.hal.accounting.holdings import Holdings, SessionAccounts
from neurald.hal.accounting.limits import Limits, UserCalls
from neurald.hal.admission.executions.native_gate import NativeShare
from neurald.hal.admission.sessions.handle_table import HandleTable
from neurald.hal.admission.sessions.registered_model import RegisteredModel
from neurald.hal.admission.sessions.session_buffers import SessionBuffers
from neurald.hal.admission.sessions.session_memories import SessionMemories, new_token
from neurald.hal.buffers.staging import ArenaPool
from neurald.hal.crashes.breadcrumbs import Crumb, session_number
from neurald.hal.crashes.watch import NO_CRUMB
from neurald.hal.device import PreparedModel
from neurald.hal.errors import (
    SESSION_OVER,
    BadState,
    DeadObject,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
)
from neurald.hal.execution.fenced_execution import FencedRun
from neurald.hal.model.model import Model
from neurald.hal.model.types import Priority
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.fence import Fence

#: How many arenas a prepared model keeps, and of how many bytes together.
_ARENA_CACHE_SIZE = 2
_MAX_CACHED_ARENA_BYTES = 32 << 20
#: How many descriptors a ring keeps open: its socket, and what wakes its thread.
_RING_DESCRIPTORS = 2
#: How long a client may take from the start of its session until it watches it.
_OPENING_S = 2.0


class _Ring(Protocol):
    """A ring of the session, which learns when the session ends."""

    def stop(self) -> None: ...


class _OpenRing(Struct, frozen=True, kw_only=True):
    ring: _Ring
    descriptors: Reservation


class Session:
    """Everything that one client holds in a daemon, within limits. Thread-safe.

    Attributes:
        token: the token by which its calls name it.
        number: identifies it in breadcrumbs.
        user: the user of the client.
        memories: its memories.
        buffers: its device buffers.
        share: its part of the time of executions that native code runs.
        accounts: charged for what it holds.
        is_watched: whether its client is told of its end.
    """

    def __init__(
        self,
        limits: Limits,
        user: int | str | None = None,
        user_calls: UserCalls | None = None,
        accounts: SessionAccounts | None = None,
    ) -> None:
        self.token = new_token()
        self.number = session_number(self.token)
        self.user = user
        self.is_watched = False
        self._opened_s = time.monotonic()
        self._calls = 0
        self._user_calls = user_calls or UserCalls(limits)
        self._limits = limits
        self._lock = threading.Lock()
        self._is_open = True
        self.accounts = DaemonAccounts(limits).session(user) if accounts is None else accounts
        self.memories = SessionMemories(Holdings(limits, self.accounts))
        self._cancellations: set[Cancellation] = set()
        handles = itertools.count(1)

        def next_handle() -> int:
            return next(handles)

        self._fences: HandleTable[bytes, Fence] = HandleTable(
            "fence token", new_token, limits.fences, "fences"
        )
        #: The descriptors of fences, which count as long as the fences live, also after their
        #: tokens were used.
        self._fence_descriptors: WeakKeyDictionary[Fence, Reservation] = WeakKeyDictionary()
        self._models: HandleTable[int, RegisteredModel] = HandleTable(
            "prepared model", next_handle, limits.prepared_models, "prepared_models"
        )
        self._fenced_runs: HandleTable[int, FencedRun] = HandleTable(
            "fenced execution", next_handle, limits.fenced_executions, "fenced_executions"
        )
        self._rings: HandleTable[int, _OpenRing] = HandleTable("ring", next_handle, limits.bursts, "bursts")
        self.buffers = SessionBuffers()
        self.share = NativeShare()

    # Fences and fenced executions

    def add_fence(self, fence: Fence) -> bytes:
        """Keeps a fence until its token is used, and returns the token.

        Raises:
            ResourceExhaustedTransient: there are too many.
            DeadObject: the session is over.
        """

        def charged() -> Fence:
            self._fence_descriptors[fence] = self.accounts.descriptors.reserve(1, "a fence")
            return fence

        return self._fences.add(charged)

    def take_fence(self, token: bytes) -> Fence:
        """Returns the fence of a token, which cannot be used again.

        Raises:
            BadData: the session has no such token.
            DeadObject: the session is over.
        """
        return self._fences.take(token)

    def start_fenced(self, execution: FencedRun) -> int:
        """Starts a fenced execution, keeps it until its result is taken, and returns its handle.

        Raises:
            ResourceExhaustedTransient: there are too many, or no thread can be started. Nothing is
                kept then.
            DeadObject: the session is over.
        """

        def started() -> FencedRun:
            execution.start()
            return execution

        return self._fenced_runs.add(started)

    def take_fenced(self, handle: int) -> FencedRun:
        """Returns a fenced execution that is over; its handle cannot be used again.

        Raises:
            BadData: the session has no such handle.
            BadState: it is not over yet.
            DeadObject: the session is over.
        """

        def require_over(execution: FencedRun) -> None:
            if not execution.is_over:
                raise BadState(f"fenced execution {handle} is not over yet; wait for its fence first")

        return self._fenced_runs.take(handle, require_over)

    # Prepared models

    def add_model(
        self,
        model: Model,
        prepared_model: PreparedModel,
        priority: Priority = Priority.MEDIUM,
        cache_key: bytes = b"",
        crumb: Crumb = NO_CRUMB,
        improved: threading.Event | None = None,
    ) -> int:
        """Keeps a prepared model and returns its handle.

        Args:
            model, prepared_model, priority, cache_key, crumb, improved: see `RegisteredModel`.

        Raises:
            ResourceExhaustedTransient: there are too many.
            DeadObject: the session is over.
        """
        arenas = ArenaPool(
            self.memories.new, max_kept=_ARENA_CACHE_SIZE, max_kept_bytes=_MAX_CACHED_ARENA_BYTES
        )
        registered = RegisteredModel(
            model=model,
            prepared_model=prepared_model,
            arenas=arenas,
            priority=priority,
            account=self.accounts.memory,
            cache_key=cache_key,
            crumb=crumb,
            improved=improved,
        )
        return self._models.add(lambda: registered)

    def add_shared(self, other: RegisteredModel, priority: Priority, cache_key: bytes = b"") -> int:
        """Keeps a prepared model of another session of the user, and returns its handle here.

        Args:
            other: the prepared model there.
            priority, cache_key: see `RegisteredModel`.

        Raises:
            Error: see `add_model`.
        """
        return self.add_model(
            other.model, other.prepared_model, priority, cache_key, other.crumb, other.improved
        )

    def require_space_for_model(self) -> None:
        """Raises an error if the session may not have one more prepared model.

        Raises:
            ResourceExhaustedTransient: it may not.
        """
        self._models.require_space()

    def model(self, handle: int) -> RegisteredModel:
        """Returns the prepared model of a handle.

        Raises:
            BadData: the session has no such handle.
            DeadObject: the session is over.
        """
        return self._models.find(handle)

    def release_model(self, handle: int) -> None:
        """Releases a prepared model; its executions that are under way finish.

        Raises:
            BadData: the session has no such handle.
            DeadObject: the session is over.
        """
        self._models.take(handle)

    @property
    def prepared_models(self) -> int:
        """The number of prepared models that the session has."""
        return len(self._models)

    def check_constants(self, size_bytes: int) -> None:
        """Raises an error if the constants of a model are too large.

        Raises:
            ResourceExhaustedPersistent: they take more bytes than one model may have.
        """
        limit = self._limits.model_bytes
        if size_bytes > limit:
            raise ResourceExhaustedPersistent(
                f"the model has constants of {size_bytes} bytes; one model may have {limit} (model_bytes)"
            )

    # Rings

    def add_ring(self, ring: _Ring) -> int:
        """Keeps a ring, so that it is stopped when the session ends, and returns its handle.

        Raises:
            ResourceExhaustedTransient: there are too many.
            DeadObject: the session is over.
        """
        return self._rings.add(
            lambda: _OpenRing(
                ring=ring, descriptors=self.accounts.descriptors.reserve(_RING_DESCRIPTORS, "a ring")
            )
        )

    def remove_ring(self, handle: int) -> None:
        """Removes a ring that has ended."""
        self._rings.discard(handle)

    # Calls and the end

    @property
    def is_opening(self) -> bool:
        """True if its client, which has just opened it, is about to watch it."""
        return not self.is_watched and time.monotonic() < self._opened_s + _OPENING_S

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Counts a call within the context; see `begin_call`."""
        self.begin_call()
        try:
            yield
        finally:
            self.end_call()

    def begin_call(self) -> None:
        """Counts a call that the device works on; `end_call` follows.

        Raises:
            ResourceExhaustedTransient: the session, or its user, has too many at the same time.
        """
        with self._lock:
            if self._calls >= self._limits.calls:
                raise ResourceExhaustedTransient(
                    f"{self._limits.calls} calls of the session are under way, which is the most that it may have "
                    "(calls)"
                )
            self._user_calls.begin(is_first=not self._calls)
            self._calls += 1

    def end_call(self) -> None:
        """Ends a call that was counted."""
        with self._lock:
            self._calls -= 1
        self._user_calls.end()

    @contextlib.contextmanager
    def cancelling(self, cancellation: Cancellation) -> Iterator[None]:
        """Cancels work if the session ends meanwhile.

        Raises:
            DeadObject: the session is over.
        """
        with self._lock:
            self._require_open()
            self._cancellations.add(cancellation)
        try:
            yield
        finally:
            with self._lock:
                self._cancellations.discard(cancellation)

    def close(self) -> None:
        """Ends the session: cancels its work, and drops everything that it holds."""
        with self._lock:
            self._is_open = False
            cancellations = tuple(self._cancellations)
        # First of all, the device is to be free for others.
        for cancellation in cancellations:
            cancellation.cancel()
        self._fences.close()
        fenced_runs = self._fenced_runs.close()
        models = self._models.close()
        rings = self._rings.close()
        for open_ring in rings:
            open_ring.ring.stop()
        for execution in fenced_runs:
            execution.cancel()
        # Last references may go here, and drivers may have much to do then.
        del models
        self.memories.close()
        self.buffers.close()

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeadObject(SESSION_OVER)
