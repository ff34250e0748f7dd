"""Limits a daemon's memory through the kernel, as a last resort beyond its accounting.

Memory lent to clients is accounted for before it is allocated (`neurald.hal.accounting.account`).
Leaks, fragmented heaps and libraries with unexpected demand are not. Beyond the limit the kernel
refuses memory, which fails one call with OUT_OF_MEMORY; without it the kernel would kill processes,
and not only this one.

The limit applies to the address space (RLIMIT_AS), because that includes shared memory of clients.
Drivers of GPUs reserve addresses that never become memory, 15 GiB for an OpenCL context on an H100
with 0.2 GiB of memory, and more for several devices; drivers of other accelerators may do the same.
For them only private writable memory is limited (RLIMIT_DATA), which excludes those reservations.
OpenCL on a CPU (PoCL) reserves nothing, and is limited like the CPU driver.
"""

import contextlib
import logging
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from neurald.hal.accounting.limits import Limits
from neurald.hal.device import Device
from neurald.hal.model.types import DeviceType

logger = logging.getLogger(__name__)

#: Headroom for threads that serve calls and bursts, each with 8 MiB of stack addresses, and for
#: libraries loaded later.
_HEADROOM_BYTES = 8 << 30
#: The C library creates up to eight heaps per CPU core, and reserves 64 MiB for each.
_HEAPS_OF_A_PROCESSOR_BYTES = 8 * (64 << 20)


@contextlib.contextmanager
def limited_memory(device: Device, limits: Limits) -> Iterator[None]:
    """Limits this process's memory during the block to its current use plus limits and headroom.

    Only the soft limit is set, so that child processes may set their own. A lower existing limit
    stays.

    Args:
        device: the served device, ready to work.
        limits: the limits of the daemon.
    """
    is_processor = device.type is DeviceType.CPU
    kind, what = (resource.RLIMIT_AS, "address space") if is_processor else (resource.RLIMIT_DATA, "data")
    processors = os.cpu_count() or 1
    wall = (
        _now_bytes(kind)
        + limits.total_memory_bytes
        + _HEADROOM_BYTES
        + processors * _HEAPS_OF_A_PROCESSOR_BYTES
    )
    soft, hard = resource.getrlimit(kind)
    set_already = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    if set_already and min(set_already) <= wall:
        yield
        return
    resource.setrlimit(kind, (wall, hard))
    logger.info("the %s of this process is limited to %d bytes", what, wall)
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def _now_bytes(kind: int) -> int:
    """Returns the bytes that currently count towards a limit."""
    key = "VmData:" if kind == resource.RLIMIT_DATA else "VmSize:"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) << 10
    return 0
