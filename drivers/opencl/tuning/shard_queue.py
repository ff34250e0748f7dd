"""Queue of kernels to build and measure, for threads and processes."""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from neurald.drivers.opencl.codegen.kernel_source import Source

_LOG = logging.getLogger(__name__)

#: Sources that are built as one program.
Shard: TypeAlias = tuple[Source, ...]

#: Seconds between progress messages.
_PROGRESS_INTERVAL_S = 2.0


class ShardQueue:
    """Queue of shards to build and measure, with the results. Thread-safe.

    Attributes:
        times_ns: the measured times by the names of sources; None for a source that does not
            build or cannot run.
        measuring_lock: held while measuring, so that no other kernels run.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.times_ns: dict[str, float | None] = {}
        self.measuring_lock = threading.Lock()
        self._changed = threading.Condition()
        self._waiting = deque(shards)
        self._returned: list[Shard] = []
        self._taken = 0
        self._is_closed = False
        self._count = sum(map(len, shards))
        self._reported_at = time.monotonic()

    def next(self, *, is_local: bool = False) -> Shard | None:
        """Returns the next shard, waiting for it if necessary; None if there will be none.

        Args:
            is_local: whether this process builds it. Other processes do not get shards that were
                given back.
        """
        with self._changed:
            while not self._is_closed:
                if is_local and self._returned:
                    shard = self._returned.pop()
                elif self._waiting:
                    shard = self._waiting.popleft()
                elif self._taken or self._returned:
                    # Shards that other threads are working on may come back.
                    self._changed.wait()
                    continue
                else:
                    return None
                self._taken += 1
                return shard
            return None

    def record_times(self, shard: Shard, times: Sequence[float | None]) -> None:
        """Records the times of a shard's sources.

        If there are fewer times than sources, the next source lost the device, and those after it
        are still to be measured.
        """
        with self._changed:
            known = [*times, None][: len(shard)]
            for source, time_ns in zip(shard, known, strict=False):
                self.times_ns[source.name] = time_ns
            if len(times) < len(shard):
                _LOG.warning(
                    "the device was lost while a candidate for operations %s was measured",
                    shard[len(times)].operations,
                )
            self._put_back([shard[len(known) :]])

    def split(self, shard: Shard, error: str) -> None:
        """Splits a shard that does not build; a single source that does not build is dropped."""
        with self._changed:
            half = len(shard) // 2
            if not half:
                _LOG.info("a candidate for operations %s does not build: %s", shard[0].operations, error)
                self.times_ns[shard[0].name] = None
            self._put_back([shard[:half], shard[half:]] if half else [])

    def _put_back(self, parts: Sequence[Shard]) -> None:
        """Marks a taken shard as done except for these parts."""
        self._taken -= 1
        self._waiting.extend(part for part in parts if part)
        self._changed.notify_all()
        now = time.monotonic()
        if now - self._reported_at >= _PROGRESS_INTERVAL_S:
            self._reported_at = now
            _LOG.info("compiled and measured %d of %d kernels", len(self.times_ns), self._count)

    def requeue(self, shard: Shard) -> None:
        """Returns a shard with which another process failed."""
        with self._changed:
            self._taken -= 1
            self._returned.append(shard)
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the distribution: no caller gets another shard."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
