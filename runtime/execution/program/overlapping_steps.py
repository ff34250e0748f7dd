"""Runs the steps of one execution at the same time, as far as they do not wait for each other.

The calling thread runs steps itself. For others that are ready it asks threads of a pool, which are
kept for the next execution. A thread that has finished a step goes on with one that has become
ready, so that a chain of steps stays in one thread.

After an error no further step begins, and the error is raised when those that run have ended,
because they still use the memory of the execution. If a driver died, and may still write to that
memory, no step begins either until the others have ended and the memory has been replaced.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final

from neurald.hal.process.fork import forkable_lock, in_each_child

#: Threads of the pool: as many steps as run at the same time beside those of the calling threads.
_MAX_THREADS: Final = 32

_lock: Final = forkable_lock()
_pools: Final[list[ThreadPoolExecutor]] = []


def _submit(function: Callable[[], None]) -> None:
    context = copy_context()
    with _lock:
        if not _pools:
            _pools.append(ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="neurald step"))
        _pools[0].submit(context.run, function)


# The threads of the parent are not there in a forked child.
in_each_child(_pools.clear)


class OverlappingSteps:
    """One run of all steps.

    Args:
        waits_for: for each step, the positions of those that it waits for.
        execute: runs the step at a position; called by several threads.
        needs_pause: returns whether something must be done while no step runs.
        in_pause: does it.
    """

    def __init__(
        self,
        waits_for: Sequence[frozenset[int]],
        execute: Callable[[int], None],
        needs_pause: Callable[[], bool],
        in_pause: Callable[[], None],
    ) -> None:
        self._execute = execute
        self._needs_pause = needs_pause
        self._in_pause = in_pause
        self._missing = [len(positions) for positions in waits_for]
        self._followers: list[list[int]] = [[] for _ in waits_for]
        for position, positions in enumerate(waits_for):
            for each in positions:
                self._followers[each].append(position)
        self._ready = [position for position, count in enumerate(self._missing) if not count]
        self._left = len(waits_for)
        self._running = 0
        self._helpers = 0
        self._is_paused = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def run(self) -> None:
        """Runs all steps.

        Raises:
            BaseException: that a step raised, once no step runs any more.
        """
        with self._changed:
            while self._left and self._error is None:
                position = self._take()
                if position is None:
                    self._changed.wait()
                    continue
                self._changed.release()
                try:
                    self._run_chain(position)
                finally:
                    self._changed.acquire()
            while self._running:
                self._changed.wait()
            self._ready.clear()  # threads that come late run nothing
        if self._error is not None:
            try:
                raise self._error
            finally:
                # The frames to which the error refers refer to this object.
                self._error = None

    def _take(self) -> int | None:
        """Takes a step that may begin, and has other threads run further ones. The lock is held."""
        if self._is_paused or self._error is not None or not self._ready:
            return None
        position = self._ready.pop(0)
        self._running += 1
        for _ in range(len(self._ready) - self._helpers):
            try:
                _submit(self._help)
            except RuntimeError:
                break  # no thread can be started: this one runs everything
            self._helpers += 1
        return position

    def _help(self) -> None:
        with self._changed:
            self._helpers -= 1
            position = self._take()
        if position is not None:
            self._run_chain(position)

    def _run_chain(self, position: int) -> None:
        """Runs a step, and then those that become ready, one after another."""
        following: int | None = position
        while following is not None:
            try:
                self._execute(following)
            except BaseException as error:
                with self._changed:
                    self._running -= 1
                    self._error = self._error or error
                    self._changed.notify_all()
                return
            following = self._ended(following)

    def _ended(self, position: int) -> int | None:
        with self._changed:
            self._running -= 1
            self._left -= 1
            for follower in self._followers[position]:
                self._missing[follower] -= 1
                if not self._missing[follower]:
                    self._ready.append(follower)
            try:
                self._is_paused = self._is_paused or self._needs_pause()
                if self._is_paused and not self._running:
                    self._in_pause()
                    self._is_paused = False
            except BaseException as error:
                self._error = self._error or error
            following = self._take()
            self._changed.notify_all()
            return following
