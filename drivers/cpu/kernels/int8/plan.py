"""How a sum of products of quantised values is divided: vectors, tiles, panels, units of rows, and blocks of units."""

import math
from dataclasses import dataclass, replace

from neurald.drivers.cpu.kernels.int8.layout import Layout, seen_width
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.kernels.product import Product
from neurald.drivers.cpu.kernels.window import Side

#: A block of packed inputs stays within the second cache, or within the first where the weights are small as well.
_BLOCK_BYTES, _SMALL_BLOCK_BYTES, _SMALL_WEIGHTS_BYTES = 160 << 10, 12 << 10, 16 << 10
#: With fewer units than this, panels are shared among threads rather than units; so are they, unless they are fewer, where weights
#: are so much more than inputs: these are packed by every thread then, but no weight is read by two.
_FEW_UNITS, _HEAVY_WEIGHTS = 6, 4
#: More vectors of weights side by side do not help anybody.
_MAX_VECTORS = 8
#: Steps that are written one after the other, in products: more make code large, and weights of several steps in registers at
#: once leave too few for sums.
_UNROLLED = 30
#: What follows the sums of so few positions is written out, rather than kept in memory for a loop.
_FEW_POSITIONS = 3
#: What a tile costs beside its steps, if its sums are kept in memory and if not; and what each of its vectors does, in pairs
#: and alone.
_KEPT_CYCLES, _TILE_CYCLES, _PAIRED_CYCLES, _SINGLE_CYCLES = 40.0, 20.0, 3.6, 5.0
#: What a vector of weights takes at least, from the second cache; and what it and an input take beside products.
_WEIGHTS_CYCLES, _MORE_WEIGHTS_CYCLES, _MORE_INPUT_CYCLES = 1.3, 0.4, 0.1
#: A panel of so many bytes stays in the first cache beside few inputs and results; what its vectors take then.
_NEAR_BYTES, _MORE_NEAR_CYCLES = 18 << 10, 0.1
#: Pixels this far apart would fall on the same few lines of the first cache.
_BAD_STRIDE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a product is computed.

    Rows of the output are taken `rows` at a time: a unit, which lies within one image. A unit is computed in tiles of `pixels`
    positions: parts of its only row, or all of it at once. What is left over at an end is not computed by itself: the last
    unit, tile or panel begins so early that it is as large as the others.

    Where windows are single pixels, every position is seen as a row of its own, of one image: either these follow one another, or
    they are picked out when they are packed.

    Attributes:
        product: what is computed.
        scheme: how.
        images, height, width: of the output.
        vectors: of channels in a panel; where channels do not fill them, vectors or panels overlap.
        panels: of a group.
        rows: of a unit.
        block: units that are computed at a time.
        layout: of their inputs.
        shares_panels: whether grains are panels; else they are units.
    """

    product: Product
    scheme: Scheme
    images: int
    height: int
    width: int
    vectors: int
    panels: int
    rows: int
    block: int
    layout: Layout
    shares_panels: bool

    @property
    def groups(self) -> int:
        """Convolutions side by side."""
        return math.prod(part.extent for part in self.product.parts)

    @property
    def units(self) -> int:
        """Of an image."""
        return -(-self.height // self.rows)

    @property
    def pixels(self) -> int:
        """Positions of a tile."""
        return self.rows * self.width if self.rows > 1 else -(-self.width // self.row_tiles)

    @property
    def row_tiles(self) -> int:
        """Tiles of a unit of one row."""
        return -(-self.width // most_pixels(self.scheme, self.vectors))

    @property
    def grains(self) -> int:
        """Parts that do not depend on each other."""
        return self.panels if self.shares_panels else self.images * self.units

    @property
    def lanes(self) -> int:
        """Channels of a vector that are stored."""
        return min(self.scheme.lanes, self.product.channels)

    def start(self, panel: int, vector: int) -> int:
        """The first channel of a vector, counted in its group."""
        lanes, channels = self.scheme.lanes, self.product.channels
        if self.panels == 1:
            return min(vector * lanes, max(0, channels - lanes))
        width = self.vectors * lanes
        return min(panel * width, channels - width) + vector * lanes

    @property
    def cycles(self) -> float:
        """About what everything takes."""
        image = _cycles(self.product, self.scheme, self.vectors, self.height, self.width)
        return self.images * self.groups * image

    @property
    def has_pairs(self) -> bool:
        """Whether channels of two vectors follow one another in every panel, for all vectors."""
        starts = [self.start(0, vector) for vector in range(self.vectors)]
        whole = self.vectors * self.scheme.lanes
        return not self.vectors % 2 and starts[-1] + self.scheme.lanes == whole

    # Windows.

    @property
    def is_merged(self) -> bool:
        """Whether the taps of a row of the window follow one another without a gap."""
        product = self.product
        return self.layout.pixel_elements == product.depth and product.columns.dilation == 1

    @property
    def runs(self) -> int:
        """Runs of elements that follow one another, in a row of the window."""
        return 1 if self.is_merged else self.product.columns.taps

    @property
    def run(self) -> int:
        """Elements of a run."""
        return self.product.depth * (self.product.columns.taps if self.is_merged else 1)

    @property
    def run_steps(self) -> int:
        """Words of a run; the last one is filled up with weights of 0."""
        return -(-self.run // self.scheme.group)

    @property
    def steps(self) -> int:
        """Words of a window."""
        return self.product.rows.taps * self.runs * self.run_steps

    @property
    def keeps_totals(self) -> bool:
        """Whether the sums of a tile are kept in memory."""
        return self.pixels > _FEW_POSITIONS

    @property
    def unrolled(self) -> int:
        """Steps of a turn of a loop."""
        return max(1, min(self.run_steps, _UNROLLED // (self.pixels * self.vectors), 8))

    @property
    def positions(self) -> int:
        """Of a block."""
        return self.block * self.rows * self.width


def is_flat(product: Product) -> bool:
    """Whether windows are single pixels side by side."""
    sides = (product.rows, product.columns)
    return all(
        side.taps == side.stride == 1 and side.before == 0 and side.length == side.places for side in sides
    )


def _is_picked(product: Product) -> bool:
    """Whether windows are single pixels within images."""
    sides = (product.rows, product.columns)
    return all(side.taps == 1 and side.before == 0 and side.is_inside for side in sides)


def most_pixels(scheme: Scheme, vectors: int) -> int:
    """Positions of a tile for which there are registers."""
    return max(1, (scheme.target.registers - scheme.spare_registers) // vectors - 1)


def plan_of(product: Product, scheme: Scheme, *, is_direct: bool) -> Plan:
    """The plan that promises most.

    Args:
        product: is not empty; its parts are groups.
        scheme: of the target.
        is_direct: whether elements need not be changed before they are multiplied.
    """
    rows, columns, images, picked = product.rows, product.columns, product.images, None
    if not is_flat(product) and not is_direct and _is_picked(product):
        picked = rows, columns
    if is_flat(product) or picked:
        positions = images * rows.places * columns.places
        images, rows, columns = 1, Side(length=positions, places=positions), Side(length=1, places=1)
    if picked:
        product = replace(product, images=images, rows=rows, columns=columns)
    height, width = rows.places, columns.places
    groups = math.prod(part.extent for part in product.parts)
    channels = pixel = product.depth * groups
    run = product.depth * (columns.taps if groups == 1 and columns.dilation == 1 else 1)
    is_direct = is_direct and rows.is_inside and columns.is_inside and run % scheme.group == 0
    if not is_direct and columns.taps == 1 and pixel * scheme.element_bytes % _BAD_STRIDE == 0:
        pixel += 64 // scheme.element_bytes
    row = pixel * (columns.length if is_direct else seen_width(columns))
    vectors = min(
        range(1, min(_MAX_VECTORS, -(-product.channels // scheme.lanes)) + 1),
        key=lambda count: _cycles(product, scheme, count, height, width),
    )
    panels = -(-product.channels // (vectors * scheme.lanes))
    unit = _unit_rows(scheme, vectors, height, width)
    units = -(-height // unit)
    weights = product.terms / scheme.group * panels * vectors * scheme.target.vector_bytes
    budget = _SMALL_BLOCK_BYTES if weights <= _SMALL_WEIGHTS_BYTES else _BLOCK_BYTES
    inputs = images * rows.length * row * scheme.element_bytes
    is_heavy = weights > _HEAVY_WEIGHTS * inputs and panels >= _FEW_UNITS
    # Results are written beside inputs, channel by channel: they should not leave the cache half written.
    unit_bytes = unit * (rows.stride * row * scheme.element_bytes + width * product.channels * groups)
    block = max(1, min(units, budget // max(1, unit_bytes)))
    return Plan(
        product=product,
        scheme=scheme,
        images=images,
        height=height,
        width=width,
        vectors=vectors,
        panels=panels,
        rows=unit,
        block=block,
        layout=Layout(
            scheme=scheme,
            type=product.type,
            rows=rows,
            columns=columns,
            channels=channels,
            pixel_elements=pixel,
            row_elements=row,
            is_direct=is_direct,
            unit=unit,
            block=block * unit,
            picked=picked,
        ),
        shares_panels=groups == 1 and (is_heavy or panels > images * units < _FEW_UNITS),
    )


def _unit_rows(scheme: Scheme, vectors: int, height: int, width: int) -> int:
    """Rows of a unit, such that units are about equally high."""
    most = max(1, min(height, most_pixels(scheme, vectors) // width))
    return -(-height // -(-height // most))


def _cycles(product: Product, scheme: Scheme, vectors: int, height: int, width: int) -> float:
    """About what an image takes with so many vectors in a panel."""
    most = most_pixels(scheme, vectors)
    rows = _unit_rows(scheme, vectors, height, width)
    tiles = -(-height // rows) * (1 if rows > 1 else -(-width // most))
    pixels = rows * width if rows > 1 else -(-width // -(-width // most))
    panels = -(-product.channels // (vectors * scheme.lanes))
    words = product.terms / scheme.group
    is_kept = pixels > _FEW_POSITIONS
    panel = words * vectors * scheme.target.vector_bytes
    is_near = scheme.is_bytes and not is_kept and panel <= _NEAR_BYTES
    weights, least = (_MORE_NEAR_CYCLES, 0.0) if is_near else (_MORE_WEIGHTS_CYCLES, _WEIGHTS_CYCLES)
    step = max(
        pixels * (vectors * scheme.cycles + _MORE_INPUT_CYCLES) + vectors * weights,
        (pixels + vectors) / 2,
        vectors * least,
        # Sums that depend on each other.
        5 if scheme.is_bytes else 2,
    )
    store = _SINGLE_CYCLES if vectors % 2 else _PAIRED_CYCLES
    tile = _KEPT_CYCLES if is_kept else _TILE_CYCLES
    return panels * tiles * (words * step + tile + pixels * vectors * store)
