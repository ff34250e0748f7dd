"""Devices with and without extensions.

Their names as drivers have the form `support.devices.vendors:create_measured`.
"""

from neurald.drivers.sample.config import ALL
from neurald.drivers.sample.device import SampleDevice
from neurald.drivers.sample.extension import EXTENSION
from neurald.hal.device import Performance
from neurald.hal.records import replace


def create_without_tflite() -> SampleDevice:
    """Creates a device without any extension."""
    device = SampleDevice(replace(ALL, extensions=()))
    device.extensions = ()
    return device


def create_measured() -> SampleDevice:
    """Creates a device that reports performance for a vendor's operand type."""
    capabilities = ALL.capabilities
    own = {EXTENSION.operand_type(0): Performance(exec_time=0.25, power_usage=0.5)}
    performance = {**capabilities.operand_performance, **own}
    return SampleDevice(replace(ALL, capabilities=replace(capabilities, operand_performance=performance)))
