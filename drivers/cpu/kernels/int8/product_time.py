"""Tiles and units of a quantised product, by the registers of a target, and their time."""

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.tile_registers import TILE_ROWS, TILE_WORDS
from neurald.drivers.cpu.kernels.int8.scheme import Scheme

#: With at most this many positions the epilogue is unrolled, rather than looped over spilled sums.
MAX_UNROLLED_POSITIONS = 3
#: Tiles of positions, by the vectors of a panel: with those of weights and sums, and at least one
#: of inputs, they fill the eight tile registers.
POSITION_TILES = {1: 5, 2: 2, 3: 1}
#: Cycles per tile besides its steps, with spilled sums and without; and per vector, in pairs and
#: single.
_SPILLED_TILE_CYCLES, _TILE_CYCLES, _PAIRED_CYCLES, _SINGLE_CYCLES = 40.0, 20.0, 3.6, 5.0
#: Minimum cycles of a weight vector from the second-level cache; and the cycles of a weight vector
#: and an input besides products.
_WEIGHTS_CYCLES, _MORE_WEIGHTS_CYCLES, _MORE_INPUT_CYCLES = 1.3, 0.4, 0.1
#: Cycles of the words of a position, and of a register of weights, besides products of matrices.
_MATRIX_INPUT_CYCLES, _MATRIX_WEIGHTS_CYCLES = 0.25, 0.3
#: Cycles of a product of tiles, and of each row of inputs in it.
_TILE_PRODUCT_CYCLES, _TILE_ROW_CYCLES = 4.0, 0.75
#: Cycles of loading a tile from the first-level cache and from the second one, and the more that it
#: takes when it comes from memory; and the most that stays in the first-level cache.
_NEAR_TILE_CYCLES, _FAR_TILE_CYCLES, _MEMORY_TILE_CYCLES = 10.0, 20.0, 100.0
_MAX_NEAR_INPUT_BYTES, MAX_NEAR_WEIGHTS_BYTES = 44 << 10, 24 << 10
#: Cycles per group of tiles besides its products.
_TILE_GROUP_CYCLES = 60.0
#: Panels up to this size stay in the first-level cache beside few inputs and results; and the
#: cycles of a weight vector then.
_MAX_NEAR_PANEL_BYTES, _MORE_NEAR_CYCLES = 18 << 10, 0.1


def max_pixels(scheme: Scheme, vectors: int) -> int:
    """Returns the maximum number of positions per tile, by registers."""
    if scheme.has_tiles:
        return TILE_ROWS * POSITION_TILES[vectors]
    if scheme.has_matrices:
        # The sums of some positions, and the registers of their inputs.
        of_set = scheme.together * vectors + scheme.matrix_words
        sets = (scheme.target.registers - scheme.spare_registers) // of_set
        return scheme.together * max(1, sets)
    return max(1, (scheme.target.registers - scheme.spare_registers) // vectors - scheme.weights_registers)


def tile_words(run: int, scheme: Scheme) -> int:
    """Returns the words per row of tiles, such that all tiles of a run are equal."""
    words = -(-run // scheme.group)
    return -(-words // -(-words // TILE_WORDS))


def units_of(scheme: Scheme, vectors: int, sizes: tuple[int, int, int]) -> tuple[int, int]:
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
        if pitch and width <= TILE_ROWS and not isinstance(pitch, Extent):
            most = max(most, POSITION_TILES[vectors])
        return even_units(height, most)
    most = max(1, max_pixels(scheme, vectors) // width)
    if isinstance(height, Extent):
        # Fewer rows are computed with another plan, see `plan_of_small_images`.
        return most, -(-height // most)
    return even_units(height, min(height, most))


def tiles_of(rows: int, width: int, pitch: int) -> tuple[int, int]:
    """Returns how many tile registers the positions of several rows need, and the rows of each.

    They are a tile for each row if these are not more than those of all positions in a sequence,
    which include what is between the rows.

    Args:
        rows, width: number of rows, and positions in each.
        pitch: see `ProductPlan.pitch`.
    """
    span = (rows - 1) * pitch + width
    count = -(-span // TILE_ROWS)
    return (rows, width) if width <= TILE_ROWS and rows <= count else (count, -(-span // count))


def even_units(height: int, most: int) -> tuple[int, int]:
    """Returns the rows per unit, at most `most`, for units of similar heights; and their number."""
    units = -(-height // most)
    return -(-height // units), units


def estimated_cycles(
    product: WindowedProduct,
    scheme: Scheme,
    vectors: int,
    sizes: tuple[int, int, int],
    share: float = 1.0,
) -> float:
    """Returns the estimated cycles of an image; see `units_of` and `ProductPlan.cycles_of`."""
    height, width, pitch = sizes
    most = max_pixels(scheme, vectors)
    rows, _ = units_of(scheme, vectors, sizes)
    tiles = -(-height // rows) * (1 if rows > 1 else -(-width // most))
    pixels = rows * width if rows > 1 else -(-width // -(-width // most))
    panels = -(-product.channels // (vectors * scheme.lanes))
    words = product.terms / scheme.group
    if scheme.has_tiles:
        return panels * _panel_cycles(product, scheme, vectors, (tiles, rows, pixels // rows, pitch))
    is_kept = pixels > MAX_UNROLLED_POSITIONS
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


def _panel_cycles(
    product: WindowedProduct, scheme: Scheme, vectors: int, shape: tuple[int, int, int, int]
) -> float:
    """Returns the estimated cycles of a panel with tile registers.

    Args:
        product, scheme, vectors: see `estimated_cycles`.
        shape: number of tiles, rows and positions of a row of each, and `ProductPlan.pitch`.
    """
    tiles, rows, width, pitch = shape
    pixels = rows * width
    across, height = tiles_of(rows, width, pitch)
    run = product.depth * (product.columns.taps if product.is_contiguous else 1)
    groups = product.terms // run * -(-run // (scheme.group * TILE_WORDS))
    lines, columns = (
        (count - 1) * side.stride + (side.taps - 1) * side.dilation + 1
        for count, side in ((rows, product.rows), (width, product.columns))
    )
    inputs = estimate(lines * columns) * product.depth * scheme.element_bytes
    weights = product.terms * vectors * scheme.lanes * scheme.element_bytes
    load, load_weights = (
        _NEAR_TILE_CYCLES if size <= most else _FAR_TILE_CYCLES
        for size, most in ((inputs, _MAX_NEAR_INPUT_BYTES), (weights, MAX_NEAR_WEIGHTS_BYTES))
    )
    product_cycles = _TILE_PRODUCT_CYCLES + _TILE_ROW_CYCLES * height
    step = max(across * vectors * product_cycles, across * load + vectors * load_weights)
    store = _SINGLE_CYCLES if vectors % 2 else _PAIRED_CYCLES
    is_far = product.terms * product.channels * scheme.element_bytes > MAX_NEAR_WEIGHTS_BYTES
    first = groups * vectors * _MEMORY_TILE_CYCLES if is_far else 0.0
    return first + tiles * (groups * step + _TILE_GROUP_CYCLES + pixels * vectors * store)
