"""Micro-kernel of quantised depthwise convolutions: accumulation and results."""

from collections.abc import Callable

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math.packed_bytes import has_packed_bytes
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address
from neurald.drivers.cpu.kernels.int8.depthwise.interleaving import Interleaving
from neurald.drivers.cpu.kernels.int8.depthwise.plan import ChannelBlock, DepthwisePlan
from neurald.drivers.cpu.kernels.int8.epilogue.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES

#: Number of vectors that are narrowed together, which restores the order of channels.
_PACKED_VECTORS = 4


class DepthwiseMicroKernel:
    """Writes the accumulation of positions, and their results.

    Args:
        code: receives the instructions.
        plan: the plan of the kernel.
        epilogue: the epilogue of the kernel.
    """

    def __init__(self, code: Instructions, plan: DepthwisePlan, epilogue: QuantizedEpilogue) -> None:
        self._code, self._plan, self._epilogue, self._scheme = code, plan, epilogue, plan.scheme
        self._vector = Vector(code, plan.scheme.target, plan.scheme.lanes)
        self._interleaving = Interleaving(code, plan)
        self._register = plan.scheme.target.vector_bytes

    @property
    def element(self) -> str:
        """LLVM type of results, or of sums if these are not rescaled."""
        rescaling = self._epilogue.rescaling
        return "i32" if rescaling is None else f"i{8 * rescaling.type.size_bytes}"

    @property
    def element_bytes(self) -> int:
        """Size of such an element."""
        rescaling = self._epilogue.rescaling
        return WORD_BYTES if rescaling is None else rescaling.type.size_bytes

    def constants_bytes(self, channel_block: ChannelBlock) -> int:
        """Returns the size of a channel block's constants."""
        vectors = (1 + self._epilogue.rows) * channel_block.vectors + self._plan.steps(channel_block.vectors)
        return vectors * self._register

    def totals(
        self, channel_block: ChannelBlock, pixels: int, weights: str, inputs: Callable[[int, int], list[str]]
    ) -> list[list[list[str]]]:
        """Computes the sums of consecutive positions, by position, row of the unit, and vector.

        Args:
            channel_block: the channels.
            pixels: number of positions.
            weights: address of the channel block's constants.
            inputs: returns the vectors of a word in a column, relative to the first one that the
                positions read.
        """
        plan, side = self._plan, self._plan.layout.columns
        starts = [self._load(weights, each) for each in range(channel_block.vectors)]
        totals = [[list(starts) for _ in range(plan.rows)] for _ in range(pixels)]
        steps = (1 + self._epilogue.rows) * channel_block.vectors
        for word in range(plan.words):
            for column in range(plan.columns_read(pixels)):
                uses = [
                    (pixel, tap)
                    for pixel in range(pixels)
                    for tap in range(side.taps)
                    if pixel * side.stride + tap * side.dilation == column
                ]
                if not uses:
                    continue
                vectors = inputs(word, column)
                for part in range(plan.parts):
                    for row in range(plan.rows):
                        for pixel, tap in uses:
                            number = ((part * plan.rows + row) * plan.words + word) * side.taps + tap
                            factors = steps + number * channel_block.vectors
                            totals[pixel][row] = [
                                self._scheme.step(
                                    self._code, total, each, self._load(weights, factors + vector)
                                )
                                for vector, (total, each) in enumerate(
                                    zip(totals[pixel][row], vectors, strict=True)
                                )
                            ]
        return totals

    def epilogue_constants(self, channel_block: ChannelBlock, weights: str) -> list[list[str]]:
        """Loads the rows of epilogue constants, as vectors."""
        return [
            [
                self._load(weights, (1 + row) * channel_block.vectors + each)
                for each in range(channel_block.vectors)
            ]
            for row in range(self._epilogue.rows)
        ]

    def results(
        self, channel_block: ChannelBlock, totals: list[list[str]], words: list[list[str]]
    ) -> list[str]:
        """Computes results from sums, with channels in order: a vector for each row of a unit."""
        rescaling, code, target = self._epilogue.rescaling, self._code, self._scheme.target
        if rescaling is None:
            return [self._interleaving.in_order(channel_block, each, self.element) for each in totals]
        is_whole = channel_block.vectors == _PACKED_VECTORS and rescaling.type.size_bytes == 1
        is_packed = is_whole and has_packed_bytes(target)
        scale = rescaling.scaled if is_packed else rescaling.write
        # All rows of a vector are computed while its words are in registers.
        scaled = [
            [scale(code, target, sums[vector], [each[vector] for each in words]) for sums in totals]
            for vector in range(channel_block.vectors)
        ]
        rows = [list(each) for each in zip(*scaled, strict=True)]
        if is_packed:
            return [rescaling.packed(code, target, each, [row[0] for row in words]) for each in rows]
        return [self._interleaving.in_order(channel_block, each, self.element) for each in rows]

    def _load(self, base: str, number: int) -> str:
        """Loads a vector of a channel block's constants."""
        at = address(self._code, base, str(number * self._register))
        return self._code.fresh(f"load {self._vector.type('i32')}, ptr {at}, align {self._register}")
