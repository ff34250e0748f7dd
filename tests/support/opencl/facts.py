"""Descriptions of the OpenCL device of this machine, as other devices."""

from support.opencl.sources import opencl_facts

from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.hal.records import replace


def _own_facts() -> DeviceFacts:
    found = opencl_facts()
    assert found is not None
    return found


def small_gpu() -> DeviceFacts:
    """Returns the device as a GPU of 16 compute units."""
    return replace(_own_facts(), kind=DeviceKind.GPU, compute_units=16, local_memory_bytes=48 << 10)


def warpgroup_facts() -> DeviceFacts:
    """Returns the device as a GPU with warpgroups' matrix instructions, perhaps in name only."""
    return replace(
        _own_facts(),
        kind=DeviceKind.GPU,
        compute_units=132,
        is_nvidia=True,
        compute_capability=(9, 0),
        images=None,
    )


def has_warpgroup_instruction() -> bool:
    """Returns True if the device has matrix instructions of warpgroups."""
    facts = _own_facts()
    return facts.is_nvidia and facts.compute_capability == (9, 0)
