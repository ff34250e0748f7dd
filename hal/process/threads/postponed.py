"""Does work that only later uses need: after some time, in a thread, or at the exit of the process.

Threads take turns, so work that begins at once would delay the first answer, which the application
waits for. For the same reason it waits while the application prepares further models, though not
for ever.
"""

import atexit
import logging
import time
from collections.abc import Callable, Hashable
from contextvars import Context, copy_context
from typing import Final

from msgspec import Struct

from neurald.hal.process.fork import forkable_lock, in_each_child
from neurald.hal.process.threads.preparing import PREPARING
from neurald.hal.process.threads.reused_threads import REUSED_THREADS

_LOG = logging.getLogger(__name__)

#: How long work is postponed, in seconds.
DELAY_S: Final = 0.5
#: For how long nothing is prepared before work is done, and how long that may delay it, in seconds.
_REST_S, _MAX_WAIT_S = 0.05, 10.0


class _Piece(Struct, frozen=True):
    work: Callable[[], object]
    due_s: float
    #: Memory is charged to the account of who postponed it.
    context: Context


class PostponedWork:
    """Pieces of work, each with a key. Thread-safe."""

    def __init__(self) -> None:
        self._forget()
        self._lock = forkable_lock()
        #: Is held while a piece is done, so that who needs its result can wait for it.
        self._doing = forkable_lock()
        in_each_child(self._forget)

    def _forget(self) -> None:
        """Leaves everything to the parent, in a forked child."""
        #: The oldest first.
        self._pieces: dict[Hashable, _Piece] = {}
        self._has_thread = False
        atexit.unregister(self.finish_all)

    def postpone(self, key: Hashable, work: Callable[[], object]) -> None:
        """Does a piece of work later, unless the same one is postponed already.

        Args:
            key: the key of the work.
            work: what it raises is only logged.
        """
        with self._lock:
            if not self._pieces:
                atexit.unregister(self.finish_all)
                atexit.register(self.finish_all)
            self._pieces.setdefault(key, _Piece(work, time.monotonic() + DELAY_S, copy_context()))
            if self._has_thread:
                return
            try:
                REUSED_THREADS.start(self._run, "neurald postponed")
            except RuntimeError as error:
                _LOG.info("work is not postponed: %s", error)
            else:
                self._has_thread = True
                return
        self.finish(key)

    def finish(self, key: Hashable) -> None:
        """Does a postponed piece of work now; returns when it is done."""
        if key not in self._pieces:
            return
        with self._doing:
            piece = self._pieces.get(key)
            if piece is None:
                return
            try:
                piece.context.run(piece.work)
            except Exception as error:
                _LOG.info("postponed work failed: %s: %s", type(error).__name__, error)
            finally:
                # Until here, others wait for it.
                self._pieces.pop(key, None)

    def finish_all(self) -> None:
        """Does all postponed work now."""
        for key in list(self._pieces):
            self.finish(key)

    def _run(self) -> None:
        """Does the work that is due, until there is none."""
        while True:
            with self._lock:
                if not self._pieces:
                    self._has_thread = False
                    return
                key, piece = next(iter(self._pieces.items()))
            if (left_s := _left_s(piece)) > 0:
                time.sleep(left_s)
            else:
                self.finish(key)


def _left_s(piece: _Piece) -> float:
    """Returns the least time until a piece of work is to be done."""
    left_s = piece.due_s - time.monotonic()
    return left_s if left_s > 0 else min(PREPARING.left_s(_REST_S), left_s + _MAX_WAIT_S)


#: The work of this process.
POSTPONED: Final = PostponedWork()
