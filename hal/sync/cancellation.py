"""Cancellation: one thread asks the execution of another one to stop."""

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from neurald.hal.errors import Cancelled

_Words = ctypes.c_int64 * 3
#: Indexes of the words: the one that `cancel` sets, the address of an external word, and the value
#: by which that word cancels.
_OWN: Final = 0
_OTHER: Final = 1
_VALUE: Final = 2


#: How often a waiting thread checks whether it was cancelled.
POLL_S: Final = 0.02


class Cancellation:
    """A flag that tells an execution to stop. Thread-safe; once cancelled, it stays so.

    Native code, which cannot call this object, polls three 64-bit words at `address`: the execution
    must stop once the first word is not 0, or once the 32 bits at the address in the second word
    equal the lower half of the third one.
    """

    def __init__(self) -> None:
        # A signal handler may cancel what the thread that it interrupts waits for.
        self._lock = threading.RLock()
        self._is_cancelled = False
        self._callbacks: list[Callable[[], object]] = []
        self._words = _Words()
        #: The address that native code polls; valid for as long as this object lives.
        self.address: Final = ctypes.addressof(self._words)
        self.watch(self.address, 1)

    def watch(self, address: int, value: int) -> None:
        """Makes native code stop also once the 32 bits at `address` equal `value`.

        The address must stay readable.
        """
        self._words[_OTHER], self._words[_VALUE] = address, value

    @property
    def is_cancelled(self) -> bool:
        """True if `cancel` was called."""
        return self._is_cancelled

    @property
    def is_unused(self) -> bool:
        """True if it was neither cancelled nor has a callback."""
        return not self._is_cancelled and not self._callbacks

    def cancel(self) -> None:
        """Asks the execution to stop, and calls all callbacks."""
        with self._lock:
            self._is_cancelled = True
            self._words[_OWN] = 1
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def call_on_cancel(self, callback: Callable[[], object]) -> None:
        """Calls `callback` once the execution is cancelled, at once if it is already."""
        with self._lock:
            # Added first: a signal handler may cancel between any two lines.
            self._callbacks.append(callback)
            if not self._is_cancelled or not self._remove(callback):
                return
        callback()

    def forget(self, callback: Callable[[], object]) -> None:
        """Removes a callback that has not been called; does nothing if it has."""
        with self._lock:
            self._remove(callback)

    def _remove(self, callback: Callable[[], object]) -> bool:
        """Removes a callback; returns False if it is not there, since it has been called."""
        # A signal handler that cancels takes all callbacks, also after a look whether it is there.
        try:
            self._callbacks.remove(callback)
        except ValueError:
            return False
        return True

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Calls `callback` if the execution is cancelled during the context, or was before."""
        self.call_on_cancel(callback)
        try:
            yield
        finally:
            self.forget(callback)

    def wait(self, timeout_s: float) -> bool:
        """Waits for a time, or until the execution is cancelled; returns whether it is."""
        # Not an event: whoever cancels may have interrupted a thread that holds the event's lock.
        cancelled = threading.Lock()
        cancelled.acquire()
        with self.calling(cancelled.release):
            cancelled.acquire(timeout=min(max(0.0, timeout_s), threading.TIMEOUT_MAX))
        return self._is_cancelled

    def require_not_cancelled(self, where: str) -> None:
        """Raises Cancelled if it is cancelled; the message says `where` that was noticed."""
        if self.is_cancelled:
            raise Cancelled(f"the execution was cancelled {where}")


def next_wait_s(deadline_s: float | None, cancellation: Cancellation | None, where: str) -> float:
    """Returns how long a thread may wait before it must check its deadline and cancellation again.

    Args:
        deadline_s: the deadline on the clock of `time.monotonic()`; None for none.
        cancellation: ends the wait; None if nothing can.
        where: what the execution waits for, for the message of the error.

    Returns:
        A time that locks can wait, 0 once the deadline has passed.

    Raises:
        Cancelled: it is cancelled.
    """
    left_s = threading.TIMEOUT_MAX
    if deadline_s is not None:
        left_s = min(left_s, max(0.0, deadline_s - time.monotonic()))
    if cancellation is None:
        return left_s
    cancellation.require_not_cancelled(where)
    return min(left_s, POLL_S)


#: Is never cancelled. For native code, which needs an address to poll.
NEVER_CANCELLED: Final = Cancellation()
