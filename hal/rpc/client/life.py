"""Whether a daemon lives, as one connection to it sees it.

gRPC's own threads ping the daemon and answer its pings (see `neurald.hal.rpc.transport.status.CLIENT_OPTIONS`). They need no lock of the
interpreter, so that a daemon that compiles, or calls native code that holds that lock, still answers; one that is
stopped does not. A call stays open for as long as the connection lasts, `Watch` of the contract. Its end is the
news that everything else waits for: gRPC ends calls by itself, and sockets that waits sleep on are shut down.
"""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import grpc

from neurald.hal.errors import DeadObject, Unreachable
from neurald.hal.process.fork import FORKED_CONNECTION, at_fork, forkable_lock
from neurald.hal.rpc.transport.status import error_of_status

#: What gRPC says of a connection that it closed for want of an answer to its pings.
_SILENCE = "ping timeout"
#: How long the end of the connection may take to be known once one of its sockets was found closed.
_NEWS_S = 0.2
#: What the daemon is asked for by calls that take a while, by the name of the call.
_WORK = {
    "GetSupportedOperations": "while it looked at a model",
    "PrepareModel": "while it prepared a model",
    "PrepareModelFromCache": "while it prepared a model from the cache",
    "Execute": "while it executed a model",
    "ExecuteFenced": "while it launched a fenced execution",
    "Profile": "while it profiled a model",
}


class Life:
    """The life of one connection. Thread-safe.

    Args:
        what: names the daemon in messages.

    Attributes:
        was_stopped: whether the daemon said itself that it ends; replies to calls may still be on their way then.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = forkable_lock()
        self._over = threading.Event()
        self._cause = ""
        self._is_innocent = False
        self.was_stopped = False
        self._numbers = itertools.count()
        self._callbacks: dict[int, Callable[[], None]] = {}
        at_fork(self)

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended, for whatever reason."""
        return self._over.is_set()

    def forked(self) -> None:
        """Ends the life in a child. Callbacks are forgotten: they would shut down sockets of the parent."""
        self._callbacks = {}
        self._over = threading.Event()
        self.end(FORKED_CONNECTION, is_innocent=True)

    def watch(self, stream: Any) -> None:
        """Has the life end with a gRPC call, which is open for as long as the daemon serves this connection."""

        def over(call: Any) -> None:
            if call.code() is not grpc.StatusCode.UNIMPLEMENTED:  # a daemon of an older version
                self.end_with(call)

        stream.add_done_callback(over)

    def call_at_end(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Has `callback` called when the life ends, or now if it has; what is returned takes that back.

        The callback must neither wait nor raise.
        """
        with self._lock:
            if not self._over.is_set():
                number = next(self._numbers)
                self._callbacks[number] = callback
                return lambda: self._forget(number)
        callback()
        return lambda: None

    def _forget(self, number: int) -> None:
        with self._lock:
            self._callbacks.pop(number, None)

    def end(self, cause: str, *, is_innocent: bool = False) -> None:
        """Ends the life, unless it is over.

        Args:
            cause: completes a sentence that begins with the daemon.
            is_innocent: no call can be what ended it.
        """
        with self._lock:
            if self._over.is_set():
                return
            self._cause = cause
            self._is_innocent = is_innocent
            self._over.set()
            callbacks, self._callbacks = self._callbacks, {}
        for callback in callbacks.values():
            callback()

    def end_with(self, failure: Any) -> None:
        """Ends the life as a call of gRPC has ended whose status tells that the connection is lost."""
        told = error_of_status(failure)
        details = failure.details() or ""
        if told is not None:
            self.end(str(told))
        elif failure.code() is grpc.StatusCode.OK:
            self.was_stopped = True
            self.end("was stopped", is_innocent=True)
        elif _SILENCE in details or "SETTINGS" in details:
            self.end("stopped answering; its process is stopped, or hangs", is_innocent=True)
        elif failure.code() is grpc.StatusCode.CANCELLED:
            self.end("is no longer connected", is_innocent=True)
        else:
            self.end("is gone: it died, or its connection was cut")

    def death(self, method: str = "", otherwise: str = "closed the connection") -> DeadObject:
        """The error of a call that ended with the connection.

        Args:
            method: of the call, if it is one of the contract.
            otherwise: the cause where the connection as a whole has not ended.
        """
        is_known = self._over.wait(_NEWS_S)
        work = _WORK.get(method, "")
        cause = self._cause if is_known else otherwise
        kind = Unreachable if is_known and self._is_innocent else DeadObject
        return kind(" ".join(filter(None, (self._what, cause, work and f"({work})"))))
