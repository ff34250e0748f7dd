"""A turn: threads that wait for the same thing take turns in doing the work of the wait."""

import threading

from neurald.hal.errors import BadState
from neurald.hal.process.fork import forkable_lock


class Turn:
    """A lock that a thread cannot wait for while it holds it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = forkable_lock()
        self._holder = 0

    def take(self, timeout_s: float | None) -> bool:
        """Waits for the turn; `give_back` follows if it was taken.

        Args:
            timeout_s: how long to wait for it; None for no limit.

        Returns:
            Whether the turn was taken.

        Raises:
            BadState: a signal handler or a finalizer asks for the turn of the code that it has
                interrupted.
        """
        holder = threading.get_ident()
        if self._holder == holder:
            raise BadState("the code that was interrupted here waits for the same execution")
        limit_s = -1 if timeout_s is None else min(max(0.0, timeout_s), threading.TIMEOUT_MAX)
        if not self._lock.acquire(timeout=limit_s):
            return False
        self._holder = holder
        return True

    def give_back(self) -> None:
        """Ends the turn of the calling thread."""
        self._holder = 0
        self._lock.release()
