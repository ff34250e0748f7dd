"""Handles forks: state that does not survive a fork is replaced in the child, or refuses use.

A child has copies of its parent's objects and none of its threads. Sockets, rings and memory that a
daemon writes to would be used by both processes at once, so the child drops the parent's sessions,
and memory that the library made for its own use becomes the child's own. gRPC and OpenCL cannot be
used in a child if the parent has used them: their threads are missing, and any call may wait for
them forever. The child gets an error before it calls them.

Python calls the functions of `in_each_child` in a child of `os.fork`. Programs that embed Python
may fork without telling it, as uWSGI does. So whatever uses something that does not survive a fork
calls `notice_fork` first.
"""

import contextlib
import ctypes
import mmap
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

from neurald.hal.errors import UnavailableDevice

_ADVICE = "start workers by the methods spawn or forkserver of multiprocessing, or fork before anything"
#: The end of a message about a connection of the parent process, after the name of the daemon.
FORKED_CONNECTION = (
    "was connected to by the process that this one was forked from; a session belongs to one process: "
    f"{_ADVICE} connects"
)


class ForkAware(Protocol):
    """An object that cannot be used in a child, or has to change there."""

    def forked(self) -> None:
        """Runs in the child, which has one thread. It must neither wait nor use gRPC."""


#: Makes the kernel clear memory in a child (`MADV_WIPEONFORK`, Linux 4.14).
_CLEAR_IN_CHILDREN: Final = 18


def _cleared_in_children() -> memoryview:
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Emulators lack this.
    with contextlib.suppress(OSError):
        page.madvise(_CLEAR_IN_CHILDREN)
    page[0] = 1
    return memoryview(page)[:1]


#: Its element is 0 in a child until that has done what it does first.
_is_noted: Final = _cleared_in_children()
#: What each child does first, in this order.
_callbacks: Final[list[Callable[[], object]]] = []
#: The lock under which a process does it, and the process that has begun with it.
_noticing: Final[dict[int, Any]] = {}
_noticed: Final[list[int]] = []


def in_each_child(callback: Callable[[], object]) -> None:
    """Calls a function in each child, for ever. It must neither wait nor use gRPC."""
    _callbacks.append(callback)


def notice_fork() -> None:
    """Does what a child does first, unless that has been done.

    Python has it called after `os.fork`. If a function of `in_each_child` fails, the others are
    called, and its error is raised.
    """
    if _is_noted[0]:
        return
    process = os.getpid()
    errors: list[BaseException] = []
    # Of the parent's threads, one may have been here.
    with _noticing.setdefault(process, threading.RLock()):
        if _is_noted[0] or process in _noticed:
            return
        _noticed[:] = [process]
        for callback in tuple(_callbacks):
            try:
                callback()
            except BaseException as error:
                errors.append(error)
        _noticed.clear()
        _is_noted[0] = 1
    if errors:
        try:
            raise errors[0]
        finally:
            # The error refers to this frame, so the frame must not refer to it.
            errors.clear()


def _forked() -> None:
    _is_noted[0] = 0
    notice_fork()


os.register_at_fork(after_in_child=_forked)

#: References to locks; a `WeakSet` takes longer than all else when a lock is created.
_locks: "set[weakref.ref[Any]]" = set()
_inherited: "weakref.WeakSet[ForkAware]" = weakref.WeakSet()
_kept: "weakref.WeakSet[Any]" = weakref.WeakSet()


class ForkUnsafeLibrary:
    """A library that cannot be used in a child of a process that has used it.

    Args:
        name: the name of the library.
        past: what the parent has done, for the message after "this process was forked from one
            that".
        first: what must not happen before a fork, for the message after "fork before anything".
    """

    def __init__(self, name: str, past: str, first: str) -> None:
        what = f"this process was forked from one that {past}"
        self.cause = f"{what}, and {name} does not survive that: {_ADVICE} {first}"
        self._is_used = False
        self._is_cut_off = False
        in_each_child(self._in_child)

    @property
    def obstacle(self) -> str:
        """The reason why this process may not use the library; empty if it may."""
        notice_fork()
        return self.cause if self._is_cut_off else ""

    def require(self) -> None:
        """Raises an error if this process may not use the library; otherwise marks it as used.

        Raises:
            UnavailableDevice: the process was forked from one that had used it; the message says
                what to do.
        """
        notice_fork()
        if self._is_cut_off:
            raise UnavailableDevice(self.cause)
        self._is_used = True

    def _in_child(self) -> None:
        self._is_cut_off = self._is_cut_off or self._is_used


_grpc = ForkUnsafeLibrary("gRPC", "was connected to a daemon", "connects")


_forks: dict[str, bool] = {"are_permitted": False}


def permit_forks() -> None:
    """Notes that this process is one of the library's own, in which all code can do with forks."""
    _forks["are_permitted"] = True


def may_fork() -> bool:
    """Returns whether the library may fork this process: it is one of its own, and has one thread.

    Applications are not forked: a child would keep their memory and descriptors, and miss their
    threads.
    """
    return _forks["are_permitted"] and threading.active_count() == 1


def forkable_lock() -> threading.Lock:
    """Returns a lock that is free in a child, where the thread that holds it does not exist."""
    lock = threading.Lock()
    _locks.add(weakref.ref(lock, _locks.discard))
    return lock


def forkable_reentrant_lock() -> Any:
    """Returns a lock like `forkable_lock`, which knows the thread that holds it."""
    lock = threading.RLock()
    _locks.add(weakref.ref(lock, _locks.discard))
    return lock


def at_fork(inherited: ForkAware) -> None:
    """Calls `inherited.forked()` in each child, for as long as the object exists."""
    _inherited.add(inherited)


def require_grpc() -> None:
    """Raises an error if this process may not use gRPC; otherwise marks gRPC as used.

    Raises:
        UnavailableDevice: the process was forked from one that had used it; the message says what
            to do.
    """
    _grpc.require()


def grpc_obstacle() -> str:
    """Returns why this process may not use gRPC; empty if it may."""
    return _grpc.obstacle


def keep_in_children(thing: object) -> None:
    """Keeps an object alive in a child until its process ends, even beyond its interpreter.

    Its destructor would wait there for a thread that only the parent has.
    """
    _kept.add(thing)


def hold_over_fork(lock: Any) -> None:
    """Makes every fork wait until no other thread holds a lock.

    The state that the lock protects is consistent in the child then. If Python does not know of the
    fork, the lock is free in the child.
    """
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release)
    in_each_child(lock._at_fork_reinit)


def _in_child() -> None:
    for reference in tuple(_locks):
        lock = reference()
        if lock is not None:
            lock._at_fork_reinit()  # as the standard library does for its own locks
    increase: Callable[[ctypes.py_object[object]], None] = ctypes.pythonapi.Py_IncRef
    for thing in tuple(_kept):
        increase(ctypes.py_object(thing))
    for inherited in tuple(_inherited):
        with contextlib.suppress(ReferenceError):
            inherited.forked()


in_each_child(_in_child)
