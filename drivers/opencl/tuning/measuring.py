"""Measures many kernels; their programs are built in several processes, see `build_helper`."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.platform.platform import DeviceContext
from neurald.drivers.opencl.runtime.program import Program
from neurald.drivers.opencl.tuning.build_helper import Helper, process_count
from neurald.drivers.opencl.tuning.sharding import shards_of
from neurald.drivers.opencl.tuning.trials import Bench, trials_of
from neurald.hal.errors import DeadObject, Error

_LOG = logging.getLogger(__name__)

#: Sources that are built as one program.
Shard: TypeAlias = tuple[Source, ...]

#: Target size of a program's functions in bytes: about one second for compilers that optimise much.
_SHARD_BYTES = 30_000
#: Minimum number of programs per process: starting a process and opening the device takes about as
#: long.
_SHARDS_EACH = 3
#: Seconds between progress messages.
_SILENCE_S = 2.0


def times_ns(
    device: DeviceContext,
    sources: Sequence[Source],
    *,
    is_resident: bool,
    require_wanted: Callable[[str], None] = lambda where: None,
) -> dict[str, float]:
    """Measures sources on zeroed memory; returns the times by name.

    Sources that do not build or cannot run are left out.

    Args:
        device: the device to measure on.
        sources: with pairwise different texts.
        is_resident: whether each is measured as a phase of a persistent kernel.
        require_wanted: called before each program is built; raises to abort the measurement.

    Raises:
        DeadObject: the device is lost.
        Error: the device lacks memory, or `require_wanted` raised it.
    """
    started = time.monotonic()
    shards = shards_of(sources, _SHARD_BYTES)
    work = Work(shards)
    count = min(process_count(device.facts), len(shards) // _SHARDS_EACH)
    helpers: list[Helper] = []
    try:
        for _ in range(count - 1):
            helpers.append(Helper(work, device, is_resident=is_resident))
        _take_part(work, device, is_resident=is_resident, require_wanted=require_wanted)
    finally:
        work.close()
        for helper in helpers:
            helper.kill()
        for helper in helpers:
            helper.close()
    _LOG.info(
        "measured %d kernels in %.1f s, with %d processes",
        len(work.times_ns),
        time.monotonic() - started,
        1 + len(helpers),
    )
    return {name: each for name, each in work.times_ns.items() if each is not None}


def _take_part(
    work: "Work", device: DeviceContext, *, is_resident: bool, require_wanted: Callable[[str], None]
) -> None:
    """Builds and measures in this process until no shard is left."""
    bench: Bench | None = None
    while (shard := work.next(is_here=True)) is not None:
        require_wanted("while kernels were measured")
        text, trials = trials_of(shard, device.facts, is_resident=is_resident)
        try:
            program = Program.from_source(device, text)
        except DeadObject:
            raise
        except Error as error:
            work.split(shard, str(error))
            continue
        bench = bench or Bench(device)
        with work.turn:
            times = list(bench.times_ns(program, trials))
        work.measured(shard, times)


class Work:
    """Queue of shards to build and measure, with the results. Thread-safe.

    Attributes:
        times_ns: by the names of sources; None for a source that does not build or cannot run.
        turn: held while measuring, so that no other kernels run.
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
        """Returns the next shard, waiting for it if necessary; None if there will be none.

        Args:
            is_here: whether this process builds it. Other processes do not get shards that were
                given back.
        """
        with self._changed:
            while not self._is_closed:
                if is_here and self._returned:
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

    def measured(self, shard: Shard, times: Sequence[float | None]) -> None:
        """Records the times of a shard's sources.

        If there are fewer times than sources, the next source lost the device, and those after it
        are still to be measured.
        """
        with self._changed:
            known = [*times, None][: len(shard)]
            for source, time_ns in zip(shard, known, strict=False):
                self.times_ns[source.name] = time_ns
            if len(times) < len(shard):
                _LOG.warning("a candidate for operation %s loses the device", shard[len(times)].operations)
            self._put_back([shard[len(known) :]])

    def split(self, shard: Shard, error: str) -> None:
        """Splits a shard that does not build; a single source that does not build is dropped."""
        with self._changed:
            half = len(shard) // 2
            if not half:
                _LOG.info("a candidate for operation %s does not build: %s", shard[0].operations, error)
                self.times_ns[shard[0].name] = None
            self._put_back([shard[:half], shard[half:]] if half else [])

    def _put_back(self, parts: Sequence[Shard]) -> None:
        """Marks a taken shard as done except for these parts."""
        self._taken -= 1
        self._waiting.extend(part for part in parts if part)
        self._changed.notify_all()
        now = time.monotonic()
        if now - self._told >= _SILENCE_S:
            self._told = now
            _LOG.info("compiled and measured %d of %d kernels", len(self.times_ns), self._count)

    def give_back(self, shard: Shard) -> None:
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
