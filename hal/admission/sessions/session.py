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

from msgspec import Struct

from neurald.hal.accounting.account import Reservation
from neurald.hal.accounting.daemon_accounts import DaemonAccounts
from neurald.hal.accounting.holdings import Holdings, SessionAccounts
from neurald.hal.accounting.limits import Limits, UserCalls
from neurald.hal.admission.executions.native_gate import NativeShare
from neurald.hal.admission.sessions.handle_table import HandleTable
from neurald.hal.admission.sessions.session_buffers import SessionBuffers
from neurald.hal.admission.sessions.session_fences import SessionFences
from neurald.hal.admission.sessions.session_memories import SessionMemories, new_token
from neurald.hal.admission.sessions.session_models import SessionModels
from neurald.hal.crashes.breadcrumbs import session_number
from neurald.hal.errors import (
    SESSION_OVER,
    DeadObject,
    ResourceExhaustedTransient,
)
from neurald.hal.sync.cancellation import Cancellation

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
        fences: its fences and fenced executions.
        models: its prepared models.
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
        new_handle = itertools.count(1).__next__
        self.fences = SessionFences(limits, self.accounts, new_handle)
        self.models = SessionModels(limits, self.memories, self.accounts.memory, new_handle)
        self._rings: HandleTable[int, _OpenRing] = HandleTable("ring", new_handle, limits.bursts, "bursts")
        self.buffers = SessionBuffers()
        self.share = NativeShare()

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
        fenced_runs = self.fences.close()
        models = self.models.close()
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
