"""Finds memory of executions that has been much larger than they need for a long time.

A step keeps the memory of its largest size, since sizes that occur once often occur again.
"""

import time
from typing import Final

#: How long less than a part of the memory must be enough before it is given up, and the least
#: memory for which that matters.
PERIOD_S: Final = 30.0
FACTOR: Final = 4
MIN_BYTES: Final = 1 << 20


class Room:
    """Memory of an instance.

    Args:
        size_bytes: the size in bytes of the memory.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._largest = 0
        self._begun_s = 0.0

    def is_excessive(self, needed_bytes: int) -> bool:
        """Returns whether the memory should be replaced by less.

        Args:
            needed_bytes: by an execution that begins.
        """
        if self._size_bytes < MIN_BYTES:
            return False
        self._largest = max(self._largest, needed_bytes)
        now = time.monotonic()
        if not self._begun_s:
            self._begun_s = now
        if now - self._begun_s < PERIOD_S:
            return False
        largest, self._largest, self._begun_s = self._largest, needed_bytes, now
        return FACTOR * largest < self._size_bytes
