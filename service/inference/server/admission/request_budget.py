"""The memory that the requests of all clients take together."""

import contextlib
import threading
from collections.abc import Iterator

from neurald.service.inference.protocol.errors import ServiceError, Status


class RequestBudget:
    """Counts bytes of requests. Any thread may call its methods.

    Args:
        limit_bytes: how many there may be at once.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Counts this many bytes during the block.

        Raises:
            ServiceError: there would be too many.
        """
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)

    def take(self, size: int) -> None:
        """Counts this many bytes until they are given back.

        Raises:
            ServiceError: there would be too many.
        """
        with self._lock:
            used = self.used_bytes
            if used + size <= self._limit_bytes:
                self.used_bytes += size
                return
        raise ServiceError(
            Status.EXHAUSTED,
            f"requests take {used} bytes of memory already; {self._limit_bytes} may be, so that {size} more do "
            "not fit; try again later",
        )

    def give_back(self, size: int) -> None:
        """Ends what `take` began."""
        with self._lock:
            self.used_bytes -= size
