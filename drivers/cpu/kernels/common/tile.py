"""Choice of the register tile of a product."""

from collections.abc import Iterator

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, is_one, may_change, surely_lowest
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.window import estimated, tile_runs
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Assumed clock of processors under wide vector load.
CYCLES_PER_NS = 2.2
#: Cycles per tile besides its products, and per stored vector.
_TILE_CYCLES, _STORE_CYCLES = 30, 2.5
#: Maximum number of products that are added up in float16: errors of so many random ones are at
#: most 2^-9 of the largest result. Then they are added to float32 sums, in some cycles per vector.
MAX_HALF_TERMS, _WIDENING_CYCLES = 64, 3.0
#: Registers for more inputs of float16, of which instructions only take some as factors.
_HALF_INPUT_REGISTERS = 3
#: Bandwidth of the second-level cache, which holds the weights.
_CACHE_BYTES_PER_CYCLE = 32
#: Maximum window height for border tiles with several rows.
_MAX_ROW_TAPS = 3
#: Vectors per panel of an open number of channels, of which there must be enough for one panel.
_MAX_OPEN_VECTORS = 2
#: Lanes of vectors of which some processors need two cycles where half a vector takes one, and
#: fewest positions of a product with halves.
_MIN_HALVED_LANES, _MIN_HALVED_POSITIONS = 16, 8
#: Fewest positions of a product with a shorter last panel: with less, reading weights takes longer
#: than multiplying them.
_MIN_SHORT_POSITIONS = 5
#: More vectors per panel bring no benefit.
_MAX_VECTORS = 8
#: Maximum number of vectors per panel of a product of one position with this many vectors, so that
#: there are enough panels for threads.
_MAX_SHARED_VECTORS, _MANY_VECTORS = 4, 32


class Tile(Struct, frozen=True, kw_only=True):
    """Part of the output computed at once: `positions` × `vectors` registers of `lanes` channels.

    If a panel's channels do not fill its vectors, vectors overlap and compute some channels twice.
    The last of several panels overlaps the one before; its first vectors may be left out then. A
    single vector may have more lanes than there are channels; those beyond compute nothing.

    Attributes:
        lanes: channels per vector.
        vectors: number of vectors per panel.
        positions: maximum number of positions.
        panels: number of panels.
        cycles: estimated for the whole product.
        left_out: number of vectors of the last panel that are not computed, since the panel before
            has their channels.
        is_half: True if products are added up in float16, in vectors of as many lanes.
        halves_last: True if at most half of the last vector's channels are not in the vector before
            it, so that sums of half a vector are enough.
    """

    lanes: int
    vectors: int
    positions: int
    panels: int
    cycles: float
    left_out: int = 0
    is_half: bool = False
    halves_last: bool = False

    @property
    def width(self) -> int:
        """Channels of a panel, with overlaps counted twice."""
        return self.lanes * self.vectors

    @property
    def own_vectors(self) -> float:
        """Vectors of sums of a position."""
        return self.vectors - 0.5 if self.halves_last else self.vectors

    def offsets(self, channels: int) -> tuple[int, ...]:
        """Returns the first channel of each vector, relative to the panel."""
        last = channels if is_one(self.panels) else self.width
        return tuple(max(0, min(each * self.lanes, last - self.lanes)) for each in range(self.vectors))

    def start(self, panel: int, channels: int) -> int:
        """Returns the first channel of a panel."""
        return max(0, min(panel * self.width, channels - self.width))


def lanes_for(channels: int, target: Target, kind: Scalar = Scalar.FLOAT32) -> int:
    """Returns the channels per vector: a power of 2, at most the number of channels."""
    lanes = target.lanes(kind.size_bytes)
    return lanes if channels >= lanes else 1 << (channels.bit_length() - 1)


def is_too_narrow(channels: int, target: Target) -> bool:
    """Returns True if tiles of a product would exclude lengths that it may have while a model runs.

    A list that grows begins with few elements, which do not fill a vector, such as the scores of an
    attention to them. Generic code takes any length. It is also used for open lengths if that of
    the example is as short, since there would be code for each number of lanes otherwise.
    """
    if not isinstance(channels, Extent) or surely_lowest(channels) >= target.lanes(4):
        return False
    return may_change(channels) or estimate(channels) < target.lanes(4)


def choose_tile(
    product: WindowedProduct, target: Target, *, is_packed: bool = False, is_half: bool = False
) -> Tile:
    """Returns the fastest tile for a non-empty product, by estimate.

    Args:
        product: the product to compute.
        target: the target of the code.
        is_packed: True if the weights are constant. A vector may then have more lanes than there
            are channels, and the last one of several may be a half.
        is_half: True if products are added up in float16.
    """
    tiles = _tiles(product, target, is_packed=is_packed, is_half=is_half)
    return min(tiles, key=lambda tile: tile.cycles)


def _tiles(product: WindowedProduct, target: Target, *, is_packed: bool, is_half: bool) -> Iterator[Tile]:
    kind = Scalar.FLOAT16 if is_half else Scalar.FLOAT32
    lanes = lanes_for(product.channels, target, kind)
    channels = product.channels
    needed = -(-estimate(channels) // lanes)
    # One register for the broadcast input, and without FMA one for a product.
    registers = target.registers - (1 if target.has_fma else 2)
    if is_half:
        registers -= _HALF_INPUT_REGISTERS
    most = _MAX_VECTORS
    if not isinstance(product.positions, Extent) and product.positions == 1 and needed >= _MANY_VECTORS:
        most = _MAX_SHARED_VECTORS
    choices = [(lanes, vectors) for vectors in range(1, min(needed, most) + 1)]
    whole = target.lanes(kind.size_bytes)
    if is_packed and not isinstance(channels, Extent) and lanes < channels < whole:
        choices.append((2 * lanes, 1))
    for lanes, vectors in choices:
        positions = registers // vectors - 1
        if not isinstance(product.columns.positions, Extent):
            positions = min(positions, product.columns.positions * product.rows.positions)
        if positions < 1:
            continue
        panels = -(-channels // (vectors * lanes))
        # The last panel overlaps the one before, so there must be enough channels for one.
        if isinstance(channels, Extent) and (vectors > _MAX_OPEN_VECTORS or not channels >= vectors * lanes):
            continue
        tile = Tile(
            lanes=lanes, vectors=vectors, positions=positions, panels=panels, cycles=0.0, is_half=is_half
        )
        tile = replace(
            tile,
            left_out=_left_out(product, tile) if is_packed else 0,
            halves_last=is_packed and _halves_last(product, target, tile),
        )
        cycles = estimate(panels) * _panel_cycles(product, target, tile)
        if tile.left_out:
            last = replace(tile, vectors=tile.vectors - tile.left_out)
            cycles -= _panel_cycles(product, target, tile) - _panel_cycles(product, target, last)
        yield replace(tile, cycles=cycles)


def _left_out(product: WindowedProduct, tile: Tile) -> int:
    """Returns how many vectors of the last panel of constant weights can be left out."""
    lengths = product.channels, product.positions, product.depth
    if tile.is_half or any(isinstance(each, Extent) for each in lengths) or tile.panels == 1:
        return 0
    if product.positions < _MIN_SHORT_POSITIONS:
        return 0
    rest = product.channels - (tile.panels - 1) * tile.width
    return tile.vectors - -(-rest // tile.lanes)


def _halves_last(product: WindowedProduct, target: Target, tile: Tile) -> bool:
    """Returns True if the last vector of a tile with constant weights can be a half."""
    if any(isinstance(each, Extent) for each in (product.channels, product.positions, product.depth)):
        return False
    rest = product.channels - (tile.vectors - 1) * tile.lanes
    return (
        tile.panels == 1
        and tile.vectors > 1
        and tile.lanes >= _MIN_HALVED_LANES
        and 0 < rest <= tile.lanes // 2
        and product.positions >= _MIN_HALVED_POSITIONS
        and product.weights.value.type is Scalar.FLOAT32
        and target.has_fma
    )


def _panel_cycles(product: WindowedProduct, target: Target, tile: Tile) -> float:
    vectors, positions = tile.vectors, tile.positions
    product = replace(product, rows=estimated(product.rows), columns=estimated(product.columns))
    rows = rows_of_tile(product, positions)
    if rows == 1:
        tiles = [
            (run.length, run.count * product.rows.positions) for run in tile_runs(product.columns, positions)
        ]
    else:
        across = product.columns.positions
        tiles = [(run.length * across, run.count) for run in tile_runs(product.rows, rows)]
    images = estimate(product.images)
    for dimension in product.batches:
        images *= estimate(dimension.extent)
    each_product = 0.5 if target.has_fma else 1.0
    cycles = 0.0
    for length, count in tiles:
        step = max(
            length * tile.own_vectors * each_product,
            (length + vectors) / 2,
            vectors * target.vector_bytes / _CACHE_BYTES_PER_CYCLE,
        )
        cycles += count * (estimate(product.terms) * step + _TILE_CYCLES + length * vectors * _STORE_CYCLES)
        if tile.is_half:
            widened = -(-estimate(product.terms) // MAX_HALF_TERMS)
            cycles += count * widened * length * vectors * _WIDENING_CYCLES
    return images * cycles


def rows_of_tile(product: WindowedProduct, positions: int) -> int:
    """Returns the number of output rows in a tile: more than one if rows are short.

    Border rows of a tile need their own instructions, so this is limited to small windows.
    """
    rows = product.rows
    if any(isinstance(each.positions, Extent) for each in (rows, product.columns)):
        return 1
    if rows.positions == 1 or (rows.taps > _MAX_ROW_TAPS and not rows.is_inside):
        return 1
    return max(1, min(positions // product.columns.positions, product.rows.positions))
