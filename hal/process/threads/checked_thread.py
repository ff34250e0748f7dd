"""Threads whose start fails if they cannot begin.

`threading.Thread.start` waits until the new thread runs. If the system starts it and the
interpreter then finds no memory for its first function, the thread ends at once, and its starter
would wait for ever, perhaps with a lock that others need.
"""

import threading
from typing import Final

from neurald.hal.process.threads.replaced_threads import require_threads

#: How long a start waits. A thread that begins later does nothing.
_MAX_START_S: Final = 10.0


class _LimitedEvent(threading.Event):
    """An event that nobody waits for without a limit."""

    def wait(self, timeout: float | None = None) -> bool:
        """Returns whether it is set; waits up to `_MAX_START_S` if no other limit is given."""
        return super().wait(_MAX_START_S if timeout is None else timeout)


class CheckedThread(threading.Thread):
    """A thread that runs if and only if `start` returns."""

    #: Acquired by the thread once it runs, or by its starter once it gives up.
    _decision: threading.Lock

    def start(self) -> None:
        """Starts the thread.

        Raises:
            RuntimeError: there are no more threads, or no memory for another one.
            ReplacedThreads: see `require_threads`.
        """
        require_threads()
        begun = _LimitedEvent()
        if self.ident is None:
            self._decision = threading.Lock()
            # What `threading.Thread.start` waits for.
            vars(self)["_started"] = begun
        super().start()
        if not begun.is_set() and self._decision.acquire(blocking=False):
            raise RuntimeError("can't start new thread: it has not begun, presumably for lack of memory")

    def run(self) -> None:
        """Does the work of the thread, unless its starter has given up."""
        if self._decision.acquire(blocking=False):
            super().run()


class CheckedTimer(CheckedThread, threading.Timer):
    """A timer whose thread runs if and only if `start` returns."""
