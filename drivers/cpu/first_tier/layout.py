"""Layouts that kernels of the first tier and the data that is prepared for them have in common."""

from typing import Final

from msgspec import Struct

from neurald.drivers.cpu.target.target import Target

#: Elements of a work item of kernels that process elements one by one.
BLOCK: Final = 4096
#: Parameters of requantisation for each channel, apart from the mantissa: what is added, and what
#: is added to numbers below zero, before the shift.
SCALES: Final = 3
#: Dimensions of a nest of loops over elements; see `neurald.drivers.cpu.first_tier.binding.nest`.
NEST: Final = 6
#: Offsets of a batch of products, in elements: of its input, weights, output, parameters, and rows.
BATCH_WORDS: Final = 5


#: Bits by which kernels shift 16-bit addends to the left.
SHORT_SHIFT: Final = 15


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

    @property
    def width(self) -> int:
        """Number of channels of a tile."""
        return self.lanes * self.vectors

    @property
    def panel_width(self) -> int:
        """Number of channels of a tile with one position."""
        return self.lanes * self.panel_vectors


def tiles_of(target: Target) -> Tiles:
    """Returns the sizes for a target."""
    many = 32
    return Tiles(lanes=target.lanes(4), rows=8 if target.registers >= many else 4)
