"""Collects cyclic garbage in a daemon without blocking its clients for long.

A full collection visits every object, and no other Python thread runs meanwhile. By default the
interpreter runs one whenever the number of objects has grown by a quarter. So a client with large
models would cause collections all the time, each of which blocks all clients for as long as it
takes to visit those models.

Instead, full collections take a small share of the time, and a larger one while memory grows, which
may be garbage.
"""

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Iterator

from neurald.hal.process.memory.heap import allocated_bytes

#: The fraction of the time that full collections may take, and that comparisons of memory may.
_MAX_TIME_SHARE = 0.005
#: The fraction of the time that full collections may take while memory grows.
_MAX_TIME_SHARE_OF_GROWTH = 0.05
#: By how much memory must have grown since the last collection to be collected sooner, at least and
#: as a part of what was left.
_MIN_GROWN_BYTES = 64 << 20
_MIN_GROWN_PART = 0.25
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
        allocated: returns how many bytes are allocated.
    """

    def __init__(
        self,
        collect: Callable[[], object] = gc.collect,
        clock: Callable[[], float] = time.monotonic,
        blocks: Callable[[], int] = sys.getallocatedblocks,
        allocated: Callable[[], int] = allocated_bytes,
    ) -> None:
        self._collect = collect
        self._clock = clock
        self._blocks = blocks
        self._allocated = allocated
        #: The smallest number of blocks seen, an estimate of those that collections do not visit.
        self._least_blocks = blocks()
        self._ended_s = clock()
        self._block_s = 0.0
        #: What was allocated after the last collection, and when that is compared again.
        self._left_bytes = allocated()
        self._compares_s = clock()

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
        """Runs a full collection if the last one was long enough ago for its cost.

        If memory has grown much since then, it does not have to be as long ago. Memory that has
        grown without being garbage causes no such collection again before it has grown as much
        once more.
        """
        blocks = self._collected_blocks()
        takes_s = self._block_s * blocks
        waited_s = self._clock() - self._ended_s
        if waited_s < takes_s / _MAX_TIME_SHARE and (
            waited_s < takes_s / _MAX_TIME_SHARE_OF_GROWTH or not self._has_grown()
        ):
            return
        began_s = self._clock()
        self._collect()
        self._ended_s = self._clock()
        self._block_s = (self._ended_s - began_s) / blocks
        self._left_bytes = self._allocated()

    def _has_grown(self) -> bool:
        """Returns whether memory has grown much since the last collection.

        Returns False without a look if the previous look was a moment ago.
        """
        began_s = self._clock()
        if began_s < self._compares_s:
            return False
        grown = self._allocated() - self._left_bytes
        ended_s = self._clock()
        # With a lot of free memory in pieces, it takes a millisecond.
        self._compares_s = ended_s + (ended_s - began_s) / _MAX_TIME_SHARE
        return grown >= max(_MIN_GROWN_BYTES, self._left_bytes * _MIN_GROWN_PART)

    def _collected_blocks(self) -> int:
        """Returns the number of blocks that a collection visits."""
        blocks = self._blocks()
        self._least_blocks = min(self._least_blocks, blocks)
        return blocks - self._least_blocks + _FEW_BLOCKS
