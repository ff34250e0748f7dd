"""Convolutions as windowed products."""

from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.cpu.kernels.common.product import BatchDimension, WeightOperand, WindowedProduct
from neurald.drivers.cpu.kernels.common.window import WindowDimension, window_dimensions


def product_of(node: Convolution) -> WindowedProduct:
    """Describes a convolution.

    A 1×1 convolution without padding becomes a single long row, and so does an image of width 1 and
    known height: tiles lie in rows, whose borders are known when the code is written.
    """
    images, height, width, channels = node.input.shape
    outputs, _, _, depth = node.weights.shape
    size = node.input.type.size_bytes
    each = outputs // node.groups
    rows, columns = window_dimensions(node)
    if node.kernel == (1, 1) and all(
        side == WindowDimension(length=side.length, positions=side.length) for side in (rows, columns)
    ):
        positions = images * height * width
        images, rows, columns = (
            1,
            WindowDimension(length=1, positions=1),
            WindowDimension(length=positions, positions=positions),
        )
    elif _is_known(rows) and _is_known(columns) and _is_single(columns):
        rows, columns = columns, rows
    return WindowedProduct(
        source=node.input,
        weights=WeightOperand(
            value=node.weights,
            sets=node.groups,
            channel_step=node.weights.count // outputs,
            term_step=1,
        ),
        batches=(BatchDimension(extent=node.groups, source_bytes=depth * size, weights=1, channels=each),),
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


def _is_single(side: WindowDimension) -> bool:
    """Returns True if a dimension has one element and one position, which is that element."""
    return (side.length, side.positions, side.taps, side.padding_before) == (1, 1, 1, 0)


def _is_known(side: WindowDimension) -> bool:
    """Returns True if nothing of a dimension depends on open lengths."""
    return not has_extents((side.length, side.positions, side.padding_before, side.padding_after))
