"""Quantised depthwise convolutions: elements of neighbouring rows, interleaved channel by channel, are multiplied in one step.

See `depthwise_plan` for the words that this makes, and for the order of channels.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from neurald.drivers.compiler.graph import Value
from neurald.drivers.cpu.epilogue import Epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.counters import address, multiple, opaque
from neurald.drivers.cpu.kernels.int8.blocks import Blocks
from neurald.drivers.cpu.kernels.int8.depthwise_plan import Bundle, DepthwisePlan
from neurald.drivers.cpu.kernels.int8.interleaving import Interleaving
from neurald.drivers.cpu.kernels.int8.panels import HEAD_BYTES
from neurald.drivers.cpu.kernels.int8.stores import store_lanes
from neurald.drivers.cpu.kernels.int8.tail import Tail
from neurald.drivers.cpu.vector import Vector

#: Vectors of a bundle whose sums are narrowed together, which puts its channels in order.
_PACKED_VECTORS = 4


class Depthwise:
    """Writes the function of a kernel.

    Args:
        plan: of its contraction.
        tail: what follows the sums.
        arguments: the values that it takes: output, input, packed weights, and what the body reads.
        zero: the input's zero point.
    """

    def __init__(self, plan: DepthwisePlan, tail: Tail, arguments: Sequence[Value], *, zero: int) -> None:
        self._plan, self._tail, self._scheme = plan, tail, plan.scheme
        self._names = pointer_names(arguments)
        self._output, source, self._weights = (self._names[each] for each in arguments[:3])
        self.code = Instructions(parameter_names(arguments))
        self._epilogue = Epilogue(tail.kernel, plan.scheme.target, self.code, self._names)
        self._single = Vector(self.code, self._scheme.target, 1)
        self._vector = Vector(self.code, self._scheme.target, self._scheme.lanes)
        self._blocks = Blocks(self.code, plan.layout, source=source, zero=zero, outside=self._weights)
        self._interleaving = Interleaving(self.code, plan)
        self._register = self._scheme.target.vector_bytes

    def write(self) -> None:
        """The instructions for the range of grains."""
        plan, code, v = self._plan, self.code, self._single
        units, block = str(plan.units), plan.layout.block // plan.rows
        first = v.two("udiv", "i64", "%begin", units)
        last = v.two("udiv", "i64", v.two("add", "i64", "%end", str(plan.units - 1)), units)
        with code.loop(first, last, may_be_empty=True) as images:
            before = multiple(code, images.index, plan.units)
            begin = v.call("llvm.smax", "i64", v.two("sub", "i64", "%begin", before), "0")
            end = v.call("llvm.smin", "i64", v.two("sub", "i64", "%end", before), units)
            with code.loop(begin, end, step=block, may_be_empty=True) as blocks:
                stop = v.call("llvm.smin", "i64", v.two("add", "i64", blocks.index, str(block)), end)
                self._write_block(images.index, blocks.index, stop)

    def _row(self, unit: str) -> str:
        """The first row of a unit."""
        plan = self._plan
        row = multiple(self.code, unit, plan.rows)
        if not plan.height % plan.rows:
            return row
        return self._single.call("llvm.smin", "i64", row, str(plan.height - plan.rows))

    def _write_block(self, image: str, first: str, last: str) -> None:
        plan, code, v = self._plan, self.code, self._single
        begin = self._row(first)
        end = v.call("llvm.smin", "i64", multiple(code, last, plan.rows), str(plan.height))
        source = self._blocks.write(image, begin, end)
        offset = HEAD_BYTES
        for bundle in plan.bundles:
            size = ((1 + self._tail.rows) * bundle.vectors + plan.steps(bundle.vectors)) * self._register
            with self._counted(bundle.count) as number:
                weights = opaque(
                    code, address(code, self._weights, str(offset), multiple(code, number, size))
                )
                channel = v.two("add", "i64", multiple(code, number, bundle.channels), str(bundle.first))
                inputs = address(code, source, multiple(code, channel, self._scheme.element_bytes))
                with code.loop(first, last, may_be_empty=True) as units:
                    row = self._row(units.index)
                    inner = v.two("sub", "i64", row, begin)
                    step = plan.layout.rows.stride * plan.layout.row_bytes
                    line = opaque(code, address(code, inputs, multiple(code, inner, step)))
                    top = v.two("add", "i64", multiple(code, image, plan.height), row)
                    self._write_unit(bundle, line, weights, channel, multiple(code, top, plan.width))
            offset += bundle.count * size

    @contextmanager
    def _counted(self, count: int) -> Iterator[str]:
        if count == 1:
            yield "0"
            return
        with self.code.loop("0", str(count)) as loop:
            yield loop.index

    def _write_unit(self, bundle: Bundle, source: str, weights: str, channel: str, position: str) -> None:
        """All positions of the rows of a unit."""
        plan, code, v = self._plan, self.code, self._single
        if plan.is_rolling(bundle):
            self._write_rolling(bundle, source, weights, channel, position)
            return
        tiles = -(-plan.width // plan.pixels(bundle))
        pixels = -(-plan.width // tiles)
        with self._counted(tiles) as tile:
            # Tiles share positions rather than that one of them is shorter.
            column = multiple(code, tile, pixels)
            if plan.width % pixels:
                column = v.call("llvm.smin", "i64", column, str(plan.width - pixels))
            step = plan.layout.columns.stride * plan.layout.pixel_bytes
            start = opaque(code, address(code, source, multiple(code, column, step)))
            at = v.two("add", "i64", position, column)
            totals = self._sums(bundle, pixels, weights, partial(self._interleaving.words, bundle, start))
            words = self._epilogue_words(bundle, weights)
            for pixel, rows in enumerate(totals):
                self._finish(bundle, rows, words, at, pixel, channel)

    def _write_rolling(self, bundle: Bundle, source: str, weights: str, channel: str, position: str) -> None:
        """The positions one after another, of which each carries on the columns that the next one sees too."""
        plan, code, v = self._plan, self.code, self._single
        side, epilogue, pixels = plan.layout.columns, self._epilogue_words(bundle, weights), plan.turn(bundle)
        kept = [(word, column) for word in range(plan.words) for column in plan.kept_columns]
        carried = [
            (self._vector.type("i32"), each)
            for word, column in kept
            for each in self._interleaving.words(bundle, source, word, column)
        ]
        with code.loop("0", str(plan.width), carried, step=pixels) as loop:
            step = side.stride * plan.layout.pixel_bytes
            line = opaque(code, address(code, source, multiple(code, loop.index, step)))
            names = iter(loop.carried)
            known = {each: [next(names) for _ in range(bundle.vectors)] for each in kept}
            for word in range(plan.words):
                for column in plan.new_columns(pixels):
                    known[word, column] = self._interleaving.words(bundle, line, word, column)
            totals = self._sums(bundle, pixels, weights, lambda word, column: known[word, column])
            at = v.two("add", "i64", position, loop.index)
            for pixel, rows in enumerate(totals):
                self._finish(bundle, rows, epilogue, at, pixel, channel)
            further = pixels * side.stride
            loop.results = [each for word, column in kept for each in known[word, column + further]]

    def _load(self, base: str, number: int) -> str:
        """A vector of words of a bundle's constants."""
        at = address(self.code, base, str(number * self._register))
        return self.code.fresh(f"load {self._vector.type('i32')}, ptr {at}, align {self._register}")

    def _sums(
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
                                    self.code, total, each, self._load(weights, factors + vector)
                                )
                                for vector, (total, each) in enumerate(
                                    zip(totals[pixel][row], vectors, strict=True)
                                )
                            ]
        return totals

    def _epilogue_words(self, bundle: Bundle, weights: str) -> list[list[str]]:
        """For each row of words of the epilogue its vectors."""
        return [
            [self._load(weights, (1 + row) * bundle.vectors + each) for each in range(bundle.vectors)]
            for row in range(self._tail.rows)
        ]

    def _finish(
        self,
        bundle: Bundle,
        totals: list[list[str]],
        words: list[list[str]],
        position: str,
        pixel: int,
        channel: str,
    ) -> None:
        """Stores what follows from the sums of so many positions after another one, for each row of a unit."""
        plan, tail = self._plan, self._tail
        target = plan.scheme.target
        is_packed = (
            tail.rescaling is not None
            and bundle.vectors == _PACKED_VECTORS
            and tail.rescaling.type.size_bytes == 1
        )
        if tail.rescaling is not None:
            scale = tail.rescaling.scaled if is_packed else tail.rescaling.write
            # All rows of a vector, while its words are in registers.
            scaled = [
                [scale(self.code, target, sums[vector], [each[vector] for each in words]) for sums in totals]
                for vector in range(bundle.vectors)
            ]
            totals = [list(each) for each in zip(*scaled, strict=True)]
        for row, values in enumerate(totals):
            if tail.rescaling is not None and is_packed:
                values = [tail.rescaling.packed(self.code, target, values, [each[0] for each in words])]
            at = self._single.two("add", "i64", position, str(row * plan.width + pixel))
            self._store(bundle, values, position, row * plan.width + pixel, at, channel)

    def _store(
        self, bundle: Bundle, values: list[str], position: str, number: int, at: str, channel: str
    ) -> None:
        plan, code, tail = self._plan, self.code, self._tail
        lanes, there = plan.scheme.lanes, min(bundle.channels, plan.channels)
        element = "i32"
        if tail.rescaling is not None:
            element = f"i{8 * tail.rescaling.type.size_bytes}"
        whole = self._interleaving.in_order(bundle, values, element)
        if tail.is_stored:
            size = tail.kernel.output.type.size_bytes
            place = self._single.two("add", "i64", multiple(code, position, plan.channels), channel)
            base = opaque(code, code.value(f"getelementptr {element}, ptr {self._output}, i64 {place}"))
            to = address(code, base, str(number * plan.channels * size))
            store_lanes(code, whole, element, bundle.channels, to, there)
            return
        mask = None
        for each in range(bundle.vectors):
            left = there - each * lanes
            if left <= 0:
                break
            if left < lanes:
                mask = "<" + ", ".join(f"i1 {int(lane < left)}" for lane in range(lanes)) + ">"
            part = whole
            if bundle.vectors > 1:
                kind = f"<{bundle.channels} x {element}>"
                picked = ", ".join(f"i32 {each * lanes + lane}" for lane in range(lanes))
                part = code.fresh(f"shufflevector {kind} {whole}, {kind} poison, <{lanes} x i32> <{picked}>")
            axes = (at, self._single.two("add", "i64", channel, str(each * lanes)))
            self._epilogue.write(part, axes, lanes, mask)
