"""The last wall around a daemon's memory: a limit of the kernel, for what its accounts do not see.

What clients are lent is accounted for before it is taken (`neurald.hal.accounting.account`). Leaks, fragmented heaps and libraries that
take more than anybody expects are not. The kernel refuses memory beyond the wall, which fails one call with OUT_OF_MEMORY; without
it the kernel would end processes, and not only this one.

The address space is what is limited (RLIMIT_AS), because shared memory of clients counts there as well. Drivers of GPUs reserve
addresses that never become memory, 15 GiB for a context of OpenCL on an H100 with 0.2 GiB of memory, and more for more devices;
drivers of other accelerators may do the same. So for them only memory that is private and can be written is limited
(RLIMIT_DATA), which leaves out those reservations. OpenCL on a processor (PoCL) reserves nothing, and is limited like the CPU
driver.
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

#: For threads that serve calls and bursts, each with a stack of 8 MiB of addresses, and for libraries that are loaded later.
_HEADROOM_BYTES = 8 << 30
#: The C library makes up to eight heaps for each processor, and reserves 64 MiB for each.
_HEAPS_OF_A_PROCESSOR_BYTES = 8 * (64 << 20)


@contextlib.contextmanager
def limited_memory(device: Device, limits: Limits) -> Iterator[None]:
    """Limits the memory of this process, from `with` on, to what it has now, what its clients may have, and headroom.

    Only the soft limit is set: a process that is started from here may set its own. A limit that is lower already stays.

    Args:
        device: that is served, ready to work.
        limits: of the daemon.
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
    """What counts towards a limit now."""
    key = "VmData:" if kind == resource.RLIMIT_DATA else "VmSize:"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) << 10
    return 0
