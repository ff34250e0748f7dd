"""Division of a relaxed FLOAT32 product that is computed from bfloat16 parts with tile registers.

Positions are divided into units: rows of the output, or, where windows are single pixels, single
positions, which are treated as rows. The parts of a block of units are written to scratch memory.
"""

import math

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.tile_registers import TILE_ROWS, TILE_WORDS
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.hal.records import replace

#: Number of bfloat16 parts of a number.
PARTS = 2
HALF_BYTES, WORD_BYTES = 2, 4
#: Elements of a part in a row of a tile.
TILE_TERMS = TILE_WORDS * WORD_BYTES // HALF_BYTES
#: Channels of a tile of weights, and tiles of positions and of weights that are multiplied
#: together.
LANES, MAX_POSITION_TILES, MAX_VECTORS = 16, 2, 2
#: Fewer words in the rows of tiles leave most of a multiplication unused.
_MIN_TILE_WORDS = 8
#: Fewer positions do not pay for reading weights in parts.
_MIN_POSITIONS = 17
#: Maximum size of a block's parts, which stay in the second-level cache beside a panel of weights.
_MAX_BLOCK_BYTES = 512 << 10
#: Limit on packed weights, which are as large as the originals.
_MAX_WEIGHT_BYTES = 256 << 20
#: Pixels at this distance compete for the same few lines of the first-level cache.
_ALIASED_BYTES = 1024
_LINE_BYTES = 64
#: Units or panels are divided until there are this many work items for threads.
_MIN_WORK_ITEMS = 96
#: The products of parts that contribute to a result: the part of an input, and of a weight.
#: Neighbours share operands.
PRODUCTS = ((0, 0), (0, 1), (1, 0))
#: Cycles of a multiplication of tiles, which takes 16 alone and over 50 while a thread on what
#: seems to be the same core loads tiles, too; of a group of tiles besides; of storing a vector of
#: results; and of dividing an element of the input into parts.
_PRODUCT_CYCLES, _GROUP_CYCLES, _STORE_CYCLES, _PART_CYCLES = 24.0, 120.0, 4.0, 0.4
#: Bytes per cycle of weights that do not stay in the second-level cache.
_MAX_RESIDENT_BYTES, _WEIGHT_BYTES_PER_CYCLE = 1 << 20, 5.0


class SplitPlan(Struct, frozen=True, kw_only=True):
    """Division of a product.

    Attributes:
        product: the product.
        images, height, width: number of images, height and width of the output; where windows are
            single pixels, all positions are the height of one image.
        rows, columns: movement of windows over rows and columns of an image.
        gathered: movement of single-pixel windows over the image, if these are not adjacent.
        pixel: distance of pixels in a part, in elements.
        row_pixels: number of pixels of a row in a part, with its padding.
        vectors: tiles of weights per panel; the last one may overlap the one before.
        panels: number of panels; the last one may overlap the one before.
        unit: rows of the output per unit; the last unit may overlap the one before.
        block: maximum number of units whose parts are kept.
    """

    product: WindowedProduct
    images: int
    height: int
    width: int
    rows: WindowDimension
    columns: WindowDimension
    gathered: tuple[WindowDimension, WindowDimension] | None
    pixel: int
    row_pixels: int
    vectors: int
    panels: int
    unit: int
    block: int

    # Positions.

    @property
    def units(self) -> int:
        """Number of units per image."""
        return -(-self.height // self.unit)

    @property
    def pitch(self) -> int:
        """Distance of rows of the output, in positions."""
        return self.row_pixels // self.columns.stride

    @property
    def row_tiles(self) -> int:
        """Number of groups of tiles in a unit; of several only if it is one row."""
        return -(-self.width // (MAX_POSITION_TILES * TILE_ROWS))

    @property
    def pixels(self) -> int:
        """Number of positions of a row in a group of tiles."""
        return -(-self.width // self.row_tiles)

    @property
    def span(self) -> int:
        """Number of positions of a group of tiles, including those between its rows."""
        return (self.unit - 1) * self.pitch + self.pixels

    @property
    def position_tiles(self) -> int:
        """Number of tiles of positions in a group."""
        return -(-self.span // TILE_ROWS)

    @property
    def tile_rows(self) -> int:
        """Number of positions of a tile."""
        return -(-self.span // self.position_tiles)

    @property
    def first_positions(self) -> tuple[int, ...]:
        """The first position in each tile of a group; the last one may overlap the one before."""
        last = self.span - self.tile_rows
        return tuple(min(each * self.tile_rows, last) for each in range(self.position_tiles))

    def first_row(self, unit: int) -> int:
        """Returns the first row of a unit."""
        return min(unit * self.unit, self.height - self.unit)

    # Channels.

    @property
    def width_of_panel(self) -> int:
        """Number of channels of a panel."""
        return min(self.vectors * LANES, self.product.channels)

    def offsets(self) -> tuple[int, ...]:
        """Returns the first channel of each vector of a panel."""
        return tuple(min(each * LANES, self.width_of_panel - LANES) for each in range(self.vectors))

    def start(self, panel: int) -> int:
        """Returns the first channel of a panel."""
        return min(panel * self.width_of_panel, self.product.channels - self.width_of_panel)

    @property
    def divisions(self) -> int:
        """Number of parts of a unit's panels that are work items."""
        return max(1, min(self.panels, -(-_MIN_WORK_ITEMS // (self.images * self.units))))

    # Windows.

    @property
    def is_merged(self) -> bool:
        """True if the pixels of a window's row are contiguous."""
        return self.pixel == self.product.depth and self.columns.dilation == 1

    @property
    def runs(self) -> int:
        """Number of contiguous runs in a row of a window."""
        return 1 if self.is_merged else self.columns.taps

    @property
    def run(self) -> int:
        """Number of elements per run."""
        return self.product.depth * (self.columns.taps if self.is_merged else 1)

    @property
    def words(self) -> int:
        """Words per row of a tile of inputs, such that tiles have no terms beyond a run."""
        return _tile_words(self.run)

    @property
    def steps(self) -> int:
        """Number of tiles of a run."""
        return self.run // (self.words * WORD_BYTES // HALF_BYTES)

    @property
    def chunks(self) -> int:
        """Number of tiles of a window."""
        return self.rows.taps * self.runs * self.steps

    @property
    def is_paired(self) -> bool:
        """True if words have elements half a tile apart, instead of neighbours."""
        return self.product.depth % TILE_TERMS == 0

    # Memory.

    @property
    def panel_bytes(self) -> int:
        """Size of a panel of packed weights."""
        return self.chunks * PARTS * self.vectors * self.words * LANES * WORD_BYTES

    @property
    def row_bytes(self) -> int:
        """Size of a row of a part."""
        return self.row_pixels * self.pixel * HALF_BYTES

    @property
    def row_slots(self) -> int:
        """Rows of a block at the same distance from each other as those of neighbouring outputs.

        If windows are some rows apart, each of these has rows of its own.
        """
        rows = (self.block * self.unit - 1) * self.rows.stride + (self.rows.taps - 1) * self.rows.dilation + 1
        return -(-rows // self.rows.stride)

    @property
    def part_bytes(self) -> int:
        """Size of a part of a block, including writes beyond its end."""
        size = self.row_slots * self.rows.stride * self.row_bytes
        return -(-size // _LINE_BYTES) * _LINE_BYTES + 2 * _LINE_BYTES

    @property
    def cycles(self) -> float:
        """Estimated cycles."""
        groups = self.images * self.units * self.row_tiles * self.panels
        multiplied = len(PRODUCTS) * self.position_tiles * self.vectors * _PRODUCT_CYCLES
        # The sums of a single tile wait for each other.
        multiplied *= max(1.0, 3 / (self.position_tiles * self.vectors))
        stored = self.unit * self.pixels * self.vectors * _STORE_CYCLES
        cycles = groups * (self.chunks * multiplied + _GROUP_CYCLES + stored)
        weights = self.panels * self.panel_bytes
        if weights > _MAX_RESIDENT_BYTES:
            cycles += -(-self.units // self.block) * self.images * weights / _WEIGHT_BYTES_PER_CYCLE
        read = self.images * self.height * self.rows.stride * self.row_pixels * self.product.depth
        return cycles + read * _PART_CYCLES


def plan_of(product: WindowedProduct) -> SplitPlan | None:
    """Returns the plan of a product, or None if it has another form.

    Args:
        product: its output is not empty.
    """
    rows, columns, images = product.rows, product.columns, product.images
    lengths = (images, product.depth, product.channels, rows.length, columns.length, rows.positions)
    if has_extents((*lengths, columns.positions, rows.padding_before, columns.padding_before)):
        return None
    size = Scalar.FLOAT32.size_bytes
    if any(each.extent != 1 for each in product.batches) or product.type is not Scalar.FLOAT32:
        return None
    if product.element_bytes != size or product.pixel_bytes != product.depth * size:
        return None
    if product.positions < _MIN_POSITIONS or product.channels < LANES:
        return None
    gathered = None
    if rows.taps == columns.taps == 1 and rows.is_inside and columns.is_inside:
        if not rows.padding_before == columns.padding_before == 0:
            return None
        if (rows.positions, columns.positions) != (rows.length, columns.length):
            gathered = rows, columns
        positions = images * rows.positions * columns.positions
        images, rows, columns = (
            1,
            WindowDimension(length=positions, positions=positions),
            WindowDimension(length=1, positions=1),
        )
    pixel, width = product.depth, columns.positions
    if pixel * HALF_BYTES % _ALIASED_BYTES == 0:
        pixel += _LINE_BYTES // HALF_BYTES
    seen = (width - 1) * columns.stride + (columns.taps - 1) * columns.dilation + 1
    row_pixels = max(seen, columns.padding_before + columns.length)
    row_pixels = -(-row_pixels // columns.stride) * columns.stride
    vectors = min(MAX_VECTORS, -(-product.channels // LANES))
    plan = SplitPlan(
        product=product,
        images=images,
        height=rows.positions,
        width=width,
        rows=rows,
        columns=columns,
        gathered=gathered,
        pixel=pixel,
        row_pixels=row_pixels,
        vectors=vectors,
        panels=-(-product.channels // (vectors * LANES)),
        unit=1,
        block=1,
    )
    if plan.run % 2 or plan.words < _MIN_TILE_WORDS:
        return None
    most = max(1, (MAX_POSITION_TILES * TILE_ROWS - width) // plan.pitch + 1)
    plan = replace(plan, unit=-(-plan.height // -(-plan.height // most)))
    unit_bytes = PARTS * plan.unit * plan.rows.stride * plan.row_bytes
    plan = replace(plan, block=max(1, min(plan.units, _MAX_BLOCK_BYTES // unit_bytes)))
    if plan.panels * plan.panel_bytes > _MAX_WEIGHT_BYTES or PARTS * plan.part_bytes > 4 * _MAX_BLOCK_BYTES:
        return None
    return plan


def _tile_words(run: int) -> int:
    """Returns the largest number of words of a tile's row that divides those of a run."""
    words = run * HALF_BYTES // WORD_BYTES
    return max((each for each in range(1, TILE_WORDS + 1) if words % each == 0), default=0) if words else 0


def rounded(size: int) -> int:
    """Rounds a size up to whole lines of the cache."""
    return math.ceil(size / _LINE_BYTES) * _LINE_BYTES
