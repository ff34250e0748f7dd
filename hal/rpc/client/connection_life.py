"""Detects whether a daemon lives, for one connection.

Threads of gRPC ping the daemon and answer its pings (see
`neurald.hal.rpc.transport.status.CLIENT_OPTIONS`). They do not need the interpreter's lock, so a
daemon that compiles, or runs native code that holds the lock, still answers; a stopped one does
not. One call, `Watch`, stays open for as long as the connection lasts. Everything else is ended by
its end: gRPC ends other calls by itself, and the sockets on which threads sleep are shut down.
"""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import grpc

from neurald.hal.errors import DeadObject, Unreachable, Withdrawn
from neurald.hal.process.fork import FORKED_CONNECTION, at_fork, forkable_lock
from neurald.hal.rpc.transport.status import error_of_status

#: Part of gRPC's message for a connection that it closed because pings were not answered.
_SILENCE = "ping timeout"
#: How long to wait for the cause after one of the connection's sockets was found closed. gRPC
#: reports it at once, but by a thread that may have to wait for a busy machine.
_CAUSE_WAIT_S = 3.0
#: The daemon's activity during calls that take long, for messages, by name of the call.
_ACTIVITIES = {
    "GetSupportedOperations": "while it looked at a model",
    "PrepareModel": "while it prepared a model",
    "PrepareModelFromCache": "while it prepared a model from the cache",
    "Execute": "while it executed a model",
    "ExecuteFenced": "while it launched a fenced execution",
    "Profile": "while it profiled a model",
}


class ConnectionLife:
    """The state of one connection: open, or over for a reason. Thread-safe.

    Args:
        what: names the daemon in messages.

    Attributes:
        was_stopped: whether the daemon announced its end; replies to calls may still be on their
            way.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = forkable_lock()
        self._over = threading.Event()
        self._cause = ""
        self._is_innocent = False
        self.was_stopped = False
        self._is_watched = False
        self._numbers = itertools.count()
        self._callbacks: dict[int, Callable[[], None]] = {}
        at_fork(self)

    @property
    def is_over(self) -> bool:
        """True if the connection has ended, for whatever reason."""
        return self._over.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Waits until the connection has ended, at most `timeout_s`; returns whether it has."""
        return self._over.wait(timeout_s)

    def forked(self) -> None:
        """Ends the connection in a child, without callbacks: they would shut down sockets.

        The sockets are shared with the parent.
        """
        self._callbacks = {}
        self._over = threading.Event()
        self.end(FORKED_CONNECTION, is_innocent=True)

    def watch(self, stream: Any) -> None:
        """Ends the connection when a gRPC call ends that stays open while the daemon serves it."""

        def over(call: Any) -> None:
            if call.code() is grpc.StatusCode.UNIMPLEMENTED:  # a daemon of an older version
                self._is_watched = False
            else:
                self.end_with(call)

        self._is_watched = True
        stream.add_done_callback(over)

    def call_at_end(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when the connection ends, or now if it has ended.

        Args:
            callback: must neither wait nor raise.

        Returns:
            A function that removes the callback.
        """
        with self._lock:
            if not self._over.is_set():
                number = next(self._numbers)
                self._callbacks[number] = callback
                return lambda: self._forget(number)
        callback()
        return lambda: None

    def _forget(self, number: int) -> None:
        """Removes a callback. Takes no lock: the thread of a finalizer may hold it."""
        self._callbacks.pop(number, None)

    def end(self, cause: str, *, is_innocent: bool = False) -> None:
        """Ends the connection, unless it is over.

        Args:
            cause: the rest of a sentence that begins with the daemon.
            is_innocent: whether no call can have caused it.
        """
        with self._lock:
            if self._over.is_set():
                return
            self._cause = cause
            self._is_innocent = is_innocent
            self._over.set()
            callbacks, self._callbacks = self._callbacks, {}
        # A finalizer may be about to remove one of them.
        for callback in tuple(callbacks.values()):
            callback()

    def lose(self, failure: Any) -> None:
        """Ends the connection for a gRPC call that was lost, or that only another daemon refuses.

        `Watch` ends as well, and knows more of the cause.
        """
        self._await_end()
        if isinstance(error_of_status(failure), Withdrawn) and not self.is_over:
            self.was_stopped = True
            self.end("was replaced by another one, which does not know the session", is_innocent=True)
        else:
            self.end_with(failure)

    def _await_end(self) -> bool:
        """Waits for the cause, if anything tells it; returns whether the connection is over."""
        return self._over.wait(_CAUSE_WAIT_S if self._is_watched else 0)

    def end_with(self, failure: Any) -> None:
        """Ends the connection for the status of a gRPC call that shows that it is lost."""
        own_error = error_of_status(failure)
        details = failure.details() or ""
        if isinstance(own_error, Withdrawn):
            # The session had ended before the daemon knew that this client watches it.
            self.was_stopped = True
            self.end("has ended the session", is_innocent=True)
        elif own_error is not None:
            self.end(str(own_error))
        elif failure.code() is grpc.StatusCode.OK:
            self.was_stopped = True
            self.end("was stopped", is_innocent=True)
        elif _SILENCE in details or "SETTINGS" in details:
            self.end("stopped answering; its process is stopped, or hangs", is_innocent=True)
        elif failure.code() is grpc.StatusCode.CANCELLED:
            self.end("is no longer connected", is_innocent=True)
        else:
            self.end("is gone: it died, or its connection was cut")

    def death(
        self, method: str = "", otherwise: str = "closed the connection", *, is_told: bool = True
    ) -> DeadObject:
        """Returns the error of a call that ended with the connection.

        Args:
            method: name of the call, if it is one of the contract.
            otherwise: the cause if the connection as a whole has not ended.
            is_told: whether to wait for the cause.
        """
        is_known = self._await_end() if is_told else self.is_over
        activity = _ACTIVITIES.get(method, "")
        cause = self._cause if is_known else otherwise
        innocent = Withdrawn if self.was_stopped else Unreachable
        kind = innocent if is_known and self._is_innocent else DeadObject
        return kind(" ".join(filter(None, (self._what, cause, activity and f"({activity})"))))
