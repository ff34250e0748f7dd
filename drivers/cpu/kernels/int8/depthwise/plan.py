"""Division of a quantised depthwise convolution, and packing of its weights.

A packed word holds an element of each of several consecutive rows, so that one step multiplies that
many taps of a window column. If a window has one row less than a word has elements, two output rows
share the words.

Interleaving works within 128 bits, which permutes channels; the instructions that narrow sums undo
this. A channel block is a set of channels that is interleaved at once.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, is_always_at_least
from neurald.drivers.compiler.ir.graph import DepthwiseConvolution
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.int8.layout import BlockLayout, padded_width
from neurald.drivers.cpu.kernels.int8.packing.panels import head_of
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES, Scheme

#: Limit on a block's packed inputs: they stay in the second-level cache beside weights and output.
_MAX_BLOCK_BYTES = 64 << 10

#: Limit on unrolled steps, since a tile has no loops.
_MAX_STEPS = 1500
#: Vectors of sums of a row computed at once, if positions are computed one after another.
_ROLLING_VECTORS = 4
#: Cycles to interleave a column of a channel block, and to process a vector of sums.
_INTERLEAVING_CYCLES, _STORE_CYCLES = 8.0, 6.0


class ChannelBlock(Struct, frozen=True, kw_only=True):
    """Channels that are computed at once.

    Attributes:
        first: the first channel of the first channel block.
        channels: number of channels per channel block.
        count: number of consecutive channel blocks, which the same code computes.
        vectors: number of vectors of 32-bit sums per channel block.
        last: the first channel of the last channel block, which computes some channels again if
            they are not a multiple.
    """

    first: int
    channels: int
    count: int
    vectors: int
    last: int

    @property
    def overlaps(self) -> bool:
        """True if the last channel block overlaps the one before."""
        return self.last < self.first + (self.count - 1) * self.channels


class DepthwisePlan(Struct, frozen=True, kw_only=True):
    """Division of a depthwise convolution.

    Attributes:
        layout: the layout of the input.
        images: number of images.
        channels: number of channels of the output.
        parts: number of summands of each weight, if they do not fit in an element.
        rows: output rows that share words.
        channel_blocks: cover all channels.
    """

    layout: BlockLayout
    images: int
    channels: int
    parts: int
    rows: int
    channel_blocks: tuple[ChannelBlock, ...]

    @property
    def scheme(self) -> Scheme:
        """Multiplication scheme."""
        return self.layout.scheme

    @property
    def height(self) -> int:
        """Height of the output."""
        return self.layout.rows.positions

    @property
    def width(self) -> int:
        """Width of the output."""
        return self.layout.columns.positions

    @property
    def units(self) -> int:
        """Number of units per image; the last one may share rows with the one before."""
        return -(-self.height // self.rows)

    @property
    def words(self) -> int:
        """Number of words of a window column."""
        taps = self.layout.rows.taps
        return -(-(taps + self.rows - 1) // self.scheme.group)

    @property
    def cycles(self) -> float:
        """Estimated cycles."""
        channel_blocks = sum(
            channel_block.count * self._position_cycles(channel_block)
            for channel_block in self.channel_blocks
        )
        return self.images * self.units * self.rows * self.width * channel_blocks

    def _position_cycles(self, channel_block: ChannelBlock) -> float:
        """Estimates cycles of a position and a channel block: steps, interleaving, epilogue."""
        steps = self.steps(channel_block.vectors) / self.rows * self.scheme.cycles
        columns = self.words * self.layout.columns.stride * _INTERLEAVING_CYCLES / self.rows
        return steps + columns + channel_block.vectors * _STORE_CYCLES

    def steps(self, vectors: int) -> int:
        """Returns the number of weight vectors of a channel block."""
        return self.parts * self.rows * self.words * self.layout.columns.taps * vectors

    def pixels(self, channel_block: ChannelBlock) -> int:
        """Returns the maximum number of positions of a row computed at once."""
        spare = channel_block.vectors + self.scheme.spare_registers + 8
        most = max(1, (self.scheme.target.registers - spare) // (channel_block.vectors * self.rows))
        return max(1, min(most, self.width, 8, _MAX_STEPS // self.steps(channel_block.vectors)))

    def columns_read(self, pixels: int) -> int:
        """Returns the number of columns that this many positions of a row read."""
        side = self.layout.columns
        return (pixels - 1) * side.stride + (side.taps - 1) * side.dilation + 1

    def positions_per_iteration(self, channel_block: ChannelBlock) -> int:
        """Returns the positions per iteration of a rolling row, enough to hide latencies."""
        if isinstance(self.width, Extent):
            return 1
        return next(
            each
            for each in range(max(1, _ROLLING_VECTORS // channel_block.vectors), 0, -1)
            if not self.width % each
        )

    def new_columns(self, pixels: int) -> tuple[int, ...]:
        """Columns that these positions read and previous ones do not, from the first window on."""
        return self._needed(
            range(self.columns_read(1) - self.layout.columns.stride, self.columns_read(pixels))
        )

    @property
    def kept_columns(self) -> tuple[int, ...]:
        """The other columns that a position, or one after it, reads."""
        return self._needed(range(self.columns_read(1) - self.layout.columns.stride))

    def _needed(self, columns: range) -> tuple[int, ...]:
        side = self.layout.columns
        starts = [tap * side.dilation for tap in range(side.taps)]
        return tuple(
            column
            for column in columns
            if any(column >= start and (column - start) % side.stride == 0 for start in starts)
        )

    def is_rolling(self, channel_block: ChannelBlock) -> bool:
        """Returns True if a rolling window's columns and sums fit in registers.

        Positions are then computed one after another.
        """
        columns = len(self.kept_columns) + len(self.new_columns(1))
        sums = self.rows * channel_block.vectors
        registers = columns * self.words * channel_block.vectors + sums + self.scheme.spare_registers
        return self.width > 1 and registers <= self.scheme.target.registers

    @property
    def is_small(self) -> bool:
        """True if the steps of a position can be unrolled."""
        return all(self.steps(channel_block.vectors) <= _MAX_STEPS for channel_block in self.channel_blocks)


def plan_of(
    node: DepthwiseConvolution, scheme: Scheme, rows: WindowDimension, columns: WindowDimension, parts: int
) -> DepthwisePlan:
    """Returns the plan of a non-empty convolution."""
    channels = node.weights.shape[2]
    shares = (
        rows.stride == rows.dilation == 1
        and rows.taps % scheme.group
        # The last unit would begin before an image of one row.
        and is_always_at_least(rows.positions, 2)
    )
    unit = 2 if shares else 1
    row = padded_width(columns) * channels
    unit_bytes = unit * rows.stride * row * scheme.element_bytes
    block = max(1, min(estimate(-(-rows.positions // unit)), _MAX_BLOCK_BYTES // estimate(unit_bytes)))
    layout = BlockLayout(
        scheme=scheme,
        type=node.input.type,
        rows=rows,
        columns=columns,
        channels=node.input.shape[3],
        repeat=node.multiplier,
        pixel_elements=channels,
        row_elements=row,
        is_direct=False,
        unit=unit,
        block=block * unit,
    )
    return DepthwisePlan(
        layout=layout,
        images=node.input.shape[0],
        channels=channels,
        parts=parts,
        rows=unit,
        channel_blocks=tuple(_channel_blocks(scheme, channels)),
    )


def _channel_blocks(scheme: Scheme, channels: int) -> Iterator[ChannelBlock]:
    wide = scheme.target.vector_bytes // scheme.element_bytes
    vectors = wide // scheme.lanes
    # Remaining channels are interleaved in single vectors if words have four elements, else as part
    # of a channel block.
    if not scheme.is_bytes:
        yield _channel_block(0, channels, wide, vectors)
        return
    whole = channels // wide * wide
    if whole:
        yield _channel_block(0, whole, wide, vectors)
    if whole < channels:
        yield _channel_block(whole, channels, scheme.lanes, 1)


def _channel_block(first: int, end: int, channels: int, vectors: int) -> ChannelBlock:
    """Returns blocks of this many channels that cover those from `first` to before `end`."""
    count = -(-(end - first) // channels)
    last = max(0, end - channels)
    return ChannelBlock(
        first=min(first, last) if count == 1 else first,
        channels=channels,
        count=count,
        vectors=vectors,
        last=last,
    )


def lane_channels(scheme: Scheme, channel_block: ChannelBlock) -> Array:
    """Returns the channel of a channel block in each lane: (vectors, lanes)."""
    if channel_block.vectors == 1:
        return np.arange(scheme.lanes)[None]
    # Interleaving distributes pieces of 128 bits over the vectors.
    piece = 16 // WORD_BYTES
    pieces = scheme.lanes // piece
    order = np.arange(channel_block.channels).reshape(pieces, channel_block.vectors, piece).transpose(1, 0, 2)
    return np.asarray(order.reshape(channel_block.vectors, scheme.lanes))


def packed(plan: DepthwisePlan, factors: Array, padding: int, starts: Array, rows: Array, name: str) -> Value:
    """Packs the constant: a head, and initial sums, epilogue constants and weights of each block.

    Args:
        plan: the plan of the kernel.
        factors: (parts, kernel height, kernel width, channels).
        padding: the padding element.
        starts: (channels,), initial sums; only the lower 32 bits count.
        rows: (rows, channels), epilogue constants; only the lower 32 bits count.
        name: name of the value, for diagnostics.
    """
    scheme = plan.scheme
    parts, taps, columns, channels = factors.shape
    group = scheme.group
    # Each output row starts at another row of a word.
    words = np.zeros((parts, plan.rows, plan.words * group, columns, channels), scheme.dtype)
    for row in range(plan.rows):
        words[:, row, row : row + taps] = factors
    words = words.reshape(parts, plan.rows, plan.words, group, columns, channels)
    heads = (np.concatenate((starts[None], rows)) % (1 << 32)).astype(np.uint32)
    pieces = [head_of(padding, 0)]
    for channel_block in plan.channel_blocks:
        for number in range(channel_block.count):
            start = min(channel_block.first + number * channel_block.channels, channel_block.last)
            lanes = np.minimum(start + lane_channels(scheme, channel_block), channels - 1)
            pieces.append(heads[:, lanes].reshape(-1).view(np.uint8))
            # (parts, rows, words, columns, vectors, lanes, group)
            steps = words[..., lanes].transpose(0, 1, 2, 4, 5, 6, 3)
            pieces.append(np.ascontiguousarray(steps).reshape(-1).view(np.uint8))
    array = np.concatenate(pieces)
    return Value(array.shape, Scalar.UINT8, array, name)
