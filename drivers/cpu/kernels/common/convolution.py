"""Convolutions as windowed products."""

from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.cpu.kernels.common.product import Operand, Part, Product
from neurald.drivers.cpu.kernels.common.window import Side, sides_of


def product_of(node: Convolution) -> Product:
    """Describes a convolution. A 1×1 convolution without padding becomes a single long row."""
    images, height, width, channels = node.input.shape
    outputs, _, _, depth = node.weights.shape
    size = node.input.type.size_bytes
    each = outputs // node.groups
    rows, columns = sides_of(node)
    if node.kernel == (1, 1) and all(
        side == Side(length=side.length, places=side.length) for side in (rows, columns)
    ):
        positions = images * height * width
        images, rows, columns = 1, Side(length=1, places=1), Side(length=positions, places=positions)
    return Product(
        source=node.input,
        weights=Operand(
            value=node.weights,
            sets=node.groups,
            channel_step=node.weights.count // outputs,
            term_step=1,
        ),
        parts=(Part(extent=node.groups, source_bytes=depth * size, weights=1, channels=each),),
        images=images,
        rows=rows,
        columns=columns,
        depth=depth,
        channels=each,
        image_bytes=height * width * channels * size,
        row_bytes=width * channels * size,
        pixel_bytes=channels * size,
        element_bytes=size,
        type=node.input.type,
        width=outputs,
    )
