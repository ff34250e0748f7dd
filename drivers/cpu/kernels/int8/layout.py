"""Memory layout of a block of inputs while it is multiplied."""

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import is_zero
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.int8.scheme import Scheme

#: Pixels at this distance compete for the same few lines of the first-level cache.
ALIASED_BYTES = 1024


class BlockLayout(Struct, frozen=True, kw_only=True):
    """Input rows in a scheme's form, as many as some output rows need.

    If windows are single pixels some distance apart, these are gathered and treated as rows.

    Attributes:
        scheme: multiplication scheme.
        type: the type of the input's elements.
        rows, columns: movement of windows over an image.
        channels: elements per input pixel.
        repeat: how often each element is repeated when packed.
        pixel_elements: stride of packed pixels.
        row_elements: stride of packed rows.
        is_direct: True if inputs are read in place, without packing.
        unit: output rows computed at a time.
        block: maximum number of output rows whose inputs are packed at a time.
        gathered: movement of single-pixel windows over the image; None if all pixels are packed.
    """

    scheme: Scheme
    type: Scalar
    rows: WindowDimension
    columns: WindowDimension
    channels: int
    repeat: int = 1
    pixel_elements: int
    row_elements: int
    is_direct: bool
    unit: int
    block: int
    gathered: tuple[WindowDimension, WindowDimension] | None = None

    @property
    def pixel_bytes(self) -> int:
        """Stride of pixels in bytes."""
        return self.pixel_elements * self.scheme.element_bytes

    @property
    def row_bytes(self) -> int:
        """Stride of rows in bytes."""
        return self.row_elements * self.scheme.element_bytes

    @property
    def taps(self) -> int:
        """Number of rows that an output row spans."""
        return (self.rows.taps - 1) * self.rows.dilation + 1

    @property
    def is_dense(self) -> bool:
        """True if packed rows are exactly the image's rows, without gaps."""
        is_row_dense = self.row_elements == self.columns.length * self.channels and self.repeat == 1
        return is_row_dense and self.rows.is_inside and is_zero(self.columns.padding_before)

    @property
    def packed_bytes(self) -> int:
        """Size of a packed block, including accesses beyond its end."""
        if self.is_direct:
            return 0
        rows = (self.block - 1) * self.rows.stride + self.taps
        spare = 2 * self.scheme.target.vector_bytes
        return -(-(rows * self.row_bytes + spare) // 64) * 64


def padded_width(columns: WindowDimension) -> int:
    """Returns the width of an input row including the padding that windows read."""
    seen = (columns.positions - 1) * columns.stride + (columns.taps - 1) * columns.dilation + 1
    return max(seen, columns.padding_before + columns.length)
