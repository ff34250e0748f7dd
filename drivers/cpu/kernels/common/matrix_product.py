"""Matrix products as windowed products with single-pixel windows."""

import math
from collections.abc import Iterator

from neurald.drivers.compiler.ir.graph import MatrixProduct
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.cpu.kernels.common.product import Operand, Part, Product
from neurald.drivers.cpu.kernels.common.window import Side


def product_of(node: MatrixProduct) -> Product:
    """Describes a matrix product.

    Matrices that share the right operand are seen as one tall matrix.
    """
    *batches, rows, columns = node.output.shape
    size, depth = node.left.type.size_bytes, node.depth
    shares_right = math.prod(node.right.shape[:-2]) == 1 and not node.left_transposed
    if shares_right and math.prod(node.left.shape[:-2]) == math.prod(batches):
        rows, batches = rows * math.prod(batches), []
    row_step, depth_step = (1, node.left.shape[-1]) if node.left_transposed else (depth, 1)
    return Product(
        source=node.left,
        weights=Operand(
            value=node.right,
            sets=math.prod(node.right.shape[:-2]),
            channel_step=1 if node.right_transposed else depth,
            term_step=columns if node.right_transposed else 1,
        ),
        parts=tuple(_parts(node, tuple(batches), rows)),
        images=1,
        rows=Side(length=1, places=1),
        columns=Side(length=rows, places=rows),
        depth=depth,
        channels=columns,
        image_bytes=0,
        row_bytes=0,
        pixel_bytes=row_step * size,
        element_bytes=depth_step * size,
        type=node.left.type,
        width=columns,
    )


def _parts(node: MatrixProduct, batches: Shape, rows: int) -> Iterator[Part]:
    left, right = (_steps(value, len(batches)) for value in (node.left, node.right))
    for dimension, extent in enumerate(batches):
        yield Part(
            extent=extent,
            source_bytes=left[dimension] * math.prod(node.left.shape[-2:]) * node.left.type.size_bytes,
            weights=right[dimension],
            positions=rows * math.prod(batches[dimension + 1 :]),
        )


def _steps(value: Value, rank: int) -> list[int]:
    """Returns the distance in matrices along each batch dimension; 0 if broadcast."""
    lengths = (1,) * (rank - len(value.shape) + 2) + value.shape[:-2]
    return [
        0 if length == 1 else math.prod(lengths[dimension + 1 :]) for dimension, length in enumerate(lengths)
    ]
