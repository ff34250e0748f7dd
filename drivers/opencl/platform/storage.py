"""How kernels read what they do not write: from buffers, or through images where a device's cache of textures makes that faster.

Memory is the same either way: two buffers, see `neurald.drivers.compiler.memory.buffer_assignment`. An image is another view of a range of one of
them, without a copy (`image1d_buffer_t`), whose texels are four elements that follow one another. What is written is written to the
buffer, and found by the kernels that come later in the queue. So it is decided anew for each argument of each kernel whether
it is an image: those that a kernel reads four elements at a time may be, unless a limit of the device forbids it.
"""

from dataclasses import dataclass
from enum import Enum

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.settings import Settings
from neurald.hal.errors import UnavailableDevice

#: Says how kernels read, whatever the device: buffer or image.
STORAGE_VARIABLE = "NEURALD_OPENCL_STORAGE"

#: Elements of a texel.
TEXEL = 4
#: In the names of GPUs whose kernels read images: those for which TFLite's GPU delegate chooses textures. Others (Intel's, AMD's,
#: NVIDIA's) cache what is read from buffers just as well, and processors have no textures at all.
_WITH_TEXTURES = ("adreno", "qualcomm", "mali", "powervr", "imagination")


class Storage(Enum):
    """How kernels read."""

    BUFFER = "buffer"
    IMAGE = "image"


def storage_of(name: str, vendor: str, settings: Settings, *, is_gpu: bool) -> Storage:
    """What kernels of a device read; NEURALD_OPENCL_STORAGE goes before what suits it.

    Args:
        name, vendor: as OpenCL tells them.
        settings: of the driver.
        is_gpu: whether it is one.

    Raises:
        UnavailableDevice: the variable says something else.
    """
    wanted = settings.choice(STORAGE_VARIABLE, Storage, UnavailableDevice)
    if wanted is not None:
        return wanted
    text = f"{name} {vendor}".lower()
    return Storage.IMAGE if is_gpu and any(each in text for each in _WITH_TEXTURES) else Storage.BUFFER


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Which images an open device has over its buffers.

    Attributes:
        types: of elements that there are images of.
        most_texels: of an image.
        most_arguments: images that a kernel may read.
        is_divided: whether there are images of parts of a buffer; else only of a whole one, from its first byte.
        alignment_bytes: what a part's first byte is a multiple of.
    """

    types: frozenset[Scalar]
    most_texels: int
    most_arguments: int
    is_divided: bool
    alignment_bytes: int

    def objection(self, value: Value) -> str:
        """Why a value cannot be read through an image; "" if it can."""
        if value.type not in self.types:
            return f"no images of {value.type.name}"
        if not value.count:
            return "no elements"
        # An image begins at an aligned byte, and a value that is a part of another one may begin later.
        before = -(-self.alignment_bytes // (TEXEL * value.type.size_bytes)) if self.is_divided else 0
        return self._too_long(-(-value.count // TEXEL) + before)

    def objection_to_whole(self, size_bytes: int, kind: Scalar) -> str:
        """Why there is no image of elements of a type over a whole buffer of so many bytes; "" if there is, or none is needed."""
        if self.is_divided:
            return ""
        return self._too_long(size_bytes // (TEXEL * kind.size_bytes))

    def range_of(self, offset: int, size_bytes: int, buffer_bytes: int, kind: Scalar) -> "Range":
        """What an image for a value is of.

        Args:
            offset: where in its buffer the value begins, in bytes; a multiple of those of a texel.
            size_bytes: of the value.
            buffer_bytes: of the buffer.
            kind: of its elements.
        """
        texel_bytes = TEXEL * kind.size_bytes
        start = offset // self.alignment_bytes * self.alignment_bytes if self.is_divided else 0
        end = offset + size_bytes if self.is_divided else buffer_bytes // texel_bytes * texel_bytes
        texels = -(-(end - start) // texel_bytes)
        return Range(start=start, texels=texels, first=(offset - start) // texel_bytes)

    def _too_long(self, texels: int) -> str:
        if texels <= self.most_texels:
            return ""
        return f"{texels} texels, images have {self.most_texels} at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A range of a buffer as an image.

    Attributes:
        start: its first byte.
        texels: how many it has.
        first: which of them is the first of the value.
    """

    start: int
    texels: int
    first: int
