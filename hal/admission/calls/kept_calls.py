"""Limits calls that clients keep open for one request after another; each has a thread.

A session has one at most. If there are too many, one that has waited for its client for a while is
cut off for the next; its client goes on with a call for each request.
"""

import contextlib
import threading
import time
from collections.abc import Hashable, Iterator
from typing import Protocol

from neurald.hal.errors import ResourceExhaustedTransient


class _Context(Protocol):
    """The context of a call, which can cut it off."""

    def cancel(self) -> object:
        """Ends the call, for the thread that serves it and for the client."""


class KeptCall:
    """One call that is kept open. Thread-safe.

    Attributes:
        is_over: whether no further request may be taken from it.
        idle_since_s: since when it waits for its client, to take a reply or to send a request, on
            the clock of `time.monotonic()`; None while it serves a request.
    """

    __slots__ = ("_context", "_has_reply", "_lock", "idle_since_s", "is_over")

    def __init__(self, context: _Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self.is_over = False
        self.idle_since_s: float | None = time.monotonic()
        self._has_reply = False

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Marks it as in use during the block; then its client has to take the reply."""
        self.idle_since_s = None
        try:
            yield
        finally:
            with self._lock:
                self.idle_since_s = time.monotonic()
                self._has_reply = True

    def note_reply(self) -> None:
        """Notes that the reply has been sent."""
        with self._lock:
            self._has_reply = False

    def end(self) -> None:
        """Ends it with the reply that is served or being sent; at once if there is none."""
        with self._lock:
            self.is_over = True
            is_cut = self.idle_since_s is not None and not self._has_reply
        if is_cut:
            self._context.cancel()

    def cut_off(self) -> None:
        """Ends it like `end`, but does not wait until its client takes a reply."""
        with self._lock:
            self.is_over = True
            is_cut = self.idle_since_s is not None
        if is_cut:
            self._context.cancel()


class KeptCalls:
    """The kept calls of a server. Thread-safe.

    Args:
        limit: how many there may be.
        grace_s: how long one must have waited for its client to be cut off for another.
    """

    def __init__(self, *, limit: int, grace_s: float) -> None:
        self._limit = limit
        self._grace_s = grace_s
        self._lock = threading.Lock()
        self._calls: dict[Hashable, KeptCall] = {}

    @contextlib.contextmanager
    def open(self, session: Hashable, context: _Context) -> Iterator[KeptCall]:
        """Counts a kept call during the block. It takes the place of another one of its session.

        Raises:
            ResourceExhaustedTransient: there are too many, and all are in use.
        """
        call = KeptCall(context)
        with self._lock:
            before = self._calls.pop(session, None)
            if before is None and len(self._calls) >= self._limit:
                before = self._calls.pop(self._longest_idle())
            self._calls[session] = call
        if before is not None:
            before.cut_off()
        try:
            yield call
        finally:
            with self._lock:
                if self._calls.get(session) is call:
                    del self._calls[session]

    def _longest_idle(self) -> Hashable:
        limit_s = time.monotonic() - self._grace_s
        idle = [
            (since_s, session)
            for session, call in self._calls.items()
            if (since_s := call.idle_since_s) is not None and since_s <= limit_s
        ]
        if not idle:
            raise ResourceExhaustedTransient(
                f"{self._limit} clients keep calls open, which is the most that may; make a call for each request"
            )
        return min(idle, key=lambda each: each[0])[1]

    def end(self, session: Hashable) -> None:
        """Ends the kept call of a session, if it has one, after a reply that is under way."""
        with self._lock:
            call = self._calls.get(session)
        if call is not None:
            call.end()
