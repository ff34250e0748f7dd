"""Garbage that refers to itself, collected in a daemon where that keeps nobody waiting for long.

A full collection looks at every object there is, and no other thread of Python runs meanwhile. Left to itself the interpreter
collects whenever a quarter more objects have come, so that a client with large models has it do so all the time, with all others
waiting for as long as it takes to look at those models.
"""

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Iterator

#: Full collections may take so much of the time.
_SHARE = 0.005
#: Collections of the second generation until the interpreter would start a full one by itself.
_NEVER = 1 << 30
#: Added to what is looked at: collecting takes some time however little there is.
_FEW_BLOCKS = 10_000


class Garbage:
    """The garbage of this process, looked at now and then by one thread.

    Args:
        collect: looks at all objects, and frees those that nobody refers to.
        clock: tells seconds, as `time.monotonic` does.
        blocks: tells how many pieces of memory objects take, which says how long collecting will take.
    """

    def __init__(
        self,
        collect: Callable[[], object] = gc.collect,
        clock: Callable[[], float] = time.monotonic,
        blocks: Callable[[], int] = sys.getallocatedblocks,
    ) -> None:
        self._collect = collect
        self._clock = clock
        self._blocks = blocks
        #: What is not looked at, as far as is known.
        self._least_blocks = blocks()
        self._ended_s = clock()
        self._block_s = 0.0

    @contextlib.contextmanager
    def collected_seldom(self) -> Iterator[None]:
        """Leaves full collections to `look` meanwhile. What exists already is taken to stay, and not looked at."""
        gc.collect()
        gc.freeze()
        self._least_blocks = self._blocks()
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
        if began_s - self._ended_s < self._block_s * self._looked_at() / _SHARE:
            return
        looked_at = self._looked_at()
        self._collect()
        self._ended_s = self._clock()
        self._block_s = (self._ended_s - began_s) / looked_at

    def _looked_at(self) -> int:
        """The blocks of objects that a collection looks at."""
        blocks = self._blocks()
        self._least_blocks = min(self._least_blocks, blocks)
        return blocks - self._least_blocks + _FEW_BLOCKS
