"""Discovers OpenCL devices, describes them, and opens them.

Enumeration is cheap: it compiles nothing and creates no context.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind, version_of
from neurald.drivers.opencl.platform.errors import OPENCL, DeviceState
from neurald.drivers.opencl.platform.images import images_of
from neurald.drivers.opencl.platform.loader import all_libraries, load
from neurald.drivers.opencl.platform.pinned_memory import PinnedMemory
from neurald.drivers.opencl.platform.program_cache import ProgramCache
from neurald.drivers.opencl.platform.reduction_order import wanted_order
from neurald.drivers.opencl.platform.storage import storage_of
from neurald.drivers.opencl.settings import process_settings
from neurald.drivers.settings import Settings
from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.fork import keep_in_children
from neurald.hal.records import replace

if TYPE_CHECKING:
    import pyopencl as cl

#: Selects the device: "PLATFORM:DEVICE" (indices), or a part of the name of a device or platform.
DEVICE_VARIABLE = "NEURALD_OPENCL_DEVICE"

_INSTALL = "install one: pocl-opencl-icd on Debian and Ubuntu for the CPU, the vendor's driver for a GPU"
_OLDEST_VERSION = (1, 2)
#: Mesa's OpenCL, which has no devices unless this variable names their drivers.
_MESA = "rusticl"
_MESA_DRIVERS = "RUSTICL_ENABLE"
#: Names of Mesa's graphics drivers for CPUs.
_RASTERIZERS = ("llvmpipe", "softpipe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Platform or device that is not used, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """Devices found on this machine."""

    devices: tuple[DeviceFacts, ...]
    skipped: tuple[Skipped, ...]


class DeviceContext:
    """An open device: its context and its queues.

    Thread-safe, but a queue may be used by one thread at a time.

    Attributes:
        facts: the properties of the device, including those known only once it is open.
        context: pyopencl's context with this device only.
        state: whether the device is usable; all calls to the device go through its `guard`.
        programs: the programs built for it.
        pinned: memory of the host that it transfers by itself.
    """

    def __init__(self, facts: DeviceFacts) -> None:
        """Opens the device.

        Raises:
            Error: the device cannot be opened.
        """
        import pyopencl as cl

        OPENCL.require()
        self.state = DeviceState(f"OpenCL device {facts.name}", is_nvidia=facts.is_nvidia)
        self.programs = ProgramCache()
        with self.state.guard("opening"):
            self.context: cl.Context = cl.Context([facts.handle])
            self.facts = replace(facts, images=images_of(self.context, facts))
        self.pinned = PinnedMemory(self.facts, self.state, self.context)
        keep_in_children(self)

    def queue(self, *, profiling: bool = False) -> cl.CommandQueue:
        """Creates an in-order queue; a profiling one records the time of each command."""
        import pyopencl as cl

        properties: Any = cl.command_queue_properties.PROFILING_ENABLE if profiling else 0
        with self.state.guard("creating a queue"):
            return cl.CommandQueue(self.context, self.facts.handle, properties=properties)


def discover(settings: Settings | None = None) -> Discovery:
    """Lists the OpenCL devices of this machine, and those that cannot be used.

    Args:
        settings: the settings of the driver; None for those of this process.

    Raises:
        UnavailableDevice: pyopencl is not installed, there is no OpenCL platform, or the value of
            NEURALD_OPENCL_STORAGE is invalid.
    """
    cl = load()
    settings = process_settings() if settings is None else settings
    devices: list[DeviceFacts] = []
    skipped: list[Skipped] = []
    with all_libraries():
        try:
            platforms = cl.get_platforms()
        except cl.Error:
            platforms = []
    if not platforms:
        raise UnavailableDevice(f"no OpenCL platform is installed; {_INSTALL}")
    for platform_index, platform in enumerate(platforms):
        try:
            reason = _platform_reason(platform)
            found = [] if reason else platform.get_devices()
        except cl.Error as error:
            reason, found = _first_line(error), []
        if not found:
            name = _name(platform, platform_index)
            skipped.append(Skipped(name=name, reason=reason or _reason_of_none(name)))
        for device_index, device in enumerate(found):
            try:
                facts = _facts(platform_index, device_index, platform, device, settings)
                reason = _device_reason(device)
            except cl.Error as error:
                reason = _first_line(error)
            if reason:
                skipped.append(Skipped(name=_name(device, device_index), reason=reason))
            else:
                devices.append(facts)
    return Discovery(devices=tuple(devices), skipped=tuple(skipped))


def choose(discovery: Discovery, wanted: str | None = None) -> DeviceFacts:
    """Returns the selected device, by default the first GPU, accelerator or CPU.

    Devices that draw with a CPU come last.

    Args:
        discovery: the result of `discover`.
        wanted: "PLATFORM:DEVICE" or a part of a name; overrides NEURALD_OPENCL_DEVICE.

    Raises:
        UnavailableDevice: there is no device, or none of that name.
    """
    wanted = process_settings().text(DEVICE_VARIABLE) if wanted is None else wanted
    devices = discovery.devices
    if wanted:
        if re.fullmatch(r"\d+:\d+", wanted):
            place = tuple(map(int, wanted.split(":")))
            devices = tuple(one for one in devices if (one.platform_index, one.device_index) == place)
        else:
            devices = tuple(
                one for one in devices if wanted.lower() in f"{one.name} {one.platform_name}".lower()
            )
    if not devices:
        there = "; ".join(
            [str(one) for one in discovery.devices]
            + [f"{one.name} is not used: {one.reason}" for one in discovery.skipped]
        )
        which = f"matches {wanted!r}" if wanted else f"is usable ({_INSTALL})"
        raise UnavailableDevice(f"no OpenCL device {which}; devices found: {there or 'none'}")
    order = list(DeviceKind)
    return min(devices, key=lambda one: (_is_rasterizer(one), order.index(one.kind)))


def _is_rasterizer(device: DeviceFacts) -> bool:
    """Returns True for a graphics driver that runs on a CPU, many times slower than others do."""
    return device.name.lower().startswith(_RASTERIZERS)


def _name(thing: cl.Platform | cl.Device, index: int) -> str:
    try:
        return thing.name.strip()
    except Exception:  # Its errors are reported elsewhere.
        return f"number {index}"


def _first_line(error: Exception) -> str:
    return f"fails: {(str(error).splitlines() or [type(error).__name__])[0]}"


def _reason_of_none(platform: str) -> str:
    """Returns the reason why a platform has no devices."""
    if platform == _MESA and not environment_variable(_MESA_DRIVERS):
        return f"has no devices; {_MESA_DRIVERS} names Mesa's drivers to use, such as iris or radeonsi"
    return "has no devices"


def _platform_reason(platform: cl.Platform) -> str:
    """Returns the reason why a platform is not used; "" if it is."""
    if version_of(platform.version) < _OLDEST_VERSION:
        return f"is {platform.version}; OpenCL 1.2 or later is expected"
    return ""


def _device_reason(device: cl.Device) -> str:
    """Returns the reason why a device is not used; "" if it is."""
    import pyopencl as cl

    if not device.available:
        return "is unavailable"
    if not device.compiler_available:
        return "has no compiler for OpenCL C"
    if version_of(device.version) < _OLDEST_VERSION:
        return f"is {device.version}; OpenCL 1.2 or later is expected"
    # The PoCL that pip installs may be older than the CPU; then no program builds.
    if device.platform.name == "Portable Computing Language" and importlib.util.find_spec(
        "pocl_binary_distribution"
    ):
        try:
            cl.Program(cl.Context([device]), "kernel void k(global int* a) { *a = 0; }").build()
        except cl.Error as error:
            if "unknown target CPU" in str(error):
                return "is too old for this CPU, so that no program builds; install Debian's pocl-opencl-icd"
            raise
    return ""


def _facts(
    platform_index: int, device_index: int, platform: cl.Platform, device: cl.Device, settings: Settings
) -> DeviceFacts:
    import pyopencl as cl

    extensions = device.extensions.split()
    name = device.name.strip()
    if device.type & cl.device_type.GPU:
        kind = DeviceKind.GPU
    elif device.type & cl.device_type.CPU:
        kind = DeviceKind.CPU
    else:
        kind = DeviceKind.ACCELERATOR
    capability = None
    if "cl_nv_device_attribute_query" in extensions:
        with contextlib.suppress(cl.Error):
            capability = (device.compute_capability_major_nv, device.compute_capability_minor_nv)
    return DeviceFacts(
        platform_index=platform_index,
        device_index=device_index,
        platform_name=platform.name.strip(),
        platform_version=platform.version.strip(),
        name=name,
        vendor=device.vendor.strip(),
        driver_version=device.driver_version.strip(),
        device_version=device.version.strip(),
        c_version=device.opencl_c_version.strip(),
        kind=kind,
        compute_units=device.max_compute_units,
        max_work_group_size=device.max_work_group_size,
        local_memory_bytes=device.local_mem_size,
        max_allocation_bytes=device.max_mem_alloc_size,
        global_memory_bytes=device.global_mem_size,
        alignment_bytes=max(device.mem_base_addr_align // 8, 1),
        has_fp64="cl_khr_fp64" in extensions,
        has_images=bool(device.image_support),
        has_dot_product="cl_khr_integer_dot_product" in extensions,
        is_nvidia="nvidia" in device.vendor.lower(),
        compute_capability=capability,
        flush_every=flush_every(name, device.vendor, platform.name.strip()),
        max_image_texels=_max_image_texels(device),
        storage=storage_of(name, device.vendor, settings, is_gpu=kind is DeviceKind.GPU),
        reduction_order=wanted_order(settings),
        handle=device,
    )


def _max_image_texels(device: cl.Device) -> int:
    import pyopencl as cl

    # Some devices support images but fail when asked about those over buffers.
    with contextlib.suppress(cl.Error):
        return int(device.image_max_buffer_size) if device.image_support else 0
    return 0


def flush_every(name: str, vendor: str, platform: str = "") -> int:
    """Returns the number of kernels between two flushes of the queue (`DeviceFacts.flush_every`).

    The numbers are those of TFLite's GPU delegate: 24 for Mali, 16 for PowerVR (4 up to Rogue
    GM9xxx), and 16 for Adreno up to 630. Mesa needs none, and its clFinish may not wait for
    commands that were flushed.
    """
    if platform == _MESA:
        return 0
    text = f"{name} {vendor}".lower()
    if "mali" in text:
        return 24
    if "powervr" in text or "imagination" in text:
        return 4 if re.search(r"rogue (g6|ge|gx|gm)", text) else 16
    adreno = re.search(r"adreno\D*(\d+)", text)
    return 16 if adreno and int(adreno[1]) <= 630 else 0
