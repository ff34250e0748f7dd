"""Division of a quantised product: vectors, tiles, panels, units of rows, and blocks of units."""

import math

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, has_extents, is_zero, surely_lowest
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.tile_registers import TILE_ROWS, TILE_WORDS
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.int8.layout import BlockLayout, padded_width
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.kernels.int8.tap_sets import TapSets, tap_sets
from neurald.hal.records import replace

#: Limits on a block's packed inputs: they stay in the second-level cache, or in the first if
#: weights are small too.
_MAX_BLOCK_BYTES, _MAX_SMALL_BLOCK_BYTES, _MAX_SMALL_WEIGHTS_BYTES = 160 << 10, 12 << 10, 16 << 10
#: With fewer units than this, threads share panels instead of units. They also share panels if
#: weights exceed inputs by this factor, unless there are few panels: each thread then packs the
#: inputs, but each weight is read by one thread only.
_MIN_SHARED_UNITS, _MIN_WEIGHTS_RATIO = 6, 4
#: More vectors per panel bring no benefit; with more vectors of matrices, there are registers for
#: the sums of two positions only, for which all weights would be loaded.
_MAX_VECTORS, _MAX_MATRIX_VECTORS = 8, 4
#: Number of products per unrolled loop body: more make code large, and weights of several steps
#: leave too few registers for sums.
_MAX_UNROLLED_PRODUCTS = 30
#: With at most this many positions the epilogue is unrolled, rather than looped over spilled sums.
_MAX_UNROLLED_POSITIONS = 3
#: Maximum number of terms for which sums of 16 · 255 · 8 fit in 32 bits; and the size of weights of
#: one byte that stay in the first-level cache.
_MAX_NIBBLE_TERMS, _MAX_NEAR_WEIGHTS_BYTES = 1 << 16, 24 << 10
#: Rows of a unit if an open number of rows is small. An open length is never less.
_FEW_ROWS = 2
#: Cycles per tile besides its steps, with spilled sums and without; and per vector, in pairs and
#: single.
_SPILLED_TILE_CYCLES, _TILE_CYCLES, _PAIRED_CYCLES, _SINGLE_CYCLES = 40.0, 20.0, 3.6, 5.0
#: Minimum cycles of a weight vector from the second-level cache; and the cycles of a weight vector
#: and an input besides products.
_WEIGHTS_CYCLES, _MORE_WEIGHTS_CYCLES, _MORE_INPUT_CYCLES = 1.3, 0.4, 0.1
#: Cycles of the words of a position, and of a register of weights, besides products of matrices.
_MATRIX_INPUT_CYCLES, _MATRIX_WEIGHTS_CYCLES = 0.25, 0.3
#: Tiles of positions, by the vectors of a panel: with those of weights and sums they fill the eight
#: tile registers.
_POSITION_TILES = {1: 3, 2: 2, 3: 1}
#: Cycles of a product of tiles, and of loading a tile of inputs or weights.
_TILE_PRODUCT_CYCLES, _TILE_LOAD_CYCLES = 16.0, 10.0
#: Cycles per group of tiles besides its products.
_TILE_GROUP_CYCLES = 60.0
#: Panels up to this size stay in the first-level cache beside few inputs and results; and the
#: cycles of a weight vector then.
_MAX_NEAR_PANEL_BYTES, _MORE_NEAR_CYCLES = 18 << 10, 0.1
#: Share of the taps that tiles multiply at most where they leave out others that only read padding.
_MAX_SHARE_ON_IMAGE = 0.95
#: Pixels at this distance compete for the same few lines of the first-level cache.
ALIASED_BYTES = 1024


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
        image = _cycles(self.product, self.scheme, self.vectors, sizes, share)
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
        return _tile_words(self.run, self.scheme)

    @property
    def span(self) -> int:
        """Number of positions per tile, including those between the ends of its rows."""
        return (self.rows - 1) * self.pitch + self.width if self.has_rows else self.pixels

    @property
    def tile_rows(self) -> int:
        """Number of positions per tile register of inputs."""
        return -(-self.span // self.position_tiles)

    @property
    def position_tiles(self) -> int:
        """Number of tile registers of inputs that are multiplied together."""
        if isinstance(self.span, Extent):
            return _POSITION_TILES[self.vectors]
        return -(-self.span // TILE_ROWS)

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
            and self.pixels <= _MAX_UNROLLED_POSITIONS
            and not self.steps % 2
            and self.product.terms <= _MAX_NIBBLE_TERMS
            and self.product.terms * self.product.channels * self.groups > _MAX_NEAR_WEIGHTS_BYTES
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
        return self.scheme.has_tiles or self.pixels > _MAX_UNROLLED_POSITIONS

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


def is_flat(product: WindowedProduct) -> bool:
    """Returns True if windows are single adjacent pixels."""
    sides = (product.rows, product.columns)
    return all(
        side.taps == side.stride == 1 and side.padding_before == 0 and side.length == side.positions
        for side in sides
    )


def _is_gathered(product: WindowedProduct) -> bool:
    """Returns True if windows are single pixels inside images."""
    sides = (product.rows, product.columns)
    return all(side.taps == 1 and side.padding_before == 0 and side.is_inside for side in sides)


def max_pixels(scheme: Scheme, vectors: int) -> int:
    """Returns the maximum number of positions per tile, by registers."""
    if scheme.has_tiles:
        return TILE_ROWS * _POSITION_TILES[vectors]
    if scheme.has_matrices:
        # The sums of some positions, and the registers of their inputs.
        of_set = scheme.together * vectors + scheme.matrix_words
        sets = (scheme.target.registers - scheme.spare_registers) // of_set
        return scheme.together * max(1, sets)
    return max(1, (scheme.target.registers - scheme.spare_registers) // vectors - scheme.weights_registers)


def plan_of(
    product: WindowedProduct, scheme: Scheme, *, is_direct: bool, most_vectors: int | None = None
) -> ProductPlan:
    """Returns the fastest plan, by estimate.

    Args:
        product: is not empty; its batches are channel groups.
        scheme: multiplication scheme of the target.
        is_direct: True if elements need no conversion before they are multiplied.
        most_vectors: limit on the vectors of a panel; None for that of the scheme.
    """
    rows, columns, images, gathered = product.rows, product.columns, product.images, None
    if not is_flat(product) and not is_direct and _is_gathered(product):
        gathered = rows, columns
    if is_flat(product) or gathered:
        positions = images * rows.positions * columns.positions
        images, rows, columns = (
            1,
            WindowDimension(length=positions, positions=positions),
            WindowDimension(length=1, positions=1),
        )
    if gathered:
        product = replace(product, images=images, rows=rows, columns=columns)
    height, width = rows.positions, columns.positions
    groups = math.prod(each.extent for each in product.batches)
    channels = pixel = product.depth * groups
    run = product.depth * (columns.taps if groups == 1 and columns.dilation == 1 else 1)
    is_direct = is_direct and rows.is_inside and columns.is_inside and run % scheme.group == 0
    if scheme.has_tiles:
        # Tiles would read beyond the last pixel.
        is_direct = is_direct and run // scheme.group % _tile_words(run, scheme) == 0
    if not is_direct and columns.taps == 1 and pixel * scheme.element_bytes % ALIASED_BYTES == 0:
        pixel += 64 // scheme.element_bytes
    row = pixel * (columns.length if is_direct else padded_width(columns))
    pitch = _pitch(rows, columns, row, pixel) if scheme.has_tiles else width
    vectors = min(
        range(1, min(most_vectors or _most_vectors(scheme), -(-product.channels // scheme.lanes)) + 1),
        key=lambda count: _cycles(
            product, scheme, count, (_typical(height, scheme), _typical(width, scheme), estimate(pitch))
        ),
    )
    panels = -(-product.channels // (vectors * scheme.lanes))
    unit, units = _units(scheme, vectors, (height, width, pitch))
    weights = product.terms * scheme.element_bytes * panels * vectors * scheme.lanes
    budget = _MAX_SMALL_BLOCK_BYTES if weights <= _MAX_SMALL_WEIGHTS_BYTES else _MAX_BLOCK_BYTES
    inputs = estimate(images * rows.length * row * scheme.element_bytes)
    is_heavy = weights > _MIN_WEIGHTS_RATIO * inputs and panels >= _MIN_SHARED_UNITS
    # Results count too: partially written lines should not leave the cache.
    unit_bytes = unit * (rows.stride * row * scheme.element_bytes + width * product.channels * groups)
    block = max(1, min(estimate(units), budget // max(1, estimate(unit_bytes))))
    return ProductPlan(
        product=product,
        scheme=scheme,
        images=images,
        height=height,
        width=width,
        vectors=vectors,
        panels=panels,
        rows=unit,
        units=units,
        block=block,
        layout=BlockLayout(
            scheme=scheme,
            type=product.type,
            rows=rows,
            columns=columns,
            channels=channels,
            pixel_elements=pixel,
            row_elements=row,
            is_direct=is_direct,
            unit=1 if isinstance(unit, Extent) else unit,
            block=block * unit,
            gathered=gathered,
        ),
        shares_panels=groups == 1 and (is_heavy or panels > estimate(images * units) < _MIN_SHARED_UNITS),
        pitch=pitch,
        most_pixels=max_pixels(scheme, vectors),
    )


def _typical(length: int, scheme: Scheme) -> int:
    """Returns a length that decides for all lengths; of long ones, one for full tile registers."""
    known = estimate(length)
    if not isinstance(length, Extent) or not scheme.has_tiles or known <= TILE_ROWS:
        return known
    whole = math.lcm(*(max_pixels(scheme, vectors) for vectors in _POSITION_TILES))
    return -(-known // whole) * whole


def plan_of_small_images(plan: ProductPlan) -> tuple[int, int, ProductPlan] | None:
    """Returns the plan for images that are too small for the tiles of another plan.

    The packed weights are the same.

    Returns:
        An open length, the least one for which the other plan is right, and the plan for shorter
        ones; None if there are none.
    """
    height, width = plan.height, plan.width
    if plan.scheme.has_tiles:
        return _plan_of_narrow_images(plan) if isinstance(width, Extent) else None
    if plan.is_ragged or not isinstance(height, Extent) or surely_lowest(height) >= plan.rows:
        return None
    unit = min(plan.rows, _FEW_ROWS)
    block = plan.layout.block // unit
    layout = replace(plan.layout, unit=unit, block=block * unit)
    return height, plan.rows, replace(plan, rows=unit, units=-(-height // unit), block=block, layout=layout)


def _plan_of_narrow_images(plan: ProductPlan) -> tuple[int, int, ProductPlan] | None:
    """Returns the plan for several rows of an image at once; see `plan_of_small_images`.

    Two of their rows have at most as many positions as tile registers.
    """
    if not isinstance(plan.pitch, Extent):
        return None
    # A row is not longer than the pitch, so these are not too many for any pitch.
    unit, units = _even_units(plan.height, 1 + plan.most_pixels * 2 // 3 // plan.pitch)
    layout = replace(plan.layout, unit=1, block=plan.block * unit)
    narrow = replace(plan, rows=unit, units=units, layout=layout)
    return plan.pitch + plan.width, plan.most_pixels + 1, narrow


def _pitch(rows: WindowDimension, columns: WindowDimension, row: int, pixel: int) -> int:
    """Returns rows' distance, as a multiple of that of neighbouring positions; 0 if it is none.

    Args:
        rows, columns: movement of windows.
        row, pixel: strides of rows and pixels.
    """
    if columns.positions == 1:
        return 1
    pitch, rest = divmod(rows.stride * row, columns.stride * pixel)
    return pitch if is_zero(rest) else 0


def _most_vectors(scheme: Scheme) -> int:
    if scheme.has_tiles:
        return len(_POSITION_TILES)
    return _MAX_MATRIX_VECTORS if scheme.has_matrices else _MAX_VECTORS


def _tile_words(run: int, scheme: Scheme) -> int:
    """Returns the words per row of tiles, such that all tiles of a run are equal."""
    words = -(-run // scheme.group)
    return -(-words // -(-words // TILE_WORDS))


def _units(scheme: Scheme, vectors: int, sizes: tuple[int, int, int]) -> tuple[int, int]:
    """Returns the number of rows per unit, and the number of units.

    Args:
        scheme: multiplication scheme.
        vectors: number of vectors per panel.
        sizes: height and width of the output, and `ProductPlan.pitch`.
    """
    height, width, pitch = sizes
    if isinstance(width, Extent):
        return 1, height
    if scheme.has_tiles:
        most = max(1, (max_pixels(scheme, vectors) - width) // estimate(pitch) + 1) if pitch else 1
        return _even_units(height, most)
    most = max(1, max_pixels(scheme, vectors) // width)
    if isinstance(height, Extent):
        # Fewer rows are computed with another plan, see `plan_of_small_images`.
        return most, -(-height // most)
    return _even_units(height, min(height, most))


def _even_units(height: int, most: int) -> tuple[int, int]:
    """Returns the rows per unit, at most `most`, for units of similar heights; and their number."""
    units = -(-height // most)
    return -(-height // units), units


def _cycles(
    product: WindowedProduct,
    scheme: Scheme,
    vectors: int,
    sizes: tuple[int, int, int],
    share: float = 1.0,
) -> float:
    """Returns the estimated cycles of an image; see `_units` and `ProductPlan.cycles_of`."""
    height, width, pitch = sizes
    most = max_pixels(scheme, vectors)
    rows, _ = _units(scheme, vectors, sizes)
    tiles = -(-height // rows) * (1 if rows > 1 else -(-width // most))
    pixels = rows * width if rows > 1 else -(-width // -(-width // most))
    panels = -(-product.channels // (vectors * scheme.lanes))
    words = product.terms / scheme.group
    if scheme.has_tiles:
        span = (rows - 1) * pitch + width if rows > 1 else pixels
        across = -(-span // TILE_ROWS)
        run = product.depth * (product.columns.taps if product.is_contiguous else 1)
        groups = product.terms // run * -(-run // (scheme.group * TILE_WORDS))
        step = max(across * vectors * _TILE_PRODUCT_CYCLES, (across + vectors) * _TILE_LOAD_CYCLES)
        store = _SINGLE_CYCLES if vectors % 2 else _PAIRED_CYCLES
        return panels * tiles * (groups * step + _TILE_GROUP_CYCLES + pixels * vectors * store)
    is_kept = pixels > _MAX_UNROLLED_POSITIONS
    registers = vectors * scheme.word_registers
    if scheme.has_matrices:
        # The last position is multiplied twice if their number is odd; runs are filled with zeros.
        pixels = -(-pixels // scheme.together) * scheme.together
        run = product.depth * (product.columns.taps if product.is_contiguous else 1)
        words = product.terms // run * -(-run // scheme.group)
    panel = words * registers * scheme.target.vector_bytes
    is_near = scheme.is_bytes and not is_kept and panel <= _MAX_NEAR_PANEL_BYTES
    weights, least = (_MORE_NEAR_CYCLES, 0.0) if is_near else (_MORE_WEIGHTS_CYCLES, _WEIGHTS_CYCLES)
    more_input = _MORE_INPUT_CYCLES
    if scheme.has_matrices:
        more_input, weights = _MATRIX_INPUT_CYCLES * scheme.matrix_words, _MATRIX_WEIGHTS_CYCLES
        least = weights
    step = max(
        pixels * (vectors * scheme.cycles + more_input) + registers * weights,
        (pixels + registers) / 2,
        registers * least,
        # Latency of dependent sums.
        5 if scheme.is_bytes else 2,
    )
    store = _SINGLE_CYCLES if vectors % 2 else _PAIRED_CYCLES
    tile = _SPILLED_TILE_CYCLES if is_kept else _TILE_CYCLES
    return panels * tiles * (share * words * step + tile + pixels * vectors * store)
