"""Matrix products as windowed products with single-pixel windows."""

import math
from collections.abc import Iterator

from neurald.drivers.compiler.ir.extents.extent import is_one
from neurald.drivers.compiler.ir.graph import MatrixProduct
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.cpu.kernels.common.product import BatchDimension, WeightOperand, WindowedProduct
from neurald.drivers.cpu.kernels.common.window import WindowDimension


def product_of(node: MatrixProduct) -> WindowedProduct:
    """Describes a matrix product.

    Left matrices that share the right one are treated as a single tall matrix.
    """
    *batches, rows, columns = node.output.shape
    size, depth = node.left.type.size_bytes, node.depth
    shares_right = is_one(math.prod(node.right.shape[:-2])) and not node.left_transposed
    if shares_right and math.prod(node.left.shape[:-2]) == math.prod(batches):
        rows, batches = rows * math.prod(batches), []
    row_step, depth_step = (1, node.left.shape[-1]) if node.left_transposed else (depth, 1)
    return WindowedProduct(
        source=node.left,
        weights=WeightOperand(
            value=node.right,
            sets=math.prod(node.right.shape[:-2]),
            channel_step=1 if node.right_transposed else depth,
            term_step=columns if node.right_transposed else 1,
        ),
        batches=tuple(_batch_dimensions(node, tuple(batches), rows)),
        images=1,
        rows=WindowDimension(length=1, positions=1),
        columns=WindowDimension(length=rows, positions=rows),
        depth=depth,
        channels=columns,
        image_bytes=0,
        row_bytes=0,
        pixel_bytes=row_step * size,
        element_bytes=depth_step * size,
        type=node.left.type,
        width=columns,
    )


def _batch_dimensions(node: MatrixProduct, batches: Shape, rows: int) -> Iterator[BatchDimension]:
    left, right = (_steps(value, len(batches)) for value in (node.left, node.right))
    for dimension, extent in enumerate(batches):
        yield BatchDimension(
            extent=extent,
            source_bytes=left[dimension] * math.prod(node.left.shape[-2:]) * node.left.type.size_bytes,
            weights=right[dimension],
            positions=rows * math.prod(batches[dimension + 1 :]),
        )


def _steps(value: Value, rank: int) -> list[int]:
    """Returns the distance in matrices along each batch dimension; 0 if broadcast."""
    lengths = (1,) * (rank - len(value.shape) + 2) + value.shape[:-2]
    return [
        0 if is_one(length) else math.prod(lengths[dimension + 1 :])
        for dimension, length in enumerate(lengths)
    ]
