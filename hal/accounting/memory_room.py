"""Room in memory that clients share: who needs some waits a while for it, and nobody gets more than a part of it."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterator

from neurald.hal.errors import ResourceExhaustedPersistent, ResourceExhaustedTransient


class Room:
    """Bytes of memory that clients share. Thread-safe.

    Args:
        most: in all.
        most_of_one: of one owner.
        wait_s: how long to wait for it.
    """

    def __init__(self, most: int, most_of_one: int, *, wait_s: float) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._wait_s = wait_s
        self._changed = threading.Condition()
        self._taken: Counter[Hashable] = Counter()
        self._sum = 0

    @contextlib.contextmanager
    def taken(self, owner: Hashable, size_bytes: int) -> Iterator[None]:
        """Room for so many bytes; waits a while for it.

        Raises:
            ResourceExhaustedPersistent: there never is.
            ResourceExhaustedTransient: there is none.
        """
        if size_bytes > self._most_of_one:
            raise ResourceExhaustedPersistent(
                f"a message of which {size_bytes} bytes become; one client may have {self._most_of_one}"
            )
        with self._changed:
            end = time.monotonic() + self._wait_s
            while not self._fits(owner, size_bytes):
                left = end - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise ResourceExhaustedTransient(
                        f"{self._sum} bytes are held by messages that are worked on, {self._taken[owner]} of them by "
                        f"those of this client; {self._most} and {self._most_of_one} may be"
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
        return self._sum + size_bytes <= self._most and self._taken[owner] + size_bytes <= self._most_of_one
