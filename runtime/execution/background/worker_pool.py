"""The threads that run functions for asynchronous callers, one pool for the process.

Functions are submitted to a *lane*, which runs a limited number of them at once, in their order.
Each model and each stream has a lane of its own: threads that wait for a slow device are those of
one lane, and keep no other one waiting.
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from neurald.hal.errors import BadState, Error, ResourceExhaustedTransient
from neurald.hal.process.fork import forkable_lock, in_each_child, notice_fork

#: How many functions of a lane run at once: enough to keep all cores and several devices busy.
MAX_AT_ONCE: Final = max(8, 2 * (os.cpu_count() or 1))
#: Maximum number of threads of all lanes together.
_MAX_THREADS: Final = 32 * MAX_AT_ONCE

#: What Python says of a call or a thread that is to start while it ends.
_ENDS: Final = "shutdown"

_lock: Final = forkable_lock()
_pools: Final[list[ThreadPoolExecutor]] = []


class Lane:
    """Runs functions in threads of the pool, which start with the first one. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0
        self._changed = threading.Lock()
        _lanes.add(self)

    def submit(self, function: Callable[[], Any], future: "Future[Any] | None" = None) -> "Future[Any]":
        """Runs a function as soon as fewer than `MAX_AT_ONCE` of this lane run.

        Args:
            function: what to run.
            future: receives the result; None for a new one.

        Returns:
            The future of the result.

        Raises:
            BadState: the interpreter ends.
            ResourceExhaustedTransient: no thread can be started.
        """
        notice_fork()
        if future is None:
            future = Future()
        with self._changed:
            self._waiting.append((future, function))
            if self._running == MAX_AT_ONCE:
                return future
            self._running += 1
        try:
            _pool().submit(self._run_waiting)
        except BaseException as error:
            with self._changed:
                self._running -= 1
            future.cancel()
            if isinstance(error, RuntimeError):
                raise _refusal(error) from None
            raise
        return future

    def _run_waiting(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._running -= 1
                    return
                future, function = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            del future, function

    def forget_threads(self) -> None:
        """Starts over in a forked child, which does not have the threads of the parent."""
        self._waiting.clear()
        self._running = 0
        self._changed = threading.Lock()


def _refusal(error: RuntimeError) -> Error:
    """Returns the error for a pool that starts no thread."""
    if _ENDS in str(error):
        return BadState("Python ends, and runs nothing in other threads any more; call without `submit`")
    return ResourceExhaustedTransient(f"the call needs a thread, and none can be started: {error}")


_lanes: Final[weakref.WeakSet[Lane]] = weakref.WeakSet()


def _pool() -> ThreadPoolExecutor:
    with _lock:
        if not _pools:
            _pools.append(ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="neurald caller"))
        return _pools[0]


def _forget_threads() -> None:
    _pools.clear()
    for lane in _lanes:
        lane.forget_threads()


in_each_child(_forget_threads)
