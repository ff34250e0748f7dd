"""How a block of inputs lies in memory while it is multiplied."""

from dataclasses import dataclass

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.kernels.window import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Rows of the input as a scheme multiplies them, as many as some rows of the output need.

    Where windows are single pixels of an image, some way apart, these are picked out: they are seen as rows of their own.

    Attributes:
        scheme: how elements are multiplied.
        type: of the input's elements.
        rows, columns: how windows move over an image.
        channels: elements of a pixel of the input.
        repeat: how often each of them follows itself once they are packed.
        pixel_elements: how far packed pixels are apart.
        row_elements: how far packed rows are apart.
        is_direct: inputs are read where they are, and nothing is packed.
        unit: rows of the output that are computed at a time.
        block: rows of the output whose inputs are packed at a time, at most.
        picked: how windows that are single pixels move over the image; None: all pixels are packed.
    """

    scheme: Scheme
    type: Scalar
    rows: Side
    columns: Side
    channels: int
    repeat: int = 1
    pixel_elements: int
    row_elements: int
    is_direct: bool
    unit: int
    block: int
    picked: tuple[Side, Side] | None = None

    @property
    def pixel_bytes(self) -> int:
        """Between pixels."""
        return self.pixel_elements * self.scheme.element_bytes

    @property
    def row_bytes(self) -> int:
        """Between rows."""
        return self.row_elements * self.scheme.element_bytes

    @property
    def taps(self) -> int:
        """Rows from the first to the last one that a row of the output needs."""
        return (self.rows.taps - 1) * self.rows.dilation + 1

    @property
    def is_dense(self) -> bool:
        """Whether packed rows are nothing but the image's rows one after the other."""
        is_row_dense = self.row_elements == self.columns.length * self.channels and self.repeat == 1
        return is_row_dense and self.rows.is_inside and self.columns.before == 0

    @property
    def packed_bytes(self) -> int:
        """Of a block; what is read or written beyond it too."""
        if self.is_direct:
            return 0
        rows = (self.block - 1) * self.rows.stride + self.taps
        spare = 2 * self.scheme.target.vector_bytes
        return -(-(rows * self.row_bytes + spare) // 64) * 64


def seen_width(columns: Side) -> int:
    """Pixels of a row of the input with those beside it that windows see."""
    seen = (columns.places - 1) * columns.stride + (columns.taps - 1) * columns.dilation + 1
    return max(seen, columns.before + columns.length)
