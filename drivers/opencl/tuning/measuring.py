"""Measures many kernels; their programs are built in several processes, see `build_helper`."""

import logging
import time
from collections.abc import Callable, Sequence

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.tuning.build_helper import BuildHelper
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses, process_count
from neurald.drivers.opencl.tuning.shard_queue import ShardQueue
from neurald.drivers.opencl.tuning.sharding import shards_of
from neurald.drivers.opencl.tuning.trials import Bench, trials_of
from neurald.hal.errors import DeadObject, Error

_LOG = logging.getLogger(__name__)

#: Target size of a program's functions in bytes: about one second for compilers that optimise much.
_TARGET_SHARD_BYTES = 30_000
#: Minimum number of programs per process: starting a process and opening the device takes about as
#: long.
_MIN_SHARDS_PER_PROCESS = 3


def times_ns(
    device: DeviceContext,
    sources: Sequence[Source],
    *,
    is_resident: bool,
    require_wanted: Callable[[str], None] = lambda where: None,
    processes: HelperProcesses | None = None,
) -> dict[str, float]:
    """Measures sources on zeroed memory; returns the times by name.

    Sources that do not build or cannot run are left out.

    Args:
        device: the device to measure on.
        sources: the sources, whose texts differ from each other.
        is_resident: whether each is measured as a phase of a persistent kernel.
        require_wanted: called before each program is built; raises to abort the measurement.
        processes: where helpers get their processes from; None for new ones.

    Raises:
        DeadObject: the device is lost.
        Error: the device lacks memory, or `require_wanted` raised it.
    """
    started = time.monotonic()
    shards = shards_of(sources, _TARGET_SHARD_BYTES)
    queue = ShardQueue(shards)
    count = min(process_count(device.facts), len(shards) // _MIN_SHARDS_PER_PROCESS)
    processes = processes or HelperProcesses(device.facts)
    helpers: list[BuildHelper] = []
    try:
        for _ in range(count - 1):
            helpers.append(BuildHelper(queue, device, processes, is_resident=is_resident))
        _measure_here(queue, device, is_resident=is_resident, require_wanted=require_wanted)
    finally:
        queue.close()
        for helper in helpers:
            helper.kill()
        for helper in helpers:
            helper.close()
    _LOG.info(
        "measured %d kernels in %.1f s, with %d processes",
        len(queue.times_ns),
        time.monotonic() - started,
        1 + len(helpers),
    )
    return {name: each for name, each in queue.times_ns.items() if each is not None}


def _measure_here(
    queue: ShardQueue, device: DeviceContext, *, is_resident: bool, require_wanted: Callable[[str], None]
) -> None:
    """Builds and measures in this process until no shard is left."""
    bench: Bench | None = None
    while (shard := queue.next(is_local=True)) is not None:
        require_wanted("while kernels were measured")
        text, trials = trials_of(shard, device.facts, is_resident=is_resident)
        try:
            program = BuiltProgram.from_source(device, text)
        except DeadObject:
            raise
        except Error as error:
            queue.split(shard, str(error))
            continue
        bench = bench or Bench(device)
        with queue.measuring_lock:
            times = list(bench.times_ns(program, trials))
        queue.record_times(shard, times)
