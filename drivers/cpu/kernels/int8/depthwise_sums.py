"""The sums of quantised depthwise convolutions, and what becomes of them before they are stored."""

from collections.abc import Callable

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.counters import address
from neurald.drivers.cpu.kernels.int8.depthwise_plan import Bundle, DepthwisePlan
from neurald.drivers.cpu.kernels.int8.interleaving import Interleaving
from neurald.drivers.cpu.kernels.int8.tail import Tail

#: Vectors of a bundle whose sums are narrowed together, which puts its channels in order.
_PACKED_VECTORS = 4


class DepthwiseSums:
    """Writes sums, and results that follow from them.

    Args:
        code: where instructions go.
        plan: of the kernel.
        tail: what follows the sums.
    """

    def __init__(self, code: Instructions, plan: DepthwisePlan, tail: Tail) -> None:
        self._code, self._plan, self._tail, self._scheme = code, plan, tail, plan.scheme
        self._vector = Vector(code, plan.scheme.target, plan.scheme.lanes)
        self._interleaving = Interleaving(code, plan)
        self._register = plan.scheme.target.vector_bytes

    @property
    def element(self) -> str:
        """The LLVM type of results: of sums, where these are not rescaled."""
        rescaling = self._tail.rescaling
        return "i32" if rescaling is None else f"i{8 * rescaling.type.size_bytes}"

    def constants_bytes(self, bundle: Bundle) -> int:
        """Of the constants of a bundle."""
        vectors = (1 + self._tail.rows) * bundle.vectors + self._plan.steps(bundle.vectors)
        return vectors * self._register

    def totals(
        self, bundle: Bundle, pixels: int, weights: str, inputs: Callable[[int, int], list[str]]
    ) -> list[list[list[str]]]:
        """The sums of some positions that follow one another: for each of them, each row of a unit, each vector.

        Args:
            bundle: which channels.
            pixels: how many positions.
            weights: the constants of the bundle.
            inputs: gives the vectors of a word of a column, which is counted from the first one that the positions see.
        """
        plan, side = self._plan, self._plan.layout.columns
        starts = [self._load(weights, each) for each in range(bundle.vectors)]
        totals = [[list(starts) for _ in range(plan.rows)] for _ in range(pixels)]
        steps = (1 + self._tail.rows) * bundle.vectors
        for word in range(plan.words):
            for column in range(plan.seen(pixels)):
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
                            factors = steps + number * bundle.vectors
                            totals[pixel][row] = [
                                self._scheme.step(
                                    self._code, total, each, self._load(weights, factors + vector)
                                )
                                for vector, (total, each) in enumerate(
                                    zip(totals[pixel][row], vectors, strict=True)
                                )
                            ]
        return totals

    def epilogue_words(self, bundle: Bundle, weights: str) -> list[list[str]]:
        """For each row of words of the epilogue its vectors."""
        return [
            [self._load(weights, (1 + row) * bundle.vectors + each) for each in range(bundle.vectors)]
            for row in range(self._tail.rows)
        ]

    def results(self, bundle: Bundle, totals: list[list[str]], words: list[list[str]]) -> list[str]:
        """What follows from sums, with the channels of the bundle in their order: a vector for each row of a unit."""
        rescaling, code, target = self._tail.rescaling, self._code, self._scheme.target
        if rescaling is None:
            return [self._interleaving.in_order(bundle, each, self.element) for each in totals]
        is_packed = bundle.vectors == _PACKED_VECTORS and rescaling.type.size_bytes == 1
        scale = rescaling.scaled if is_packed else rescaling.write
        # All rows of a vector, while its words are in registers.
        scaled = [
            [scale(code, target, sums[vector], [each[vector] for each in words]) for sums in totals]
            for vector in range(bundle.vectors)
        ]
        rows = [list(each) for each in zip(*scaled, strict=True)]
        if is_packed:
            return [rescaling.packed(code, target, each, [row[0] for row in words]) for each in rows]
        return [self._interleaving.in_order(bundle, each, self.element) for each in rows]

    def _load(self, base: str, number: int) -> str:
        """A vector of words of a bundle's constants."""
        at = address(self._code, base, str(number * self._register))
        return self._code.fresh(f"load {self._vector.type('i32')}, ptr {at}, align {self._register}")
