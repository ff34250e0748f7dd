"""Sums of products over windows, as register tiles compute them: convolutions and products of matrices alike."""

from dataclasses import dataclass

from neurald.drivers.compiler.ir.graph import Value
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.window import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A dimension along which several products are computed, each with its own operands: groups, or batches of matrices.

    Attributes:
        extent: how many there are.
        source_bytes, weights: how far apart their inputs (in bytes) and weights (in sets of weights) are; 0 where they share
            them.
        positions, channels: how far apart their results are.
    """

    extent: int
    source_bytes: int = 0
    weights: int = 0
    positions: int = 0
    channels: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """Where the elements of the right operand lie as it is.

    Attributes:
        value: the operand.
        sets: how many sets of weights it holds; all are `channels × terms` elements.
        channel_step, term_step: how far elements of neighbouring channels and of neighbouring terms are apart, in elements.
    """

    value: Value
    sets: int
    channel_step: int
    term_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """output[part, image, row, column, channel] = Σ input[…] × weights[channel, term].

    The terms of a sum are ordered by row of the window, column of the window, and depth.

    Attributes:
        source: the input.
        weights: the other operand.
        parts: see `Part`; the slowest first.
        images: how many images a part has.
        rows, columns: how windows move.
        depth: elements of an input pixel that are summed.
        channels: of a part.
        image_bytes, row_bytes, pixel_bytes, element_bytes: how far neighbouring images, rows, pixels and elements of the
            input are apart.
        type: of the input's elements.
        width: channels of the whole output: how far apart its positions are.
    """

    source: Value
    weights: Operand
    parts: tuple[Part, ...]
    images: int
    rows: Side
    columns: Side
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
        """Products in a sum."""
        return self.rows.taps * self.columns.taps * self.depth

    @property
    def positions(self) -> int:
        """Results of a channel, in a part."""
        return self.images * self.rows.places * self.columns.places

    @property
    def is_contiguous(self) -> bool:
        """Whether the pixels of a row of the window follow one another without a gap."""
        return self.columns.dilation == 1 and self.pixel_bytes == self.depth * self.element_bytes
