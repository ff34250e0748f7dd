"""Layouts that kernels of the first tier and the data that is prepared for them have in common."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from neurald.drivers.cpu.target.target import Target

#: Elements of a work item of kernels that process elements one by one.
BLOCK: Final = 4096
#: Parameters of requantisation for each channel, apart from the mantissa: what is added, and what
#: is added to numbers below zero, before the shift.
SCALES: Final = 3
#: Dimensions of a nest of loops over elements; see `neurald.drivers.cpu.first_tier.binding.nest`.
NEST: Final = 6
#: Rows and columns of the tiles in which elements of a size are transposed, by that size.
TRANSPOSED: Final[Mapping[int, int]] = {1: 16, 2: 8, 4: 8}
#: Bytes of a line of a cache.
LINE_BYTES: Final = 64
#: Time of a product of a narrow tile, compared with that of an ordinary one.
_NARROW: Final = 1.5
#: Offsets of a batch of products, in elements: of its input, weights, output, parameters, and rows.
BATCH_WORDS: Final = 5


#: Bits by which kernels shift 16-bit addends to the left.
SHORT_SHIFT: Final = 15


#: Bits of the lower of the two digits of the mantissa by which bytes are multiplied.
LOW_DIGIT: Final = 11


class ByteOperand(NamedTuple):
    """Words of kernels about bytes.

    Attributes:
        flip: what bytes are XORed with, so that they are unsigned in the order of their values.
        zero_point: the zero point of these bytes.
    """

    flip: int
    zero_point: int


class ByteAddend(NamedTuple):
    """Words of kernels that rescale bytes by a mantissa of two digits.

    Attributes:
        high, low: the digits; `low` has `LOW_DIGIT` bits.
        high_addend, low_addend: what is added to products with these.
        below_zero: what is added to negative products with `high`.
        shift: of the sum in units of `high`.
        sign: 1 or -1, by which the result is multiplied.
    """

    high: int
    low: int
    high_addend: int
    low_addend: int
    below_zero: int
    shift: int
    sign: int


class NearSum(NamedTuple):
    """Words of kernels that compute sums of bytes with an error, in fixed-point numbers.

    Attributes:
        first, second: what bytes of the operands are multiplied by.
        addend: what is added to their sum, the largest error included.
        mask: those bits of the fraction of which one is set if the error does not matter.
        shift: bits of the fraction.
    """

    first: int
    second: int
    addend: int
    mask: int
    shift: int


class ProductForm(Struct, frozen=True, kw_only=True):
    """The part of a product that a kernel computes at a time.

    Attributes:
        name: a part of the kernel's name.
        rows: positions.
        vectors: vectors of channels.
    """

    name: str
    rows: int
    vectors: int


class Tiles(Struct, frozen=True, kw_only=True):
    """Sizes of register tiles for a target.

    Attributes:
        lanes: 32-bit elements of a vector.
        rows: positions of a tile.
        vectors: vectors of channels of a tile.
        panel_vectors: vectors of channels of a tile with one position.
    """

    lanes: int
    rows: int
    vectors: int = 2
    panel_vectors: int = 4

    def forms(self) -> tuple[ProductForm, ProductForm, ProductForm]:
        """Returns the forms of products: of one position, ordinary tiles, and few channels."""
        return (
            ProductForm(name="panels", rows=1, vectors=self.panel_vectors),
            ProductForm(name="tiles", rows=self.rows, vectors=self.vectors),
            ProductForm(name="narrow", rows=self.rows * self.vectors, vectors=1),
        )

    def form(self, positions: int, channels: int) -> ProductForm:
        """Returns the form that takes the least time."""
        panels, tiles, narrow = self.forms()
        if positions < self.rows // 2:
            return panels
        # A narrow tile loads more for each product.
        wide, slim = (self.padded(channels, each) for each in (tiles, narrow))
        return narrow if positions >= narrow.rows and slim * _NARROW < wide else tiles

    def padded(self, channels: int, form: ProductForm) -> int:
        """Returns the channels for which a kernel has weights."""
        width = self.lanes * form.vectors
        return -(-channels // width) * width


def tiles_of(target: Target) -> Tiles:
    """Returns the sizes for a target."""
    many = 32
    return Tiles(lanes=target.lanes(4), rows=8 if target.registers >= many else 4)
