"""What does not survive a fork, and what takes its place in the child.

A child has copies of its parent's objects and none of its threads. Sockets, rings and memory that a daemon
writes to would be used by both processes at once, so the child gives up the parent's sessions, and memory
that the library made for its own use becomes the child's own. gRPC and OpenCL cannot be used in the child once the
parent has used them: their threads are missing, and any call may wait for them for ever. The child is told so
before it calls them.
"""

import contextlib
import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from neurald.hal.errors import UnavailableDevice

_ADVICE = "start workers by the methods spawn or forkserver of multiprocessing, or fork before anything"
#: Completes a sentence about a connection of the parent's.
CAUSE = (
    "was connected to by the process that this one was forked from; a session belongs to one process: "
    f"{_ADVICE} connects"
)


class Inherited(Protocol):
    """Something that is of no use, or has to change, in a child."""

    def forked(self) -> None:
        """Is called in the child, which has one thread; must neither wait nor use gRPC."""


_locks: "weakref.WeakSet[Any]" = weakref.WeakSet()
_inherited: "weakref.WeakSet[Inherited]" = weakref.WeakSet()
_kept: "weakref.WeakSet[Any]" = weakref.WeakSet()


class Unforkable:
    """A library that is of no use in a child of a process that has used it.

    Args:
        name: of the library.
        past: what the parent has done, after "this process was forked from one that".
        first: what is not to be done before a fork, after "fork before anything".
    """

    def __init__(self, name: str, past: str, first: str) -> None:
        self.cause = f"this process was forked from one that {past}, and {name} does not survive that: {_ADVICE} {first}"
        self._is_used = False
        self._is_cut_off = False
        os.register_at_fork(after_in_child=self._in_child)

    def require(self) -> None:
        """Returns if this process may use the library, which it then does.

        Raises:
            UnavailableDevice: it was forked from a process that had used it; the message says what to do.
        """
        if self._is_cut_off:
            raise UnavailableDevice(self.cause)
        self._is_used = True

    def _in_child(self) -> None:
        self._is_cut_off = self._is_cut_off or self._is_used


_grpc = Unforkable("gRPC", "was connected to a daemon", "connects")


def forkable_lock() -> threading.Lock:
    """A lock that is free in a child, where the thread that held it does not exist."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def at_fork(inherited: Inherited) -> None:
    """Has `forked` called in each child, for as long as the object exists."""
    _inherited.add(inherited)


def require_grpc() -> None:
    """Returns if this process may use gRPC, which it then does.

    Raises:
        UnavailableDevice: it was forked from a process that had used it; the message says what to do.
    """
    _grpc.require()


def keep_in_children(thing: object) -> None:
    """Has a child keep an object to the end of its process, and beyond that of its interpreter.

    The destructor of what it holds would wait there for a thread that only the parent has.
    """
    _kept.add(thing)


def hold_over_fork(lock: Any) -> None:
    """Has every fork wait until no other thread holds a lock: what it protects cannot be used half changed."""
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def _in_child() -> None:
    for lock in tuple(_locks):
        lock._at_fork_reinit()  # what the standard library does for its own locks
    increase: Callable[[ctypes.py_object[object]], None] = ctypes.pythonapi.Py_IncRef
    for thing in tuple(_kept):
        increase(ctypes.py_object(thing))
    for inherited in tuple(_inherited):
        with contextlib.suppress(ReferenceError):
            inherited.forked()


os.register_at_fork(after_in_child=_in_child)
