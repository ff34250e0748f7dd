"""Fences: each signals once that work is done, to any process that has its descriptor."""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from neurald.hal.errors import BadData, OutOfMemory
from neurald.hal.open_file_limit import descriptor_shortage

_KIND = "anon_inode:[eventfd]"
_SIGNALLED = 1

#: The longest timeout of poll(2): 24 days.
_MAX_POLL_MS = 2**31 - 1


class Fence:
    """An eventfd that is readable from `signal` on, forever. Thread-safe.

    It is never read, only polled: so no holder can consume the signal before another one sees it,
    and none can make another one block.
    """

    def __init__(self) -> None:
        try:
            self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError as error:
            what = "no fence can be created"
            raise descriptor_shortage(what, error) or OutOfMemory(f"{what}: {error.strerror}") from None

    @classmethod
    def received(cls, fd: int) -> Self:
        """Creates the fence of a descriptor and takes it over; the descriptor is closed on failure.

        Raises:
            BadData: the descriptor is not an eventfd.
        """
        try:
            kind = str(Path(f"/proc/self/fd/{fd}").readlink())
        except OSError as error:
            raise BadData(f"fence descriptor {fd} is not valid: {error.strerror}") from None
        if kind != _KIND:
            os.close(fd)
            raise BadData(f"fence descriptor {fd} is {kind!r}; an eventfd is expected")
        fence = cls.__new__(cls)
        fence._fd = fd
        return fence

    @property
    def fd(self) -> int:
        """The descriptor, still owned by this object."""
        return self._fd

    @property
    def is_signalled(self) -> bool:
        """True if the work is done."""
        return self.wait(0)

    def signal(self) -> None:
        """Signals the fence; further calls change nothing. Never waits, whatever other holders do.

        Writing to a full eventfd blocks unless its file description is non-blocking, and the
        description is shared with every holder. An eventfd that is readable has signalled already
        and is not written to; one that is not readable has room. The non-blocking flag is set in
        case a holder fills it in between.
        """
        if self.is_signalled:
            return
        os.set_blocking(self._fd, False)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._fd, _SIGNALLED)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the fence has signalled.

        Args:
            timeout_s: how long to wait at most; None for no limit.

        Returns:
            Whether it has signalled.
        """
        return wait_any((self._fd,), timeout_s)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # A default, since the names of this module may be gone when the interpreter ends.
        if getattr(self, "_fd", -1) >= 0:
            close(self._fd)
            self._fd = -1


def wait_any(descriptors: Iterable[int], timeout_s: float | None) -> bool:
    """Waits until one of the descriptors is readable or its other end is closed.

    Args:
        descriptors: the descriptors to wait for.
        timeout_s: how long to wait at most; None for no limit.

    Returns:
        Whether that happened in time.
    """
    import select  # rarely needed

    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else min(max(0.0, timeout_s) * 1000, _MAX_POLL_MS)))
