"""What of a client does not survive a fork, and what takes its place in the child.

A child has copies of its parent's objects and none of its threads. Sockets, rings and memory that a daemon
writes to would be used by both processes at once, so the child gives up the parent's sessions, and memory
that the library made for its own use becomes the child's own. gRPC cannot be used in the child once the
parent has used it: its threads are missing, and any call may wait for them for ever. The child is told so
before it calls gRPC.
"""

import contextlib
import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from neurald.hal.errors import UnavailableDevice

#: Completes a sentence about a connection of the parent's.
CAUSE = (
    "was connected to by the process that this one was forked from; a session belongs to one process: "
    "start workers by the methods spawn or forkserver of multiprocessing, or fork before anything connects"
)


class Inherited(Protocol):
    """Something that is of no use, or has to change, in a child."""

    def forked(self) -> None:
        """Is called in the child, which has one thread; must neither wait nor use gRPC."""


_locks: "weakref.WeakSet[Any]" = weakref.WeakSet()
_inherited: "weakref.WeakSet[Inherited]" = weakref.WeakSet()
_uses_grpc = False
_is_cut_off = False


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
    global _uses_grpc
    if _is_cut_off:
        raise UnavailableDevice(
            "this process was forked from one that was connected to a daemon, and gRPC does not survive that: "
            "start workers by the methods spawn or forkserver of multiprocessing, or fork before anything connects"
        )
    _uses_grpc = True


def never_free(thing: object) -> None:
    """Keeps an object to the end of the process, beyond that of the interpreter: its destructor would wait for ever."""
    increase: Callable[[ctypes.py_object[object]], None] = ctypes.pythonapi.Py_IncRef
    increase(ctypes.py_object(thing))


def _in_child() -> None:
    global _is_cut_off
    _is_cut_off = _is_cut_off or _uses_grpc
    for lock in tuple(_locks):
        lock._at_fork_reinit()  # what the standard library does for its own locks
    for inherited in tuple(_inherited):
        with contextlib.suppress(ReferenceError):
            inherited.forked()


os.register_at_fork(after_in_child=_in_child)
