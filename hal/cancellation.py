"""Cancellation: one thread asks another one's execution to stop."""

import threading
from collections.abc import Callable

from neurald.hal.errors import Cancelled


class Cancellation:
    """Whether an execution is to stop. Thread-safe; once cancelled, it stays so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._is_cancelled

    @property
    def is_unused(self) -> bool:
        """Whether nobody has cancelled it, nor asked to be told."""
        return not self._is_cancelled and not self._callbacks

    def cancel(self) -> None:
        """Asks to stop; calls what `call_on_cancel` was given."""
        with self._lock:
            self._is_cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def call_on_cancel(self, callback: Callable[[], object]) -> None:
        """Has `callback` called once it is cancelled: at once if it already is."""
        with self._lock:
            if not self._is_cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def require_not_cancelled(self, where: str) -> None:
        """Raises Cancelled if it is; the message says `where` that was noticed."""
        if self.is_cancelled:
            raise Cancelled(f"the execution was cancelled {where}")
