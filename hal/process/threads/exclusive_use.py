"""Exclusive use: one user at a time, while others are refused instead of kept waiting.

A signal handler may raise an exception between any two calls, also right after a lock was acquired
or right before it is released, and the lock is held for ever then. Here nothing is called between
the moment in which a use begins or ends and the code that knows of it.
"""

import threading

from neurald.hal.process.fork import at_fork


class ExclusiveUse:
    """Lets one user at a time use something, and knows who that is. Thread-safe.

    A user is an object that its function makes, and the function ends the use as follows, since a
    method that did this could be interrupted before its first line::

        user = object()
        try:
            if not use.begin(user):
                raise BadState("it is in use")
            ...
        finally:
            if use.user is user:
                use.user = None

    Attributes:
        user: None if nothing uses it.
    """

    def __init__(self) -> None:
        self.user: object | None = None
        # A signal handler may ask while its thread is in `begin`.
        self._lock = threading.RLock()
        at_fork(self)

    def forked(self) -> None:
        """Ends the use by a thread of the parent."""
        self._lock = threading.RLock()
        self.user = None

    def begin(self, user: object) -> bool:
        """Begins a use, and returns True unless there is one already."""
        with self._lock:
            if self.user is not None:
                return False
            self.user = user
            return True
