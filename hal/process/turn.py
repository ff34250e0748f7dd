"""A turn: threads that wait for the same thing take turns in doing the work of the wait."""

import contextlib
import threading
from collections.abc import Iterator

from neurald.hal.errors import BadState
from neurald.hal.process.fork import forkable_lock


class Turn:
    """A lock that a thread cannot wait for while it holds it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = forkable_lock()
        self._holder = 0

    @contextlib.contextmanager
    def taken(self, timeout_s: float | None) -> Iterator[bool]:
        """Takes the turn within the context.

        Args:
            timeout_s: how long to wait for it; None for no limit.

        Yields:
            Whether the turn was taken.

        Raises:
            BadState: a signal handler or a finalizer asks for the turn of the code that it has
                interrupted.
        """
        holder = threading.get_ident()
        if self._holder == holder:
            raise BadState("the code that was interrupted here waits for the same execution")
        limit_s = -1 if timeout_s is None else min(max(0.0, timeout_s), threading.TIMEOUT_MAX)
        is_taken = self._lock.acquire(timeout=limit_s)
        try:
            if is_taken:
                self._holder = holder
            yield is_taken
        finally:
            if is_taken:
                self._holder = 0
                self._lock.release()
