"""A budget of memory that clients share: requests wait for bytes, and no client gets all."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterator

from neurald.hal.errors import ResourceExhaustedPersistent, ResourceExhaustedTransient


class MemoryBudget:
    """Bytes of memory that clients share. Thread-safe.

    Args:
        limit: for all owners together.
        owner_limit: the limit for one owner.
        wait_s: how long a request waits for bytes to be returned.
    """

    def __init__(self, limit: int, owner_limit: int, *, wait_s: float) -> None:
        self._limit = limit
        self._owner_limit = owner_limit
        self._wait_s = wait_s
        self._changed = threading.Condition()
        self._taken: Counter[Hashable] = Counter()
        self._sum = 0

    @contextlib.contextmanager
    def taken(self, owner: Hashable, size_bytes: int) -> Iterator[None]:
        """Takes bytes for the duration of the context; waits for them if necessary.

        Raises:
            ResourceExhaustedPersistent: it is more than one owner may ever have.
            ResourceExhaustedTransient: it is more than what is left, also after waiting.
        """
        if size_bytes > self._owner_limit:
            raise ResourceExhaustedPersistent(
                f"decoding a message takes {size_bytes} bytes; one client may have {self._owner_limit}"
            )
        with self._changed:
            end = time.monotonic() + self._wait_s
            while not self._fits(owner, size_bytes):
                left = end - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise ResourceExhaustedTransient(
                        f"decoding a message takes {size_bytes} bytes; messages of all clients hold {self._sum} "
                        f"bytes of {self._limit}, those of this client {self._taken[owner]} of {self._owner_limit}"
                    )
            self._taken[owner] += size_bytes
            self._sum += size_bytes
        try:
            yield
        finally:
            with self._changed:
                self._sum -= size_bytes
                self._taken[owner] -= size_bytes
                if not self._taken[owner]:
                    del self._taken[owner]
                self._changed.notify_all()

    def _fits(self, owner: Hashable, size_bytes: int) -> bool:
        return self._sum + size_bytes <= self._limit and self._taken[owner] + size_bytes <= self._owner_limit
