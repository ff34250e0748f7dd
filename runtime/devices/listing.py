"""Lists the devices for applications."""

import time

from neurald.hal.api_arguments import waiting_time
from neurald.hal.device import Device
from neurald.runtime.devices import discovery
from neurald.runtime.devices.measuring import measure_new


def devices(timeout: float | None = None) -> tuple[Device, ...]:
    """Returns the CPU device, the devices of installed drivers, and those of all driver daemons.

    A driver on this machine is listed before its process exists, with the properties that were
    measured the last time; the process starts when a model is prepared for it. Only if a driver has
    never run, it starts now, so that it is measured. Daemons are those in the runtime directory and
    those that the application has connected to. They are asked concurrently at every call, so that
    those that have started or ended since the last call are noticed. One that does not answer,
    hangs, or cannot start is left out. Of several devices with the same name only the first one is
    returned.

    Args:
        timeout: how long to wait for answers, in seconds; None for the usual time.

    Raises:
        BadData: the timeout is negative, or NEURALD_AUTOSTART is neither 0 nor 1.
    """
    limit_s = waiting_time(timeout)
    deadline_s = None if limit_s is None else time.monotonic() + limit_s
    measure_new(deadline_s)
    return discovery.devices(deadline_s)
