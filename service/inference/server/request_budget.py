"""The memory that the requests of all clients take together."""

import contextlib
from collections.abc import Iterator

from neurald.service.inference.protocol.errors import ServiceError, Status


class RequestBudget:
    """Counts bytes of requests. Belongs to one event loop.

    Args:
        limit_bytes: how many there may be at once.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0

    @contextlib.contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Counts so many bytes during the block.

        Raises:
            ServiceError: there would be too many.
        """
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)

    def take(self, size: int) -> None:
        """Counts so many bytes until they are given back.

        Raises:
            ServiceError: there would be too many.
        """
        if self.used_bytes + size > self._limit_bytes:
            raise ServiceError(
                Status.EXHAUSTED,
                f"requests take {self.used_bytes} bytes of memory already; {self._limit_bytes} may be, so that "
                f"{size} more do not fit; try again later",
            )
        self.used_bytes += size

    def give_back(self, size: int) -> None:
        """Ends what `take` began."""
        self.used_bytes -= size
