"""Division of a quantised product: vectors, tiles, panels, units of rows, and blocks of units."""

import math

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, has_extents
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.int8.layout import BlockLayout
from neurald.drivers.cpu.kernels.int8.product_time import (
    MAX_NEAR_WEIGHTS_BYTES,
    MAX_UNROLLED_POSITIONS,
    POSITION_TILES,
    estimated_cycles,
    tile_words,
    tiles_of,
)
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.kernels.int8.tap_sets import TapSets, tap_sets
from neurald.hal.records import replace

#: Number of products per unrolled loop body: more make code large, and weights of several steps
#: leave too few registers for sums.
_MAX_UNROLLED_PRODUCTS = 30
#: Maximum number of terms for which sums of 16 · 255 · 8 fit in 32 bits.
_MAX_NIBBLE_TERMS = 1 << 16
#: Share of the taps that tiles multiply at most where they leave out others that only read padding.
_MAX_SHARE_ON_IMAGE = 0.95


class ProductPlan(Struct, frozen=True, kw_only=True):
    """Division of a product.

    A unit is `rows` output rows of one image. It is computed in tiles of `pixels` positions: parts
    of its only row, or all of it at once. There are no partial units, tiles or panels: the last one
    starts earlier to have full size. If lengths are open, tile registers have as many rows as units
    and tiles need, which are extents then; without tile registers, the plan is ragged.

    If windows are single pixels, every position is treated as a row of a single image. Positions
    are contiguous, or gathered when packed.

    Attributes:
        product: the product.
        scheme: multiplication scheme.
        images, height, width: number of images, height and width of the output.
        vectors: number of vectors per panel; if channels do not fill them, vectors or panels
            overlap.
        panels: number of panels per group.
        rows: number of rows per unit.
        units: number of units per image.
        block: units computed at a time.
        layout: the layout of their inputs.
        shares_panels: True if work items are panels; else they are units.
        most_pixels: maximum number of positions per tile; tiles of rows of open length have as
            many.
        pitch: positions from a row to the next one of a unit, at the distance of neighbouring
            positions; the width, unless the scheme has tiles.
        has_nibbles: True if weights of 4 bits are packed in pairs: bytes have those of a step in
            their low bits, and those of the next one in their high bits.
        skips_taps: True if panels tell which taps of their windows are the first with weights, as
            those of transposed convolutions do, whose strides do not divide their windows.
        taps: the taps that tiles multiply if they leave out some that only read padding.
    """

    product: WindowedProduct
    scheme: Scheme
    images: int
    height: int
    width: int
    vectors: int
    panels: int
    rows: int
    units: int
    block: int
    layout: BlockLayout
    shares_panels: bool
    pitch: int
    most_pixels: int
    has_nibbles: bool = False
    skips_taps: bool = False
    taps: TapSets | None = None

    @property
    def groups(self) -> int:
        """Number of groups."""
        return math.prod(each.extent for each in self.product.batches)

    @property
    def has_rows(self) -> bool:
        """True if a unit may have several rows, which are computed at once."""
        return isinstance(self.rows, Extent) or self.rows > 1

    @property
    def is_ragged(self) -> bool:
        """True if the last unit or tile is shorter than the others, since lengths are open."""
        is_open = isinstance(self.width, Extent) or (isinstance(self.height, Extent) and self.width == 1)
        return is_open and not self.scheme.has_tiles

    def shortened(self, length: int) -> "ProductPlan":
        """Returns the plan of a ragged plan's tiles with this many positions."""
        if isinstance(self.width, Extent):
            return replace(self, most_pixels=length)
        return replace(self, rows=length)

    @property
    def pixels(self) -> int:
        """Number of positions per tile."""
        if self.has_rows:
            return self.rows * self.width
        if isinstance(self.width, Extent) and not self.scheme.has_tiles:
            return self.most_pixels
        return -(-self.width // self.row_tiles)

    @property
    def row_tiles(self) -> int:
        """Number of tiles of a unit with one row."""
        return -(-self.width // self.most_pixels)

    @property
    def work_items(self) -> int:
        """Number of independent work items."""
        return self.panels if self.shares_panels else self.images * self.units

    @property
    def lanes(self) -> int:
        """Number of stored channels per vector."""
        return min(self.scheme.lanes, self.product.channels)

    def start(self, panel: int, vector: int) -> int:
        """Returns the first channel of a vector in its group."""
        lanes, channels = self.scheme.lanes, self.product.channels
        if self.panels == 1:
            return min(vector * lanes, max(0, channels - lanes))
        width = self.vectors * lanes
        return min(panel * width, channels - width) + vector * lanes

    @property
    def cycles(self) -> float:
        """Estimated cycles."""
        return self.cycles_of(1.0)

    def cycles_of(self, share: float) -> float:
        """Returns the estimated cycles if this share of the products is computed."""
        sizes = estimate(self.height), estimate(self.width), estimate(self.pitch)
        image = estimated_cycles(self.product, self.scheme, self.vectors, sizes, share)
        return estimate(self.images) * self.groups * image

    @property
    def has_pairs(self) -> bool:
        """True if the channels of vector pairs are contiguous in every panel."""
        starts = [self.start(0, vector) for vector in range(self.vectors)]
        whole = self.vectors * self.scheme.lanes
        return not self.vectors % 2 and starts[-1] + self.scheme.lanes == whole

    # Windows.

    @property
    def is_merged(self) -> bool:
        """True if the taps of a window row are contiguous."""
        product = self.product
        return self.layout.pixel_elements == product.depth and product.columns.dilation == 1

    @property
    def runs(self) -> int:
        """Number of contiguous runs in a window row."""
        return 1 if self.is_merged else self.product.columns.taps

    @property
    def run(self) -> int:
        """Number of elements per run."""
        return self.product.depth * (self.product.columns.taps if self.is_merged else 1)

    @property
    def run_steps(self) -> int:
        """Number of words per run; the last ones are padded with weights of 0."""
        words = -(-self.run // self.scheme.group)
        return -(-words // self.tile_words) * self.tile_words if self.scheme.has_tiles else words

    @property
    def tile_words(self) -> int:
        """Number of words per row of a tile of inputs, such that the tiles of a run are equal."""
        return tile_words(self.run, self.scheme)

    @property
    def span(self) -> int:
        """Number of positions per tile, including those between the ends of its rows."""
        return (self.rows - 1) * self.pitch + self.width if self.has_rows else self.pixels

    @property
    def tile_rows(self) -> int:
        """Number of positions per tile register of inputs."""
        if isinstance(self.span, Extent):
            return -(-self.span // self.position_tiles)
        return tiles_of(*self._tile_shape)[1]

    @property
    def position_tiles(self) -> int:
        """Number of tile registers of inputs that are multiplied together."""
        if isinstance(self.span, Extent):
            return POSITION_TILES[self.vectors]
        return tiles_of(*self._tile_shape)[0]

    @property
    def first_positions(self) -> list[int]:
        """The first position in each tile register of inputs; some may overlap the ones before."""
        last, count = self.span - self.tile_rows, self.position_tiles
        if isinstance(last, Extent):
            return [-(-last * row // (count - 1)) if row else 0 for row in range(count)]
        rows, width, pitch = self._tile_shape
        step = pitch if (count, self.tile_rows) == (rows, width) else self.tile_rows
        return [min(row * step, last) for row in range(count)]

    @property
    def _tile_shape(self) -> tuple[int, int, int]:
        """Rows, positions of a row, and distance of rows; see `tiles_of`."""
        return (self.rows, self.width, self.pitch) if self.has_rows else (1, self.pixels, self.pixels)

    @property
    def steps(self) -> int:
        """Number of words per window."""
        return self.product.rows.taps * self.runs * self.run_steps

    @property
    def step_bytes(self) -> int:
        """Size of the weights of a step, unless several share a byte."""
        return self.vectors * self.scheme.lanes * self.scheme.word_bytes

    @property
    def weights_per_byte(self) -> int:
        """Number of weights that are packed to a byte."""
        return 2 if self.has_nibbles else 1

    @property
    def may_have_nibbles(self) -> bool:
        """True if weights of 4 bits may be packed in pairs, and memory decides about the time.

        The sums are those of weights times 16, which must fit in 32 bits.
        """
        sizes = self.images, self.units, self.width
        return (
            self.scheme.is_bytes
            and not self.scheme.has_tiles
            and not has_extents(sizes)
            and (self.images, self.units, self.row_tiles, self.product.rows.taps, self.runs) == (1,) * 5
            and self.pixels <= MAX_UNROLLED_POSITIONS
            and not self.steps % 2
            and self.product.terms <= _MAX_NIBBLE_TERMS
            and self.product.terms * self.product.channels * self.groups > MAX_NEAR_WEIGHTS_BYTES
        )

    @property
    def may_skip_taps(self) -> bool:
        """True if the first taps of windows can be skipped in panels where their weights are 0."""
        product = self.product
        return not self.scheme.has_tiles and product.rows.taps * product.columns.taps > 1

    def without_padding(self, padding: int) -> "ProductPlan":
        """Returns the plan whose tiles leave out taps that only read padding; this one if few do.

        Args:
            padding: the padding element.
        """
        rows, columns = self.product.rows, self.product.columns
        sizes = rows.length, rows.positions, columns.length, columns.positions
        if self.has_rows or self.scheme.has_tiles or self.skips_taps or has_extents(sizes):
            return self
        length, last = self.pixels, self.width - self.pixels
        firsts = [min(each * length, last) for each in range(self.row_tiles)]
        tiles = [range(first, first + length) for first in firsts]
        taps = tap_sets(rows, columns if self.runs > 1 else None, tiles, has_starts=padding != 0)
        is_less = taps.products() <= _MAX_SHARE_ON_IMAGE * rows.taps * self.runs
        return replace(self, taps=taps) if is_less else self

    @property
    def is_signed(self) -> bool:
        """True if signed bytes are multiplied in place, without making them unsigned."""
        return self.scheme.has_tiles and self.layout.is_direct and self.product.type is Scalar.INT8

    @property
    def spills_accumulators(self) -> bool:
        """True if the sums of a tile are spilled to memory."""
        return self.scheme.has_tiles or self.pixels > MAX_UNROLLED_POSITIONS

    @property
    def unrolled(self) -> int:
        """Number of steps per loop iteration."""
        if self.scheme.has_matrices:
            return 1
        most = _MAX_UNROLLED_PRODUCTS // (estimate(self.pixels) * self.vectors)
        return max(1, min(self.run_steps, most, 8))

    @property
    def positions(self) -> int:
        """Number of positions per block."""
        return self.block * self.rows * self.width
