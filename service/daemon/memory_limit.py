"""Limits a daemon's memory through the kernel, as a last resort in addition to its accounting.

Memory for clients is accounted for before it is allocated (`neurald.hal.accounting.account`), but
leaks, fragmented heaps and libraries with unexpected demand are not. Beyond the limit the kernel
refuses memory, so that one call fails with OUT_OF_MEMORY. Without the limit the kernel would kill
processes, and not only this one.

The limit applies to the address space (RLIMIT_AS), because that includes the shared memory of
clients. However, drivers of GPUs reserve addresses that never become memory: an OpenCL context on
an H100 reserves 15 GiB and uses 0.2 GiB of memory, and several devices reserve more. Drivers of
other accelerators may do the same. For all of them only private writable memory is limited
(RLIMIT_DATA), which does not include those reservations. OpenCL on a CPU (PoCL) reserves nothing
and is limited like the CPU driver.
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
_HEAP_BYTES_PER_CORE = 8 * (64 << 20)


@contextlib.contextmanager
def limited_memory(device: Device, limits: Limits) -> Iterator[None]:
    """Limits this process's memory during the block to its current use plus limits and headroom.

    Only the soft limit is set, so that child processes may set limits of their own. A lower limit
    that exists already is kept.

    Args:
        device: the served device, which has allocated its own resources.
        limits: the limits of the daemon.
    """
    is_cpu = device.type is DeviceType.CPU
    kind, what = (resource.RLIMIT_AS, "address space") if is_cpu else (resource.RLIMIT_DATA, "data")
    cores = os.cpu_count() or 1
    limit_bytes = (
        _current_bytes(kind) + limits.total_memory_bytes + _HEADROOM_BYTES + cores * _HEAP_BYTES_PER_CORE
    )
    soft, hard = resource.getrlimit(kind)
    existing = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    if existing and min(existing) <= limit_bytes:
        yield
        return
    resource.setrlimit(kind, (limit_bytes, hard))
    logger.info("the %s of this process is limited to %d bytes", what, limit_bytes)
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def _current_bytes(kind: int) -> int:
    """Returns the bytes that currently count towards a limit."""
    key = "VmData:" if kind == resource.RLIMIT_DATA else "VmSize:"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) << 10
    return 0
