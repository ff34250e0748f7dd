"""Descriptors and threads that a target keeps open after a case."""

import gc
import time
from collections.abc import Callable

from fuzz.target import Finding


class Leaks:
    """Compares the descriptors and threads of a target with those of its start.

    Args:
        owner: the owner of the threads, for messages.
        descriptors: counts the descriptors.
        threads: counts the threads; one of them stays.
        settle_s: how long after a case there may be more.
    """

    def __init__(
        self, owner: str, descriptors: Callable[[], int], threads: Callable[[], int], settle_s: float
    ) -> None:
        self._owner = owner
        self._descriptors, self._threads = descriptors, threads
        self._settle_s = settle_s
        self._before = descriptors()

    def check(self) -> None:
        """Waits until there are no more than at the start.

        Raises:
            Finding: some stay open. They count as those of the start from now on.
        """
        end = time.monotonic() + self._settle_s
        while self._descriptors() > self._before or self._threads() > 1:
            if time.monotonic() > end:
                count, threads = self._descriptors(), self._threads()
                self._before = count
                raise Finding(f"{count} descriptors and {threads} threads of {self._owner} stay open")
            time.sleep(0.01)
            # Exceptions keep objects alive in reference cycles.
            gc.collect()
