"""Fence: a sign, given once, that work is done. It can be waited for in any process that has its descriptor."""

import contextlib
import os
import select
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from neurald.hal.errors import BadData, OutOfMemory

_KIND = "anon_inode:[eventfd]"
_SIGNALLED = 1

#: What poll(2) can take: 24 days.
_MAX_POLL_MS = 2**31 - 1


class Fence:
    """An eventfd that is readable from `signal` on, for ever. Thread-safe.

    Nobody ever reads it: whether it has signalled is found by polling, so that no holder can take the sign away
    from another one by being first, and none can make another one block.
    """

    def __init__(self) -> None:
        try:
            self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError as error:
            raise OutOfMemory(f"no fence can be made: {error.strerror}") from None

    @classmethod
    def received(cls, fd: int) -> Self:
        """The fence behind a descriptor, which it takes over; it is closed on failure.

        Raises:
            BadData: the descriptor is no eventfd.
        """
        try:
            kind = str(Path(f"/proc/self/fd/{fd}").readlink())
        except OSError as error:
            raise BadData(f"fence descriptor {fd}: {error.strerror}") from None
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
        """Whether the work is done."""
        return self.wait(0)

    def signal(self) -> None:
        """Gives the sign; giving it again changes nothing. Does not wait for other holders, whatever they do.

        Writing to a full eventfd waits unless its description says otherwise, and that belongs to every holder. An
        eventfd that is readable has signalled already and is not written to; one that is not has room. The mark is set
        for a holder that fills it in between.
        """
        if self.is_signalled:
            return
        os.set_blocking(self._fd, False)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._fd, _SIGNALLED)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has signalled, at the latest after `timeout_s`; None waits without a limit."""
        return wait_any((self._fd,), timeout_s)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


def wait_any(descriptors: Iterable[int], timeout_s: float | None) -> bool:
    """Whether one of the descriptors became readable, or its other end went away, before the time was over."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else min(max(0.0, timeout_s) * 1000, _MAX_POLL_MS)))
