"""Properties of an OpenCL device that are known before it is opened."""

import hashlib
import re
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from neurald.drivers.opencl.platform.reduction_order import ReductionOrder
from neurald.drivers.opencl.platform.storage import ImageSupport, Storage

#: Facts that no kernel depends on: the position of the device, limits on model sizes, and values
#: that follow from other facts or are already part of `DeviceFacts.digest`.
_NOT_DECISIVE = frozenset(
    {
        "platform_index",
        "device_index",
        "max_allocation_bytes",
        "global_memory_bytes",
        "images",
        "storage",
        "reduction_order",
        "handle",
    }
)


class DeviceKind(Enum):
    """Kind of processor, in order of preference."""

    GPU = "GPU"
    ACCELERATOR = "ACCELERATOR"
    CPU = "CPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """Properties of a device that are known before it is opened.

    Attributes:
        platform_index, device_index: its position in the loader's order.
        platform_version: such as "OpenCL 3.0 CUDA 12.2.148".
        c_version: the version of OpenCL C, such as "OpenCL C 1.2 PoCL".
        max_allocation_bytes: the limit on a single buffer.
        alignment_bytes: the alignment of sub-buffers.
        compute_capability: the compute capability of an NVIDIA device, such as (9, 0).
        has_dot_product: whether its OpenCL C has dot products of four bytes
            (cl_khr_integer_dot_product).
        flush_every: how many kernels are launched between two flushes of the queue; 0 if one flush
            at the end suffices.
        max_image_texels: the limit on an image over a buffer; 0 if there are no such images.
        storage: what kernels read from.
        reduction_order: the order in which kernels may add partial sums.
        images: the images that kernels read; None if they read buffers, or the device is not open
            yet.
        handle: pyopencl's device.
    """

    platform_index: int
    device_index: int
    platform_name: str
    platform_version: str
    name: str
    vendor: str
    driver_version: str
    device_version: str
    c_version: str
    kind: DeviceKind
    compute_units: int
    max_work_group_size: int
    local_memory_bytes: int
    max_allocation_bytes: int
    global_memory_bytes: int
    alignment_bytes: int
    has_fp64: bool
    has_images: bool
    has_dot_product: bool
    is_nvidia: bool
    compute_capability: tuple[int, int] | None
    flush_every: int
    max_image_texels: int = 0
    storage: Storage = Storage.BUFFER
    reduction_order: ReductionOrder = ReductionOrder.FAST
    images: ImageSupport | None = None
    handle: Any = field(repr=False, compare=False)

    @property
    def digest(self) -> str:
        """Everything outside this package that compiled programs depend on, for cache keys."""
        return " | ".join(
            (
                self.platform_name,
                self.platform_version,
                self.name,
                self.vendor,
                self.driver_version,
                self.device_version,
                self.c_version,
                *(() if self.storage is Storage.BUFFER else (self.storage.value,)),
                *(() if self.reduction_order is ReductionOrder.FAST else (self.reduction_order.value,)),
            )
        )

    @property
    def limits_digest(self) -> str:
        """Digest of the limits and features that affect code generation, besides `digest`."""
        decisive = [
            (each.name, getattr(self, each.name)) for each in fields(self) if each.name not in _NOT_DECISIVE
        ]
        return hashlib.sha256(repr(decisive).encode()).hexdigest()[:8]

    @property
    def build_options(self) -> tuple[str, ...]:
        """Compiler options.

        OpenCL C 3.0 exposes functions that compilers hide by default. `NEURALD_NVIDIA_CAPABILITY`
        tells texts ten times the major compute capability, plus the minor one.
        """
        is_known = self.has_dot_product and version_of(self.device_version) >= (3, 0)
        options = ("-cl-std=CL3.0",) if is_known else ()
        if not self.is_nvidia or self.compute_capability is None:
            return options
        major, minor = self.compute_capability
        return (*options, f"-DNEURALD_NVIDIA_CAPABILITY={10 * major + minor}")

    @property
    def is_cpu(self) -> bool:
        """True if kernels run on the host's cores, with buffers in the host's memory."""
        return self.kind is DeviceKind.CPU

    def has_nvidia_capability(self, capability: tuple[int, int]) -> bool:
        """Returns True for an NVIDIA device of at least this compute capability."""
        return self.is_nvidia and (self.compute_capability or (0, 0)) >= capability

    def __str__(self) -> str:
        return f"{self.platform_index}:{self.device_index} {self.name} ({self.platform_name})"


def version_of(text: str) -> tuple[int, int]:
    """Parses "OpenCL 3.0 ..."; returns (0, 0) for any other text."""
    match = re.match(r"OpenCL (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
