"""A reserve of file descriptors for a process that runs out of them but must serve its clients."""

import contextlib
import errno
import os
import resource
import socket

from neurald.hal.errors import ResourceExhaustedTransient
from neurald.hal.process.memory import machine

#: The error for a client whose packet had descriptors that this process could not receive.
NO_DESCRIPTORS = ResourceExhaustedTransient(
    "the daemon has no file descriptors left for those that were sent"
)

_MAX_RESERVED = 256
_RESERVED_SHARE = 8
_EXHAUSTED = (errno.EMFILE, errno.ENFILE)


def raise_descriptor_limit() -> None:
    """Raises this process's limit of descriptors, since each client, and its memory, needs some."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = machine.descriptors()
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def connection_limit(most: int, share: int) -> int:
    """Returns how many connections there may be, of which each takes a descriptor.

    Args:
        most: there may never be more.
        share: they take at most one in this many of the descriptors that this process may have.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if limit == resource.RLIM_INFINITY else min(most, limit // share)


def is_scarce(descriptor: int) -> bool:
    """Returns whether only the reserve is left, now that this descriptor was opened.

    The kernel always gives the lowest free number.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return False
    return descriptor >= limit - min(_MAX_RESERVED, limit // _RESERVED_SHARE)


class Acceptor:
    """Accepts connections even if no descriptor is left: one is reserved for that. Not thread-safe.

    Args:
        listener: a listening socket in non-blocking mode.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._spare = _spare()

    def accept(self) -> tuple[socket.socket | None, bool]:
        """Returns the next connection, None if there is none, and whether it may stay open.

        It may not if only the reserve is left. Then the caller must tell the client so and close
        the connection before it accepts the next one.

        Raises:
            OSError: accepting failed for another reason than that no descriptor is left.
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
        """Closes the reserved descriptor."""
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1


def _spare() -> int:
    return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
