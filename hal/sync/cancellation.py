"""Cancellation: one thread asks another one's execution to stop."""

import ctypes
import threading
from collections.abc import Callable
from typing import Final

from neurald.hal.errors import Cancelled

_Words = ctypes.c_int64 * 3
#: Places among the words: what `cancel` sets, and where another word is and the value by which it cancels.
_OWN: Final = 0
_OTHER: Final = 1
_VALUE: Final = 2


class Cancellation:
    """Whether an execution is to stop. Thread-safe; once cancelled, it stays so.

    Native code, which cannot ask this object, looks at three words of 64 bits at `address`: the execution is to stop once the
    first one is not 0, or once the 32 bits at the address in the second one equal the lower half of the third one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._callbacks: list[Callable[[], object]] = []
        self._words = _Words()
        #: Where native code looks; valid for as long as this object lives.
        self.address: Final = ctypes.addressof(self._words)
        self.watch(self.address, 1)

    def watch(self, address: int, value: int) -> None:
        """Has native code stop also once the 32 bits at `address`, which must stay readable, are `value`."""
        self._words[_OTHER], self._words[_VALUE] = address, value

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
            self._words[_OWN] = 1
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


#: What nobody ever cancels, for native code that always looks somewhere.
NEVER_CANCELLED: Final = Cancellation()
