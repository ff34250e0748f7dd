"""Division of an attention: blocks of rows, tiles of both products, and scratch memory."""

import math

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Axis,
    Expression,
    Load,
    Reduce,
    load,
)
from neurald.drivers.compiler.ir.extents.extent import (
    MIN_LENGTH,
    Extent,
    estimate,
    has_extents,
    surely_lowest,
)
from neurald.drivers.compiler.ir.graph import Attention
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, rewrite, substitute, walk_through
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common.product import WeightOperand, WindowedProduct
from neurald.drivers.cpu.kernels.common.tile import Tile, choose_tile, is_too_narrow
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.row_wise.rows import RowWiseKernel, rows_along
from neurald.drivers.cpu.kernels.row_wise.tiny_weights import is_softmax, without_tiny_weights
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

FLOAT_BYTES = Scalar.FLOAT32.size_bytes
_LINE_BYTES = 64
#: Rows at multiples of this distance compete for few lines of the first-level cache.
_ALIASED_BYTES = 1024
#: With fewer blocks, packing a right operand that could be read in place takes longer than it
#: saves.
_MIN_PACKED_BLOCKS = 4
#: Packed operands above this size exceed the second-level cache by far, and threads have one each.
_MAX_PACKED_BYTES = 16 << 20
#: Rows of a block if an open number of rows is small. An open length is never less.
_FEW_ROWS = MIN_LENGTH
#: Weights below 2^-100 of the largest one cannot change a result, but their products with values
#: may be denormal.
_MIN_EXPONENT = -69.3


class Factor(Struct, frozen=True, kw_only=True):
    """The matrix of a batch that a product reads.

    Attributes:
        loaded: the load of an element.
        start: offset of the first element of a batch, in elements.
        outer, inner: strides in elements, along rows of the matrix and within a row. For the right
            operand of a product, rows are channels and elements of a row are terms.
    """

    loaded: Load
    start: Expression
    outer: int
    inner: int

    @property
    def value(self) -> Value:
        """The value that contains it."""
        return self.loaded.value


class BlockProduct(Struct, frozen=True, kw_only=True):
    """One of the two products, for a block of rows.

    Attributes:
        product: the product; its positions are the rows of a block.
        tile: size of register tiles.
        right: the right operand.
        is_packed: True if the right operand is copied to panels.
    """

    product: WindowedProduct
    tile: Tile
    right: Factor
    is_packed: bool

    @property
    def panel_bytes(self) -> int:
        """Size of a packed panel."""
        return self.product.terms * self.tile.width * FLOAT_BYTES

    @property
    def packed_bytes(self) -> int:
        """Size of the packed right operand; 0 if it is read in place."""
        return self.tile.panels * self.panel_bytes if self.is_packed else 0


class AttentionPlan(Struct, frozen=True, kw_only=True):
    """Division of an attention.

    The rows of a batch are divided into blocks of equal size; the last one overlaps the one before.

    Attributes:
        node: the attention.
        query: the left operand of the first product.
        first, second: the products of a block.
        rows: the rows of weights; they load scores from `tile` at (`local`, n).
        tile: stands for the scores of a block: (rows, pitch).
        local: the row in the block.
        block: rows per block.
        blocks: blocks per batch.
        copies_query: True if the rows of queries in a block are copied, because they would evict
            each other from the cache.
        keeps_scores: True if weights must not replace scores, which later elements need.
        factor: the factor that all weights of a row have in common, such as the reciprocal of the
            sum of a softmax. Results are multiplied by it instead, and the elements of the last
            reduction, times `scale`, replace scores. None if there is none.
    """

    node: Attention
    query: Factor
    first: BlockProduct
    second: BlockProduct
    rows: RowWiseKernel
    tile: Value
    local: Axis
    block: int
    blocks: int
    copies_query: bool
    keeps_scores: bool
    factor: Expression | None

    @property
    def batches(self) -> int:
        """Number of batches."""
        return self.node.axes[0].extent

    @property
    def scale(self) -> float:
        """A power of two that keeps sums of as many values as a row has from overflowing."""
        return math.ldexp(1.0, -self.rows.length.bit_length())

    @property
    def pitch(self) -> int:
        """Distance of the rows of scores, in elements."""
        return self.tile.shape[1]


def plans_of(kernel: Kernel, node: Attention, target: Target) -> tuple[AttentionPlan, ...]:
    """Returns the plans of an attention kernel; none if its form is not supported.

    If the number of rows is only known at run time, there are two: the first for at least as many
    rows as one of its blocks has, the second for fewer.
    """
    _, m, n, k, d = node.axes
    query, key, value = (
        _factor(loaded, *along)
        for loaded, along in ((node.query, (m, k)), (node.key, (n, k)), (node.value, (d, n)))
    )
    tile, local = _scores_of_block(m, n, 1)
    rows = _rows(kernel, node, tile, local)
    is_readable = all(1 in (factor.outer, factor.inner) for factor in (key, value))
    is_known = not has_extents((k.extent, d.extent, query.outer))
    if rows is None or not is_readable or not is_known or kernel.requirements:
        return ()
    whole = _product(query, key, m.extent, n.extent, k.extent)
    if is_too_narrow(n.extent, target):
        return ()
    positions = choose_tile(whole, target).positions
    heights: tuple[int, ...]
    if isinstance(m.extent, Extent):
        heights = (positions,) if surely_lowest(m.extent) >= positions else (positions, _FEW_ROWS)
    else:
        heights = (-(-m.extent // -(-m.extent // positions)),)
    found = []
    for block in heights:
        plan = _plan(kernel, node, (query, key, value), block, target)
        if any(each.packed_bytes > _MAX_PACKED_BYTES for each in (plan.first, plan.second)):
            return ()
        found.append(plan)
    return tuple(found)


def _plan(
    kernel: Kernel, node: Attention, factors: tuple[Factor, Factor, Factor], block: int, target: Target
) -> AttentionPlan:
    """Returns the plan with blocks of this many rows."""
    (query, key, value), (_, m, n, k, d) = factors, node.axes
    blocks = -(-m.extent // block)
    tile, local = _scores_of_block(m, n, block)
    rows = _rows(kernel, node, tile, local)
    assert rows is not None  # noqa: S101 - the caller has checked its form
    copies_query = block > 1 and query.outer * FLOAT_BYTES % _ALIASED_BYTES == 0
    if copies_query:
        pitch = k.extent + _LINE_BYTES // FLOAT_BYTES
        left = replace(query, outer=pitch, inner=1)
    else:
        left = query
    scores = replace(query, outer=tile.shape[1], inner=1)
    return AttentionPlan(
        node=node,
        query=query,
        first=_block_product(_product(left, key, block, n.extent, k.extent), key, blocks, target),
        second=_block_product(_product(scores, value, block, d.extent, n.extent), value, blocks, target),
        rows=rows,
        tile=tile,
        local=local,
        block=block,
        blocks=blocks,
        copies_query=copies_query,
        keeps_scores=any(isinstance(each, Load) and each.value is tile for each in rows.kernel.expressions),
        factor=_common_factor(rows) if is_softmax(node.weights) else None,
    )


def _common_factor(rows: RowWiseKernel) -> Expression | None:
    """Returns the common factor of a softmax's weights, if the kept element is the other factor."""
    body, along = rows.kernel.body, rows.kernel.axes[-1]
    if isinstance(rows.length, Extent) or rows.kept is None or rows.kept is not rows.reductions[-1]:
        return None
    if not isinstance(body, Apply) or body.op is not Op.MULTIPLY or body.type is not Scalar.FLOAT32:
        return None
    kept, factor = body.operands
    if not isinstance(kept, AccumulatorRef) or along in free_axes(factor):
        return None
    # The kept elements replace the scores, which only reductions may read.
    others = walk_through(factor, lambda each: () if isinstance(each, Reduce) else each.operands)
    return None if any(isinstance(each, AccumulatorRef | Load) for each in others) else factor


def _factor(loaded: Load, outer: Axis, inner: Axis) -> Factor:
    offset = offset_of(loaded)
    # The stride along an axis of length 1 does not matter.
    steps = [1 if each.extent == 1 else stride_along(offset, each) for each in (outer, inner)]
    return Factor(
        loaded=loaded,
        start=substitute(offset, {outer: outer * 0, inner: inner * 0}),
        outer=steps[0] or 0,
        inner=steps[1] or 0,
    )


def _scores_of_block(row: Axis, column: Axis, block: int) -> tuple[Value, Axis]:
    """Returns the value that stands for the scores of a block, and the axis of its rows."""
    line = _LINE_BYTES // FLOAT_BYTES
    if isinstance(column.extent, Extent):
        # An odd number of lines is not aliased.
        pitch = ((column.extent + line - 1) // (2 * line) * 2 + 1) * line
    else:
        pitch = -(-column.extent // line) * line
        if pitch * FLOAT_BYTES % _ALIASED_BYTES == 0:
            pitch += line
    return Value((block, pitch), Scalar.FLOAT32, name="scores"), replace(row, extent=block, high=block - 1)


def _rows(kernel: Kernel, node: Attention, tile: Value, local: Axis) -> RowWiseKernel | None:
    """Returns the rows of weights that load scores from a block."""
    b, m, n, _, _ = node.axes

    def replacement(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load) or expression.value is not node.scores:
            return None
        return load(tile, (local, expression.index[2]))

    weights = without_tiny_weights(rewrite(node.weights, replacement, {}), _MIN_EXPONENT)
    return rows_along(Kernel(output=tile, axes=(b, m, n), body=weights, operations=kernel.operations))


def _product(left: Factor, right: Factor, rows: int, channels: int, terms: int) -> WindowedProduct:
    """Returns the product of a block of rows with a right operand."""
    return WindowedProduct(
        source=left.value,
        weights=WeightOperand(value=right.value, sets=1, channel_step=right.outer, term_step=right.inner),
        batches=(),
        images=1,
        rows=WindowDimension(length=1, positions=1),
        columns=WindowDimension(length=rows, positions=rows),
        depth=terms,
        channels=channels,
        image_bytes=0,
        row_bytes=0,
        pixel_bytes=left.outer * FLOAT_BYTES,
        element_bytes=left.inner * FLOAT_BYTES,
        type=Scalar.FLOAT32,
        width=channels,
    )


def _block_product(product: WindowedProduct, right: Factor, blocks: int, target: Target) -> BlockProduct:
    tile = choose_tile(product, target)
    is_dense = estimate(right.inner) <= tile.width
    is_packed = right.outer != 1 or (not is_dense and estimate(blocks) >= _MIN_PACKED_BLOCKS)
    return BlockProduct(product=product, tile=tile, right=right, is_packed=is_packed)
