"""A pool of objects that one thread at a time uses, lent to waiting threads in order of arrival."""

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
from neurald.hal.sync.cancellation import Cancellation, next_wait_s

#: How often `LendingPool.close` checks for objects that were given back.
_CLOSE_POLL_S: Final = 0.001

_WHERE: Final = "while other executions ran"

_T = TypeVar("_T")


class _Waiter(Generic[_T]):
    """A waiting thread. `item` is set once `ready` can be acquired."""

    __slots__ = ("item", "ready")

    def __init__(self) -> None:
        self.ready = threading.Lock()
        self.ready.acquire()
        self.item: list[_T] = []


class LendingPool(Generic[_T]):
    """Lends objects, each to one thread at a time. Thread-safe.

    An object that is returned while threads wait goes to the first of them, so that a thread which
    takes one again and again cannot keep the others from it.

    Args:
        first: the objects that exist from the start, at least one.
        make: creates another object if all are in use. If it raises because resources are
            exhausted, the thread waits for one of those in use.
        limit: how many objects there may be.
    """

    def __init__(self, first: list[_T], make: Callable[[], _T], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._idle = first
        self._made = len(first)
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter[_T]] = deque()
        self._process = os.getpid()
        self._owner: int | None = None

    @property
    def waiting(self) -> int:
        """The number of threads that wait."""
        return len(self._waiting)

    def take(self, deadline_s: float | None = None, cancellation: Cancellation | None = None) -> _T:
        """Returns an object for exclusive use until it is given back.

        Args:
            deadline_s: until when to wait; None for no limit.
            cancellation: ends the wait.

        Raises:
            MissedDeadlineTransient: all objects were in use until the deadline.
            Cancelled: the execution was cancelled meanwhile.
            Error: no further object can be created.
        """
        if not self._waiting:
            try:
                return self._idle.pop()
            except IndexError:
                pass
        return self._wait_for_item(deadline_s, cancellation)

    def give_back(self, item: _T) -> None:
        """Ends the use of an object, which goes to the thread that has waited longest."""
        self._idle.append(item)
        # A waiting thread enqueues itself before it checks for idle objects for the last time.
        if self._waiting:
            self._serve()

    def close(self, deadline_s: float, interrupt: Callable[[], None]) -> bool:
        """Reserves the pool for the calling thread, and waits for the objects in use.

        Other threads that want an object wait for ever, unless their deadline passes or they are
        cancelled. The calling thread gets a new object each time.

        Args:
            deadline_s: until when to wait.
            interrupt: asks the threads that use an object to give it back.

        Returns:
            Whether all objects were given back in time.
        """
        if self._process != os.getpid():
            self._forget_the_parent()
        with self._lock:
            self._owner = threading.get_ident()
            self._limit = 0
            self._waiting.clear()
        while self._made:
            try:
                self._idle.pop()
            except IndexError:
                if time.monotonic() >= deadline_s:
                    return False
                interrupt()
                time.sleep(_CLOSE_POLL_S)
            else:
                self._made -= 1
        return True

    @contextmanager
    def using(self) -> Iterator[_T]:
        """Takes an object for the duration of the context; see `take`."""
        item = self.take()
        try:
            yield item
        finally:
            self.give_back(item)

    def _wait_for_item(self, deadline_s: float | None, cancellation: Cancellation | None) -> _T:
        if self._process != os.getpid():
            self._forget_the_parent()
        if self._owner == threading.get_ident():
            return self._make()
        waiter: _Waiter[_T] = _Waiter()
        with self._lock:
            if self._made < self._limit and not self._idle:
                self._made += 1
                creates = True
            else:
                self._waiting.append(waiter)
                creates = False
        if creates:
            try:
                return self._create()
            except (ResourceExhaustedTransient, ResourceExhaustedPersistent):
                with self._lock:
                    if not self._made:
                        raise
                    self._waiting.append(waiter)
        try:
            # Objects may have been given back since the first check.
            self._serve()
            self._wait(waiter, deadline_s, cancellation)
        except BaseException:
            self._leave(waiter)
            raise
        return waiter.item.pop()

    def _wait(self, waiter: _Waiter[_T], deadline_s: float | None, cancellation: Cancellation | None) -> None:
        while not waiter.ready.acquire(timeout=next_wait_s(deadline_s, cancellation, _WHERE)):
            if deadline_s is not None and time.monotonic() >= deadline_s:
                raise MissedDeadlineTransient(f"the deadline passed {_WHERE}")

    def _serve(self) -> None:
        """Gives idle objects to waiting threads."""
        if self._process != os.getpid():
            self._forget_the_parent()
        with self._lock:
            while self._waiting:
                try:
                    item = self._idle.pop()
                except IndexError:
                    return
                waiter = self._waiting.popleft()
                waiter.item.append(item)
                waiter.ready.release()

    def _leave(self, waiter: _Waiter[_T]) -> None:
        """Removes a thread that waits no longer; an object that it was given goes to the next."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if waiter.item:
            self.give_back(waiter.item.pop())

    def _create(self) -> _T:
        try:
            return self._make()
        except BaseException:
            with self._lock:
                self._made -= 1
            raise

    def _forget_the_parent(self) -> None:
        """Resets the pool after a fork: the threads of the parent do not exist in the child."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting = deque()
        self._made = len(self._idle)


class FairLock(LendingPool[None]):
    """A lock that threads get in order of arrival: a pool of one object, and a context manager.

    `take` acquires it, and `give_back(None)` releases it.
    """

    def __init__(self) -> None:
        super().__init__([None], lambda: None, 1)

    def try_take(self) -> bool:
        """Acquires the lock if it is free and no thread waits for it; returns whether it was."""
        if not self._waiting:
            try:
                self._idle.pop()
            except IndexError:
                return False
            return True
        return False

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, *_: object) -> None:
        self.give_back(None)
