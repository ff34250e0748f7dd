"""Description of convolutions and matrix products as sums of products over windows."""

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import same_length
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common.window import WindowDimension


class BatchDimension(Struct, frozen=True, kw_only=True):
    """A dimension of independent products with separate operands: groups, or batches of matrices.

    Attributes:
        extent: number of products.
        source_bytes, weights: distance of their inputs (in bytes) and weights (in sets of weights);
            0 if shared.
        positions, channels: distance of their results.
    """

    extent: int
    source_bytes: int = 0
    weights: int = 0
    positions: int = 0
    channels: int = 0


class WeightOperand(Struct, frozen=True, kw_only=True):
    """Memory layout of the right operand.

    Attributes:
        value: the operand.
        sets: number of sets of weights, each with `channels × terms` elements.
        channel_step, term_step: distance of neighbouring channels and terms, in elements.
    """

    value: Value
    sets: int
    channel_step: int
    term_step: int


class WindowedProduct(Struct, frozen=True, kw_only=True):
    """output[batch, image, row, column, channel] = Σ input[…] × weights[channel, term].

    The terms of a sum are ordered by window row, window column and depth.

    Attributes:
        source: the input.
        weights: the other operand.
        batches: see `BatchDimension`; the slowest dimension first.
        images: number of images per batch.
        rows, columns: movement of the window.
        depth: summed elements per input pixel.
        channels: number of channels per batch.
        image_bytes, row_bytes, pixel_bytes, element_bytes: strides of the input.
        type: the type of the input's elements.
        width: channels of the whole output, which is the stride of its positions.
    """

    source: Value
    weights: WeightOperand
    batches: tuple[BatchDimension, ...]
    images: int
    rows: WindowDimension
    columns: WindowDimension
    depth: int
    channels: int
    image_bytes: int
    row_bytes: int
    pixel_bytes: int
    element_bytes: int
    type: Scalar
    width: int

    @property
    def terms(self) -> int:
        """Number of products per sum."""
        return self.rows.taps * self.columns.taps * self.depth

    @property
    def positions(self) -> int:
        """Number of results per channel of a batch."""
        return self.images * self.rows.positions * self.columns.positions

    @property
    def is_contiguous(self) -> bool:
        """True if the pixels of a window row are contiguous."""
        size = self.depth * self.element_bytes
        return self.columns.dilation == 1 and same_length(self.pixel_bytes, size)
