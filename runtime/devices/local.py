"""Devices in this process."""

from functools import cache

from neurald.hal import registry
from neurald.hal.api_arguments import instance
from neurald.hal.device import Device


@cache
def cpu_device() -> Device:
    """Returns the CPU device of this process, the fallback for all others."""
    return registry.create_device("cpu")


def open_device(driver: str) -> Device:
    """Creates a device of an installed driver in this process, without a daemon.

    A fault of the driver is then a fault of the application: nothing restarts it. `devices()` does
    not list the device; a compilation uses it if it is in the list of devices.

    Args:
        driver: the name of a driver, such as "opencl", or `module:factory`. "cpu" is the device
            that `devices()` lists.

    Raises:
        BadData: the argument is not a string, or the factory does not return a device.
        UnavailableDevice: there is no such driver, or its device is not available on this machine.
        Error: what the factory raises.
    """
    name = instance(driver, str, "the driver")
    return cpu_device() if name == cpu_device().name else registry.create_device(name)
