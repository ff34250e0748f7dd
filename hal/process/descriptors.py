"""File descriptors that are kept back, so that a process which runs out of them can still serve those who are there."""

import contextlib
import errno
import os
import resource
import socket

from neurald.hal.errors import ResourceExhaustedTransient

#: What a client is told whose packet had descriptors that this process had no room for.
NO_DESCRIPTORS = ResourceExhaustedTransient("the daemon has no file descriptors left for what was sent")

_MAX_RESERVED = 256
_RESERVED_SHARE = 8
_EXHAUSTED = (errno.EMFILE, errno.ENFILE)


def is_scarce(descriptor: int) -> bool:
    """Whether only the reserve is left, now that this descriptor was made: the kernel gives the lowest free number."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return False
    return descriptor >= limit - min(_MAX_RESERVED, limit // _RESERVED_SHARE)


class Acceptor:
    """Accepts connections, also where no descriptor is left: one is kept for that. Used by one thread.

    Args:
        listener: a listening socket that does not block.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._spare = _spare()

    def accept(self) -> tuple[socket.socket | None, bool]:
        """The next connection, None if there is none, and whether it may stay: not where only the reserve is left.

        Who may not stay is to be told so, and its connection closed, before the next one is accepted.

        Raises:
            OSError: nothing can be accepted, for another reason than that no descriptor is left.
        """
        if self._spare < 0:
            with contextlib.suppress(OSError):
                self._spare = _spare()
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return None, False
        except OSError as error:
            if error.errno not in _EXHAUSTED or self._spare < 0:
                raise
            self.close()
            connection, _ = self._listener.accept()
            return connection, False
        return connection, not is_scarce(connection.fileno())

    def close(self) -> None:
        """Gives up the descriptor that is kept."""
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1


def _spare() -> int:
    return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
