"""Pool: things that one thread at a time uses, given to those who wait for one in the order in which they came."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from neurald.hal.errors import (
    MissedDeadlineTransient,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
)
from neurald.hal.sync.cancellation import Cancellation

#: How often who waits looks whether it was cancelled.
LOOK_S: Final = 0.02

_T = TypeVar("_T")


class _Waiter(Generic[_T]):
    """One who waits. `thing` is there once `ready` can be acquired."""

    __slots__ = ("ready", "thing")

    def __init__(self) -> None:
        self.ready = threading.Lock()
        self.ready.acquire()
        self.thing: list[_T] = []


class Pool(Generic[_T]):
    """Things of which each is used by one thread at a time. Thread-safe.

    A thing that is given back while others wait goes to the first of them, so that no thread that comes again and again can
    keep them from it.

    Args:
        first: the things that there are from the start, at least one.
        make: makes one more, where all are in use. Where its resources are exhausted, one of those in use is waited for.
        most: how many there may be.
    """

    def __init__(self, first: list[_T], make: Callable[[], _T], most: int) -> None:
        self._make = make
        self._most = most
        self._idle = first
        self._made = len(first)
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter[_T]] = deque()
        self._process = os.getpid()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def take(self, deadline_s: float | None = None, cancellation: Cancellation | None = None) -> _T:
        """A thing that nobody else uses until it is given back.

        Args:
            deadline_s: until when to wait; None for no limit.
            cancellation: ends the wait.

        Raises:
            MissedDeadlineTransient: others used all of them until the deadline.
            Cancelled: the execution was cancelled meanwhile.
            Error: no further one can be made.
        """
        if not self._waiting:
            try:
                return self._idle.pop()
            except IndexError:
                pass
        return self._awaited(deadline_s, cancellation)

    def give_back(self, thing: _T) -> None:
        """Ends the use of a thing: it goes to who has waited longest."""
        self._idle.append(thing)
        # Whoever waits has said so before it looked for the last time.
        if self._waiting:
            self._serve()

    @contextmanager
    def using(
        self, deadline_s: float | None = None, cancellation: Cancellation | None = None
    ) -> Iterator[_T]:
        """The time in which one thing is in use; see `take`."""
        thing = self.take(deadline_s, cancellation)
        try:
            yield thing
        finally:
            self.give_back(thing)

    def _awaited(self, deadline_s: float | None, cancellation: Cancellation | None) -> _T:
        if self._process != os.getpid():
            self._forget_the_parent()
        waiter: _Waiter[_T] = _Waiter()
        with self._lock:
            if self._made < self._most and not self._idle:
                self._made += 1
                makes = True
            else:
                self._waiting.append(waiter)
                makes = False
        if makes:
            try:
                return self._one_more()
            except (ResourceExhaustedTransient, ResourceExhaustedPersistent):
                with self._lock:
                    if not self._made:
                        raise
                    self._waiting.append(waiter)
        try:
            # What was given back since the first look.
            self._serve()
            self._wait(waiter, deadline_s, cancellation)
        except BaseException:
            self._leave(waiter)
            raise
        return waiter.thing.pop()

    def _wait(self, waiter: _Waiter[_T], deadline_s: float | None, cancellation: Cancellation | None) -> None:
        while True:
            left = threading.TIMEOUT_MAX if deadline_s is None else deadline_s - time.monotonic()
            step = left if cancellation is None else min(left, LOOK_S)
            if waiter.ready.acquire(timeout=min(max(0.0, step), threading.TIMEOUT_MAX)):
                return
            if cancellation is not None:
                cancellation.require_not_cancelled("while other executions ran")
            if deadline_s is not None and time.monotonic() >= deadline_s:
                raise MissedDeadlineTransient("the deadline passed while other executions ran")

    def _serve(self) -> None:
        """Gives what is idle to those who wait."""
        if self._process != os.getpid():
            self._forget_the_parent()
        with self._lock:
            while self._waiting:
                try:
                    thing = self._idle.pop()
                except IndexError:
                    return
                waiter = self._waiting.popleft()
                waiter.thing.append(thing)
                waiter.ready.release()

    def _leave(self, waiter: _Waiter[_T]) -> None:
        """Takes one out of the queue who waits no longer; what it was given meanwhile goes to the next."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if waiter.thing:
            self.give_back(waiter.thing.pop())

    def _one_more(self) -> _T:
        try:
            return self._make()
        except BaseException:
            with self._lock:
                self._made -= 1
            raise

    def _forget_the_parent(self) -> None:
        """After a fork: the threads of the parent, which waited or used something, did not come along."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting = deque()
        self._made = len(self._idle)


class FairLock:
    """A lock that threads get in the order in which they came; a context manager."""

    __slots__ = ("_pool",)

    def __init__(self) -> None:
        self._pool: Pool[None] = Pool([None], lambda: None, 1)

    def acquire(self, deadline_s: float | None = None, cancellation: Cancellation | None = None) -> None:
        """Waits for the lock; see `Pool.take`."""
        self._pool.take(deadline_s, cancellation)

    def release(self) -> None:
        """Gives it to who has waited longest."""
        self._pool.give_back(None)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
