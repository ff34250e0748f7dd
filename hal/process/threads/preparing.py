"""Knows when the application prepares models, so that work in the background can wait meanwhile.

Threads take turns, so work that begins at once would delay the first answer of a model, or the
models that the application loads next.
"""

import time
from typing import Final

from neurald.hal.process.fork import forkable_lock, in_each_child


class Preparing:
    """Counts the models that are being prepared: a context manager for each of them.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = forkable_lock()
        self._forget()
        in_each_child(self._forget)

    def _forget(self) -> None:
        """Leaves what is being prepared to the parent, in a forked child."""
        self._count = 0
        self._ended_s = float("-inf")

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            # A forked child has forgotten what its parent prepares.
            self._count = max(0, self._count - 1)
            self._ended_s = time.monotonic()

    def left_s(self, rest_s: float) -> float:
        """Returns the least time until nothing will have been prepared for `rest_s` seconds."""
        if self._count:
            return rest_s
        return max(0.0, self._ended_s + rest_s - time.monotonic())


#: The models of this process.
PREPARING: Final = Preparing()
