"""Decides whether kernels read from buffers, or through images to use the texture cache.

The memory is the same either way: two buffers, see
`neurald.drivers.compiler.memory.buffer_assignment`. An image is a view of a range of one of them
without a copy (`image1d_buffer_t`), whose texels are four consecutive elements. Kernels write to
the buffer, and later kernels in the queue see the result. Each argument of each kernel is therefore
decided on its own: arguments read four elements at a time may be images, unless a limit of the
device forbids it.
"""

from dataclasses import dataclass
from enum import Enum

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.settings import Settings
from neurald.hal.errors import UnavailableDevice

#: Selects how kernels read, whatever the device: buffer or image.
STORAGE_VARIABLE = "NEURALD_OPENCL_STORAGE"

#: Elements of a texel.
TEXEL = 4
#: Name parts of GPUs whose kernels read images: those for which TFLite's GPU delegate chooses
#: textures. Others (Intel, AMD, NVIDIA) cache buffer reads just as well, and CPUs have no textures.
_WITH_TEXTURES = ("adreno", "qualcomm", "mali", "powervr", "imagination")


class Storage(Enum):
    """Memory object that kernels read from."""

    BUFFER = "buffer"
    IMAGE = "image"


def storage_of(name: str, vendor: str, settings: Settings, *, is_gpu: bool) -> Storage:
    """Returns what kernels of a device read from.

    NEURALD_OPENCL_STORAGE overrides the default of the device.

    Args:
        name, vendor: as reported by OpenCL.
        settings: the driver's settings.
        is_gpu: whether the device is a GPU.

    Raises:
        UnavailableDevice: the value of the variable is invalid.
    """
    wanted = settings.choice(STORAGE_VARIABLE, Storage, UnavailableDevice)
    if wanted is not None:
        return wanted
    text = f"{name} {vendor}".lower()
    return Storage.IMAGE if is_gpu and any(each in text for each in _WITH_TEXTURES) else Storage.BUFFER


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSupport:
    """Images that an open device supports over its buffers.

    Attributes:
        types: the element types of images.
        max_texels: the limit on the size of an image.
        max_arguments: the number of images that a kernel may read.
        supports_sub_buffers: whether an image may cover a sub-buffer; otherwise it starts at the
            first byte of the buffer.
        alignment_bytes: the alignment of such a part.
    """

    types: frozenset[Scalar]
    max_texels: int
    max_arguments: int
    supports_sub_buffers: bool
    alignment_bytes: int

    def unsupported_reason(self, value: Value) -> str:
        """Returns the reason why a value cannot be read through an image; "" if it can."""
        if value.type not in self.types:
            return f"images of {value.type.name} are not supported"
        if not value.count:
            return "it has no elements"
        # An image starts at an aligned byte; a value that is part of another one may start later.
        before = (
            -(-self.alignment_bytes // (TEXEL * value.type.size_bytes)) if self.supports_sub_buffers else 0
        )
        return self._too_long(-(-value.count // TEXEL) + before)

    def whole_buffer_unsupported_reason(self, size_bytes: int, kind: Scalar) -> str:
        """Returns the reason why a whole buffer cannot be an image of this element type.

        Returns "" if it can, or if no such image is needed.
        """
        if self.supports_sub_buffers:
            return ""
        return self._too_long(size_bytes // (TEXEL * kind.size_bytes))

    def range_of(self, offset: int, size_bytes: int, buffer_bytes: int, kind: Scalar) -> "ImageRange":
        """Returns the range of the buffer that an image for a value covers.

        Args:
            offset: the start of the value in its buffer, in bytes; a multiple of a texel's size.
            size_bytes: the size of the value.
            buffer_bytes: the size of the buffer.
            kind: the type of its elements.
        """
        texel_bytes = TEXEL * kind.size_bytes
        start = offset // self.alignment_bytes * self.alignment_bytes if self.supports_sub_buffers else 0
        end = offset + size_bytes if self.supports_sub_buffers else buffer_bytes // texel_bytes * texel_bytes
        texels = -(-(end - start) // texel_bytes)
        return ImageRange(start=start, texels=texels, first=(offset - start) // texel_bytes)

    def _too_long(self, texels: int) -> str:
        if texels <= self.max_texels:
            return ""
        return f"an image of {texels} texels exceeds the limit of {self.max_texels}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRange:
    """Range of a buffer that an image covers.

    Attributes:
        start: its first byte.
        texels: its length.
        first: the index of the value's first texel.
    """

    start: int
    texels: int
    first: int
