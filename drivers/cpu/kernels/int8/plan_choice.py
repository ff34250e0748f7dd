"""Choice of the fastest division of a quantised product, by estimate."""

import math

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, is_zero, surely_lowest
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.tile_registers import TILE_ROWS
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.int8.layout import ALIASED_BYTES, BlockLayout, padded_width
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.product_time import (
    POSITION_TILES,
    estimated_cycles,
    even_units,
    max_pixels,
    tile_words,
    units_of,
)
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
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
#: Rows of a unit if an open number of rows is small. An open length is never less.
_FEW_ROWS = 2


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
        is_direct = is_direct and run // scheme.group % tile_words(run, scheme) == 0
    if not is_direct and columns.taps == 1 and pixel * scheme.element_bytes % ALIASED_BYTES == 0:
        pixel += 64 // scheme.element_bytes
    row = pixel * (columns.length if is_direct else padded_width(columns))
    pitch = _pitch(rows, columns, row, pixel) if scheme.has_tiles else width
    vectors = min(
        range(1, min(most_vectors or _most_vectors(scheme), -(-product.channels // scheme.lanes)) + 1),
        key=lambda count: estimated_cycles(
            product, scheme, count, (_typical(height, scheme), _typical(width, scheme), estimate(pitch))
        ),
    )
    panels = -(-product.channels // (vectors * scheme.lanes))
    unit, units = units_of(scheme, vectors, (height, width, pitch))
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
    whole = math.lcm(*(max_pixels(scheme, vectors) for vectors in POSITION_TILES))
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
    unit, units = even_units(plan.height, 1 + plan.most_pixels * 2 // 3 // plan.pitch)
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
        return len(POSITION_TILES)
    return _MAX_MATRIX_VECTORS if scheme.has_matrices else _MAX_VECTORS
