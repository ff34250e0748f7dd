"""Does work that may be of use later, one piece at a time, in a thread of its own.

The thread starts with the first piece and ends when there is none for a while. In a forked child
and at the exit of the process, nothing is left of it.
"""

import atexit
import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Final, TypeAlias

from msgspec import Struct

from neurald.hal.errors import THREAD_FAULTS, OutOfMemory, ResourceExhaustedTransient
from neurald.hal.process.fork import forkable_lock, in_each_child, notice_fork
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.interpreter_turns import turns

_LOG = logging.getLogger(__name__)

#: A piece of work, which ends early when it is cancelled.
Work: TypeAlias = Callable[[Cancellation], None]

#: Number of pieces that may wait by default.
_MAX_WAITING: Final = 16
#: Time after which a thread without work ends.
_IDLE_S: Final = 5.0
#: Time that the exiting process waits for the thread.
_EXIT_S: Final = 2.0


#: The number of this process. To ask the system for it takes longer than the rest of a short call.
_process: Final = [os.getpid()]


def _note_child() -> None:
    _process[0] = os.getpid()


in_each_child(_note_child)


class SubmittedWork:
    """A piece of work for those who submitted it, or wait for its result. Thread-safe.

    It does not keep alive what the work refers to.
    """

    __slots__ = ("_is_over", "_lacked", "_process", "cancellation")

    def __init__(self) -> None:
        self.cancellation: Final = Cancellation()
        self._is_over = self._lacked = False
        # The thread does not exist in a forked child.
        self._process = _process[0]

    def cancel(self) -> None:
        """Cancels the work. It is not begun, or ends early."""
        self.cancellation.cancel()

    def end(self, *, lacked: bool = False) -> None:
        """Notes that the work has ended.

        Args:
            lacked: whether it failed since the process lacked a resource for now.
        """
        self._lacked = lacked
        self._is_over = True

    @property
    def is_ongoing(self) -> bool:
        """True while a result can be expected."""
        return not (self._is_over or self.is_lost or self.cancellation.is_cancelled)

    @property
    def is_lost(self) -> bool:
        """True if it has to be submitted again: in a forked child, or if a resource was lacking."""
        return self._lacked or self._process != _process[0]

    def give_way(self, deadline_s: float | None = None) -> bool:
        """Lets the work use the interpreter before a call that its result would make faster.

        Args:
            deadline_s: see `InterpreterTurns.give_way`.

        Returns:
            Whether the work is ongoing; if it is not, this need not be called again.
        """
        # The same as `is_ongoing`, in a third of the time.
        if self._is_over or self._lacked or self._process != _process[0] or self.cancellation.is_cancelled:
            return False
        turns.give_way(deadline_s)
        return True


class _Piece(Struct, frozen=True):
    work: Work
    submitted: SubmittedWork
    #: Memory is charged to the account of who submitted it.
    context: Context


class BackgroundWorker:
    """A queue of pieces of work, and the thread that does them.

    Args:
        max_waiting: number of pieces that may wait; further ones are refused. 0 for no limit.
    """

    def __init__(self, max_waiting: int = _MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._lock = forkable_lock()
        self._start()
        in_each_child(self._start)
        atexit.register(self.close)

    def _start(self) -> None:
        """Starts afresh, without a thread."""
        self._pieces: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        self._current: _Piece | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, work: Work) -> SubmittedWork | None:
        """Adds a piece of work.

        Returns:
            The work; None if too much is waiting, if no thread can be started, or if the process
            is about to exit.
        """
        notice_fork()
        piece = _Piece(work, SubmittedWork(), copy_context())
        with self._lock:
            if self._is_closed or 0 < self._max_waiting <= self._pieces.qsize():
                return None
            self._pieces.put(piece)
            if self._thread is None and not self._started():
                # Without a thread nothing else is waiting.
                self._pieces.get_nowait()
                return None
        return piece.submitted

    def _started(self) -> bool:
        """Starts the thread; returns False if that fails. The caller holds the lock."""
        thread = CheckedThread(target=self._run, name="neurald background", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            _LOG.info("work in the background is left out: %s", error)
            return False
        self._thread = thread
        return True

    def _run(self) -> None:
        while True:
            try:
                piece = self._pieces.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if not self._pieces.empty():
                        continue
                    self._thread = None
                return
            if piece is None:
                return
            self._do(piece)
            # An idle thread must not keep what its last work refers to.
            del piece

    def _do(self, piece: _Piece) -> None:
        """Does a piece of work, unless it is cancelled or the worker is closed."""
        self._current, lacked = piece, False
        if self._is_closed:
            # `close` may have looked for work before this was taken from the queue.
            piece.submitted.cancel()
        try:
            if not piece.submitted.cancellation.is_cancelled:
                with turns.working():
                    piece.context.run(piece.work, piece.submitted.cancellation)
        except THREAD_FAULTS as error:
            lacked = isinstance(error, OutOfMemory | ResourceExhaustedTransient | MemoryError)
            _LOG.info("work in the background failed: %s: %s", type(error).__name__, error)
        finally:
            self._current = None
            piece.submitted.end(lacked=lacked)

    def close(self) -> None:
        """Cancels all work and ends the thread. Further work is refused."""
        with self._lock:
            self._is_closed = True
            thread, current = self._thread, self._current
        if current is not None:
            current.submitted.cancel()
        with contextlib.suppress(queue.Empty):
            while (piece := self._pieces.get_nowait()) is not None:
                piece.submitted.cancel()
        if thread is None:
            return
        self._pieces.put(None)
        thread.join(_EXIT_S)


#: The worker of this process.
worker: Final = BackgroundWorker()
