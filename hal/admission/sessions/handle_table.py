"""Keeps the objects that a client refers to by handles."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from neurald.hal.errors import SESSION_OVER, BadData, DeadObject, ResourceExhaustedTransient

_Handle = TypeVar("_Handle", bound=Hashable)
_T = TypeVar("_T")


class HandleTable(Generic[_Handle, _T]):
    """Maps handles to the objects that a session keeps for its client. Thread-safe.

    Args:
        what: names one object in messages, such as "prepared model".
        new_handle: returns a handle that no other object has had: a random token or the next
            number.
        limit: how many objects the table holds at most; None for no limit.
        limit_name: the name of the limit among those that an operator sets.
    """

    def __init__(
        self, what: str, new_handle: Callable[[], _Handle], limit: int | None = None, limit_name: str = ""
    ) -> None:
        self._what = what
        self._limit_name = limit_name
        self._new_handle = new_handle
        self._limit = limit
        self._lock = threading.Lock()
        self._objects: dict[_Handle, _T] = {}
        self._is_open = True

    def __len__(self) -> int:
        """Returns the number of objects that the table holds."""
        return len(self._objects)

    def values(self) -> tuple[_T, ...]:
        """Returns the objects that the table holds now."""
        with self._lock:
            return tuple(self._objects.values())

    def add(self, make: Callable[[], _T]) -> _Handle:
        """Calls `make` and keeps the object that it returns.

        Args:
            make: the function that is only called if the object can be kept, with the table's lock
                held.

        Returns:
            The handle of the object.

        Raises:
            DeadObject: the table is closed.
            ResourceExhaustedTransient: the table is full.
            Error: what `make` raises; nothing is kept then.
        """
        with self._lock:
            if not self._is_open:
                raise DeadObject(SESSION_OVER)
            self._require_space()
            made = make()
            handle = self._new_handle()
            self._objects[handle] = made
        return handle

    def require_space(self) -> None:
        """Raises an error if the table is full.

        Raises:
            ResourceExhaustedTransient: it is.
        """
        with self._lock:
            self._require_space()

    def find(self, handle: _Handle) -> _T:
        """Returns the object of a handle, which stays in the table.

        Raises:
            BadData: the table has no such handle.
            DeadObject: the table is closed.
        """
        with self._lock:
            return self._objects[self._known(handle)]

    def take(self, handle: _Handle, check: Callable[[_T], object] = lambda found: None) -> _T:
        """Removes an object from the table and returns it.

        Args:
            handle: the handle of the object.
            check: the function that is called with the object before it is removed; if it raises,
                the object stays.

        Raises:
            BadData: the table has no such handle.
            DeadObject: the table is closed.
            Error: what `check` raises.
        """
        with self._lock:
            check(self._objects[self._known(handle)])
            return self._objects.pop(handle)

    def discard(self, handle: _Handle) -> None:
        """Removes an object from the table; an unknown handle is ignored."""
        with self._lock:
            removed = self._objects.pop(handle, None)
        # Its last reference may go here. That can take long, so the lock is not held.
        del removed

    def close(self) -> tuple[_T, ...]:
        """Empties the table, which takes no more objects, and returns those that it held."""
        with self._lock:
            self._is_open = False
            objects, self._objects = self._objects, {}
        return tuple(objects.values())

    def _require_space(self) -> None:
        if self._limit is not None and len(self._objects) >= self._limit:
            raise ResourceExhaustedTransient(
                f"the session has {self._limit} {self._what}s; a session may have no more"
                f"{f' ({self._limit_name})' if self._limit_name else ''}, release one first"
            )

    def _known(self, handle: _Handle) -> _Handle:
        # A call that found its session open may arrive here after the session's end.
        if not self._is_open:
            raise DeadObject(SESSION_OVER)
        if handle not in self._objects:
            # Tokens are secrets, so only numbers are shown.
            shown = f" {handle}" if isinstance(handle, int) else ""
            raise BadData(
                f"{self._what}{shown} is not known in this session; it may have been used or released already"
            )
        return handle
