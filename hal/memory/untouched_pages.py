"""Makes the system provide pages of new memory little by little, during another wait."""

import mmap
from collections import deque
from collections.abc import Iterable

import numpy as np

from neurald.hal.memory.pool import Memory


class UntouchedPages:
    """Pages of zeroed memories without a write so far, which the system provides at the first one.

    An execution that writes a large result for the first time would wait for each page.

    Args:
        memories: the memories, which are zeroed.
    """

    def __init__(self, memories: Iterable[Memory]) -> None:
        self._parts = deque(np.asarray(memory.view()) for memory in memories)
        self._size = sum(part.nbytes for part in self._parts)

    def touch(self, share: float) -> None:
        """Writes zeros to the pages of so large a share of the memories, after those before."""
        left = int(share * self._size) + 1
        while left > 0 and self._parts:
            part = self._parts.popleft()
            # NumPy releases the GIL here.
            part[: left : mmap.PAGESIZE] = 0
            if left < part.nbytes:
                self._parts.appendleft(part[left:])
            left -= part.nbytes
