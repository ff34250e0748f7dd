"""Division of a quantised depthwise convolution, and packing of its weights.

A packed word holds an element of each of several consecutive rows, so that one step multiplies that
many taps of a window column. If a window has one row less than a word has elements, two output rows
share the words.

Interleaving works within 128 bits, which permutes channels; the instructions that narrow sums undo
this. A bundle is a set of channels that is interleaved at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.graph import DepthwiseConvolution
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common.window import Side
from neurald.drivers.cpu.kernels.int8.layout import BlockLayout, seen_width
from neurald.drivers.cpu.kernels.int8.panels import head_of
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES, Scheme

#: Limit on a block's packed inputs: they stay in the second-level cache beside weights and output.
_BLOCK_BYTES = 64 << 10

#: Limit on unrolled steps, since a tile has no loops.
_MAX_STEPS = 1500
#: Vectors of sums of a row computed at once, if positions are computed one after another.
_SUMS = 4
#: Cycles to interleave a column of a bundle, and to process a vector of sums.
_INTERLEAVING_CYCLES, _STORE_CYCLES = 8.0, 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Channels that are computed at once.

    Attributes:
        first: the first channel of the first bundle.
        channels: per bundle.
        count: number of consecutive bundles.
        vectors: of 32-bit sums, per bundle.
    """

    first: int
    channels: int
    count: int
    vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwisePlan:
    """Division of a depthwise convolution.

    Attributes:
        layout: of the input.
        images: number of images.
        channels: of the output.
        parts: number of summands of each weight, if they do not fit in an element.
        rows: output rows that share words.
        bundles: cover all channels.
    """

    layout: BlockLayout
    images: int
    channels: int
    parts: int
    rows: int
    bundles: tuple[Bundle, ...]

    @property
    def scheme(self) -> Scheme:
        """Multiplication scheme."""
        return self.layout.scheme

    @property
    def height(self) -> int:
        """Height of the output."""
        return self.layout.rows.places

    @property
    def width(self) -> int:
        """Width of the output."""
        return self.layout.columns.places

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
        bundles = sum(bundle.count * self._position_cycles(bundle) for bundle in self.bundles)
        return self.images * self.units * self.rows * self.width * bundles

    def _position_cycles(self, bundle: Bundle) -> float:
        """Estimated cycles of a position and a bundle: steps, interleaving and epilogue."""
        steps = self.steps(bundle.vectors) / self.rows * self.scheme.cycles
        columns = self.words * self.layout.columns.stride * _INTERLEAVING_CYCLES / self.rows
        return steps + columns + bundle.vectors * _STORE_CYCLES

    def steps(self, vectors: int) -> int:
        """Number of weight vectors of a bundle."""
        return self.parts * self.rows * self.words * self.layout.columns.taps * vectors

    def pixels(self, bundle: Bundle) -> int:
        """Maximum number of positions of a row computed at once."""
        spare = bundle.vectors + self.scheme.spare_registers + 8
        most = max(1, (self.scheme.target.registers - spare) // (bundle.vectors * self.rows))
        return max(1, min(most, self.width, 8, _MAX_STEPS // self.steps(bundle.vectors)))

    def seen(self, pixels: int) -> int:
        """Number of columns that this many positions of a row read."""
        side = self.layout.columns
        return (pixels - 1) * side.stride + (side.taps - 1) * side.dilation + 1

    def turn(self, bundle: Bundle) -> int:
        """Number of positions per iteration of a rolling row, enough to hide latencies."""
        return next(each for each in range(max(1, _SUMS // bundle.vectors), 0, -1) if not self.width % each)

    def new_columns(self, pixels: int) -> tuple[int, ...]:
        """Columns that these positions read and previous ones do not, from the first window on."""
        return self._needed(range(self.seen(1) - self.layout.columns.stride, self.seen(pixels)))

    @property
    def kept_columns(self) -> tuple[int, ...]:
        """The other columns that a position, or one after it, reads."""
        return self._needed(range(self.seen(1) - self.layout.columns.stride))

    def _needed(self, columns: range) -> tuple[int, ...]:
        side = self.layout.columns
        starts = [tap * side.dilation for tap in range(side.taps)]
        return tuple(
            column
            for column in columns
            if any(column >= start and (column - start) % side.stride == 0 for start in starts)
        )

    def is_rolling(self, bundle: Bundle) -> bool:
        """True if a rolling window's columns and sums fit in registers.

        Positions are then computed one after another.
        """
        columns = len(self.kept_columns) + len(self.new_columns(1))
        sums = self.rows * bundle.vectors
        registers = columns * self.words * bundle.vectors + sums + self.scheme.spare_registers
        return self.width > 1 and registers <= self.scheme.target.registers

    @property
    def is_small(self) -> bool:
        """True if the steps of a position can be unrolled."""
        return all(self.steps(bundle.vectors) <= _MAX_STEPS for bundle in self.bundles)


def plan_of(
    node: DepthwiseConvolution, scheme: Scheme, rows: Side, columns: Side, parts: int
) -> DepthwisePlan:
    """Returns the plan of a non-empty convolution."""
    channels = node.weights.shape[2]
    shares = rows.stride == rows.dilation == 1 and rows.taps % scheme.group and rows.places > 1
    unit = 2 if shares else 1
    row = seen_width(columns) * channels
    unit_bytes = unit * rows.stride * row * scheme.element_bytes
    block = max(1, min(-(-rows.places // unit), _BLOCK_BYTES // unit_bytes))
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
        bundles=tuple(_bundles(scheme, channels)),
    )


def _bundles(scheme: Scheme, channels: int) -> Iterator[Bundle]:
    wide = scheme.target.vector_bytes // scheme.element_bytes
    vectors = wide // scheme.lanes
    whole = channels // wide
    if whole:
        yield Bundle(first=0, channels=wide, count=whole, vectors=vectors)
    done = whole * wide
    # Remaining channels are interleaved in single vectors if words have four elements, else as part
    # of a bundle.
    if not scheme.is_bytes:
        if done < channels:
            yield Bundle(first=max(0, channels - wide), channels=wide, count=1, vectors=vectors)
        return
    more = (channels - done) // scheme.lanes
    if more:
        yield Bundle(first=done, channels=scheme.lanes, count=more, vectors=1)
        done += more * scheme.lanes
    if done < channels:
        yield Bundle(first=max(0, channels - scheme.lanes), channels=scheme.lanes, count=1, vectors=1)


def lane_channels(scheme: Scheme, bundle: Bundle) -> Array:
    """Returns the channel of a bundle in each lane: (vectors, lanes)."""
    if bundle.vectors == 1:
        return np.arange(scheme.lanes)[None]
    # Interleaving distributes pieces of 128 bits over the vectors.
    piece = 16 // WORD_BYTES
    pieces = scheme.lanes // piece
    order = np.arange(bundle.channels).reshape(pieces, bundle.vectors, piece).transpose(1, 0, 2)
    return np.asarray(order.reshape(bundle.vectors, scheme.lanes))


def packed(plan: DepthwisePlan, factors: Array, outside: int, starts: Array, rows: Array, name: str) -> Value:
    """Returns the constant: a head, and for each bundle initial sums, epilogue words and weights.

    Args:
        plan: of the kernel.
        factors: (parts, kernel height, kernel width, channels).
        outside: the padding element.
        starts: (channels,), initial sums; only the lower 32 bits count.
        rows: (rows, channels), epilogue words; only the lower 32 bits count.
        name: for diagnostics.
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
    pieces = [head_of(outside, 0)]
    for bundle in plan.bundles:
        for number in range(bundle.count):
            lanes = bundle.first + number * bundle.channels + lane_channels(scheme, bundle)
            lanes = np.minimum(lanes, channels - 1)
            pieces.append(heads[:, lanes].reshape(-1).view(np.uint8))
            # (parts, rows, words, columns, vectors, lanes, group)
            steps = words[..., lanes].transpose(0, 1, 2, 4, 5, 6, 3)
            pieces.append(np.ascontiguousarray(steps).reshape(-1).view(np.uint8))
    array = np.concatenate(pieces)
    return Value(array.shape, Scalar.UINT8, array, name)
