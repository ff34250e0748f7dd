"""The requests of which a part is there, and whose tensors are still on their way.

They come before one that is received later, so they count where it is estimated whether that one
would be late. Otherwise more of them would be received at the same time than can be answered in
time, and all of them would be late.
"""

import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

#: A request that takes longer to arrive does not count, so that slow clients keep no others away.
_MAX_AGE_S: Final = 0.5


class Arrivals:
    """Counts requests that are on their way. Any thread may call its methods.

    Args:
        clock: returns seconds, as `time.monotonic` does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        #: The time since which each is on its way, oldest first.
        self._since: dict[int, float] = {}

    def __len__(self) -> int:
        with self._lock:
            oldest_s = self._clock() - _MAX_AGE_S
            while self._since and self._since[next(iter(self._since))] < oldest_s:
                del self._since[next(iter(self._since))]
            return len(self._since)

    def begin(self) -> Callable[[], None]:
        """Counts one more; returns what is called once it has arrived, or its client has left."""
        with self._lock:
            number = next(self._numbers)
            self._since[number] = self._clock()
        return partial(self._end, number)

    def _end(self, number: int) -> None:
        with self._lock:
            self._since.pop(number, None)
