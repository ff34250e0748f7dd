"""Runs work in daemon threads that are used again, since waking is faster than starting."""

import threading
from collections.abc import Callable
from typing import Final

from neurald.hal.process.fork import in_each_child, notice_fork
from neurald.hal.process.threads.checked_thread import CheckedThread

#: How long an idle thread waits for more work.
_IDLE_S: Final = 1.0
_IDLE_NAME: Final = "neurald idle"


class _IdleThread:
    """A thread that waits for work. `work` is set once `ready` can be acquired."""

    __slots__ = ("ready", "thread", "work")

    def __init__(self) -> None:
        self.ready = threading.Lock()
        self.ready.acquire()
        self.thread = threading.current_thread()
        self.work: Callable[[], object] | None = None


class ReusedThreads:
    """Starts work at once, each in a thread of its own. Thread-safe.

    The threads do not delay the end of the process. No lock is held, so signal handlers may
    start work.
    """

    def __init__(self) -> None:
        self._idle: list[_IdleThread] = []
        # A child has none of the threads.
        in_each_child(self._idle.clear)

    def start(self, work: Callable[[], object], name: str) -> None:
        """Runs `work` in a thread, which has this name meanwhile.

        Raises:
            RuntimeError: no thread can be started.
        """
        notice_fork()
        try:
            idle = self._idle.pop()
        except IndexError:
            # A thread keeps its arguments until it ends.
            CheckedThread(target=self._run, args=([work],), name=name, daemon=True).start()
            return
        idle.work, idle.thread.name = work, name
        idle.ready.release()

    def _run(self, first: list[Callable[[], object]]) -> None:
        work: Callable[[], object] | None = first.pop()
        while work is not None:
            work()
            # An idle thread must not keep what its last work refers to.
            work = None
            idle = _IdleThread()
            idle.thread.name = _IDLE_NAME
            self._idle.append(idle)
            if not idle.ready.acquire(timeout=_IDLE_S):
                try:
                    self._idle.remove(idle)
                except ValueError:  # it is being given work
                    idle.ready.acquire()
            work = idle.work


#: The threads of this process for work that executions do in the background.
REUSED_THREADS: Final = ReusedThreads()
