"""Garbage that refers to itself, collected in a daemon where that keeps nobody waiting for long.

A full collection looks at every object there is, and no other thread of Python runs meanwhile. Left to itself the interpreter
collects whenever a quarter more objects have come, so that a client with large models has it do so all the time, with all others
waiting for as long as it takes to look at those models.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator

#: Full collections may take so much of the time.
_SHARE = 0.005
#: Collections of the second generation until the interpreter would start a full one by itself.
_NEVER = 1 << 30


class Garbage:
    """The garbage of this process, looked at now and then by one thread.

    Args:
        collect: looks at all objects, and frees those that nobody refers to.
        clock: tells seconds, as `time.monotonic` does.
    """

    def __init__(
        self, collect: Callable[[], object] = gc.collect, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._collect = collect
        self._clock = clock
        self._not_before_s = clock()

    @contextlib.contextmanager
    def collected_seldom(self) -> Iterator[None]:
        """Leaves full collections to `look` meanwhile. What exists already is taken to stay, and not looked at."""
        gc.collect()
        gc.freeze()
        first, second, third = gc.get_threshold()
        gc.set_threshold(first, second, _NEVER)
        try:
            yield
        finally:
            gc.set_threshold(first, second, third)
            gc.unfreeze()

    def look(self) -> None:
        """Collects, as often as that is worth its time."""
        began_s = self._clock()
        if began_s < self._not_before_s:
            return
        self._collect()
        ended_s = self._clock()
        self._not_before_s = ended_s + (ended_s - began_s) / _SHARE
