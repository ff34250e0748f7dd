"""Kernels that are to be built and measured, handed out to the threads and processes that measure them."""

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

#: Between two messages that tell how much is done.
_SILENCE_S = 2.0


class Work:
    """Shards that are to be built and measured, and what became of them; several threads take and give them.

    Attributes:
        times_ns: by the names of sources; None: it does not build, or cannot run.
        turn: whoever has it measures; nobody else's kernels run meanwhile.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.times_ns: dict[str, float | None] = {}
        self.turn = threading.Lock()
        self._changed = threading.Condition()
        self._waiting = deque(shards)
        self._returned: list[Shard] = []
        self._taken = 0
        self._is_closed = False
        self._count = sum(map(len, shards))
        self._told = time.monotonic()

    def next(self, *, is_here: bool = False) -> Shard | None:
        """A shard for whoever asks, as soon as there is one; None: there will be none.

        Args:
            is_here: whether this process builds it. Others do not get those that were given back.
        """
        with self._changed:
            while not self._is_closed:
                if is_here and self._returned:
                    shard = self._returned.pop()
                elif self._waiting:
                    shard = self._waiting.popleft()
                elif self._taken or self._returned:
                    # Of what others have, something may come back.
                    self._changed.wait()
                    continue
                else:
                    return None
                self._taken += 1
                return shard
            return None

    def measured(self, shard: Shard, times: Sequence[float | None]) -> None:
        """The times of a shard's sources. Fewer than it has: the next one lost the device, and those after it are still to do."""
        with self._changed:
            known = [*times, None][: len(shard)]
            for source, time_ns in zip(shard, known, strict=False):
                self.times_ns[source.name] = time_ns
            if len(times) < len(shard):
                _LOG.warning("a choice for operation %s loses the device", shard[len(times)].operations)
            self._put_back([shard[len(known) :]])

    def split(self, shard: Shard, error: str) -> None:
        """A shard does not build: its halves may; of a single source there is no use."""
        with self._changed:
            half = len(shard) // 2
            if not half:
                _LOG.info("a choice for operation %s does not build: %s", shard[0].operations, error)
                self.times_ns[shard[0].name] = None
            self._put_back([shard[:half], shard[half:]] if half else [])

    def _put_back(self, parts: Sequence[Shard]) -> None:
        """What was taken is done, but for these parts."""
        self._taken -= 1
        self._waiting.extend(part for part in parts if part)
        self._changed.notify_all()
        now = time.monotonic()
        if now - self._told >= _SILENCE_S:
            self._told = now
            _LOG.info("compiled and measured %d of %d kernels", len(self.times_ns), self._count)

    def give_back(self, shard: Shard) -> None:
        """Another process has failed with it."""
        with self._changed:
            self._taken -= 1
            self._returned.append(shard)
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody gets anything any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
