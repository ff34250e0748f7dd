"""Collects cyclic garbage in a daemon without blocking its clients for long.

A full collection visits every object, and no other Python thread runs meanwhile. By default the
interpreter runs one whenever the number of objects has grown by a quarter. So a client with large
models would cause collections all the time, each of which blocks all clients for as long as it
takes to visit those models.
"""

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Iterator

#: The fraction of time that full collections may take.
_MAX_TIME_SHARE = 0.005
#: After how many collections of the second generation the interpreter would start a full one by
#: itself.
_NEVER = 1 << 30
#: Added to the number of blocks, since a collection takes some time however few there are.
_FEW_BLOCKS = 10_000


class GarbageCollector:
    """Collects the garbage of this process when one thread calls `collect_if_due` regularly.

    Args:
        collect: runs a full collection.
        clock: returns seconds, as `time.monotonic` does.
        blocks: returns the number of allocated blocks, from which the duration of a collection is
            estimated.
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
        #: The smallest number of blocks seen, an estimate of those that collections do not visit.
        self._least_blocks = blocks()
        self._ended_s = clock()
        self._block_s = 0.0

    @contextlib.contextmanager
    def full_collections_on_demand(self) -> Iterator[None]:
        """Leaves full collections to `collect_if_due` within the context.

        Existing objects are expected to stay, and are not visited.
        """
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

    def collect_if_due(self) -> None:
        """Runs a full collection if the last one was long enough ago for its cost."""
        began_s = self._clock()
        if began_s - self._ended_s < self._block_s * self._collected_blocks() / _MAX_TIME_SHARE:
            return
        blocks = self._collected_blocks()
        self._collect()
        self._ended_s = self._clock()
        self._block_s = (self._ended_s - began_s) / blocks

    def _collected_blocks(self) -> int:
        """Returns the number of blocks that a collection visits."""
        blocks = self._blocks()
        self._least_blocks = min(self._least_blocks, blocks)
        return blocks - self._least_blocks + _FEW_BLOCKS
