"""How large the part of a product is that is kept in registers."""

from collections.abc import Iterator
from dataclasses import dataclass

from neurald.drivers.cpu.kernels.product import Product
from neurald.drivers.cpu.kernels.window import runs
from neurald.drivers.cpu.target import Target

#: What processors with wide vectors run at while they use them, roughly: for estimates.
CYCLES_PER_NS = 2.2
#: What a tile costs beside its products, and what each of its vectors does.
_TILE_CYCLES, _STORE_CYCLES = 30, 2.5
#: What the second cache gives: weights come from there.
_CACHE_BYTES_PER_CYCLE = 32
#: Rows of a window up to which a tile may lie at a border with several rows of its own.
_MAX_ROW_TAPS = 3
#: More vectors of weights side by side do not help anybody.
_MAX_VECTORS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A part of the output that is computed at once: `places` × `vectors` registers of `lanes` channels.

    Where the channels of a panel do not fill its vectors, vectors overlap, and what they share is computed twice.

    Attributes:
        lanes: channels in a vector; never more than there are.
        vectors: of a panel.
        places: positions, at most.
        panels: how many there are.
        cycles: what the whole product takes, estimated.
    """

    lanes: int
    vectors: int
    places: int
    panels: int
    cycles: float

    @property
    def width(self) -> int:
        """Channels of a panel, counting twice what overlaps."""
        return self.lanes * self.vectors

    def offsets(self, channels: int) -> tuple[int, ...]:
        """Where each vector of a panel begins, in channels."""
        last = channels if self.panels == 1 else self.width
        return tuple(min(each * self.lanes, last - self.lanes) for each in range(self.vectors))

    def start(self, panel: int, channels: int) -> int:
        """The first channel of a panel."""
        return max(0, min(panel * self.width, channels - self.width))


def lanes_for(channels: int, target: Target) -> int:
    """The channels of a vector, a power of 2 that is not more than there are."""
    return min(target.lanes(4), 1 << (channels.bit_length() - 1))


def choose_tile(product: Product, target: Target) -> Tile:
    """The tile that promises most, for a product that is not empty."""
    return min(_tiles(product, target), key=lambda tile: tile.cycles)


def _tiles(product: Product, target: Target) -> Iterator[Tile]:
    lanes = lanes_for(product.channels, target)
    needed = -(-product.channels // lanes)
    # One for what is broadcast, and one for a product that is yet to be added.
    registers = target.registers - (1 if target.has_fma else 2)
    for vectors in range(1, min(needed, _MAX_VECTORS) + 1):
        places = min(registers // vectors - 1, product.columns.places * product.rows.places)
        if places < 1:
            continue
        panels = -(-needed // vectors)
        cycles = panels * _panel_cycles(product, target, vectors, places)
        yield Tile(lanes=lanes, vectors=vectors, places=places, panels=panels, cycles=cycles)


def _panel_cycles(product: Product, target: Target, vectors: int, places: int) -> float:
    rows = rows_of_tile(product, places)
    if rows == 1:
        tiles = [(run.length, run.count * product.rows.places) for run in runs(product.columns, places)]
    else:
        across = product.columns.places
        tiles = [(run.length * across, run.count) for run in runs(product.rows, rows)]
    parts = product.images
    for part in product.parts:
        parts *= part.extent
    each_product = 0.5 if target.has_fma else 1.0
    cycles = 0.0
    for length, count in tiles:
        step = max(
            length * vectors * each_product,
            (length + vectors) / 2,
            vectors * target.vector_bytes / _CACHE_BYTES_PER_CYCLE,
        )
        cycles += count * (product.terms * step + _TILE_CYCLES + length * vectors * _STORE_CYCLES)
    return parts * cycles


def rows_of_tile(product: Product, places: int) -> int:
    """How many rows of the output a tile of so many places has: more than one where they are short.

    Rows of a tile that meet the borders need instructions of their own, so that there must not be too many taps.
    """
    rows = product.rows
    if rows.places == 1 or (rows.taps > _MAX_ROW_TAPS and not rows.is_inside):
        return 1
    return max(1, min(places // product.columns.places, product.rows.places))
