"""A turn: threads that wait for the same thing take turns in doing the work of the wait."""

import threading
from collections.abc import Callable
from typing import Final

from neurald.hal.errors import BadState
from neurald.hal.process.fork import forkable_reentrant_lock


class Turn:
    """A lock that a thread cannot wait for while it holds it. Thread-safe.

    Signal handlers may ask for it at any moment, and raise errors.

    Attributes:
        give_back: ends the turn of the calling thread. No signal is handled before it has ended,
            as at the begin of a function in Python.
    """

    def __init__(self) -> None:
        # The lock and its owner change together, so that no signal is handled in between.
        self._lock = forkable_reentrant_lock()
        self._is_own: Final[Callable[[], bool]] = self._lock._is_owned
        self.give_back: Final[Callable[[], None]] = self._lock.release

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
        if self._is_own():
            raise BadState("the code that was interrupted here waits for the same execution")
        limit_s = -1 if timeout_s is None else min(max(0.0, timeout_s), threading.TIMEOUT_MAX)
        try:
            is_taken: bool = self._lock.acquire(timeout=limit_s)
        except BaseException:
            # A signal handler has raised it, perhaps after the turn was taken.
            if self._is_own():
                self.give_back()
            raise
        return is_taken
