"""Quantised depthwise convolutions: elements of neighbouring rows, interleaved channel by channel, are multiplied in one step.

See `depthwise_plan` for the words that this makes, and for the order of channels.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from neurald.drivers.compiler.graph import Value
from neurald.drivers.cpu.epilogue import Epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.counters import address, multiple
from neurald.drivers.cpu.kernels.int8.blocks import Blocks
from neurald.drivers.cpu.kernels.int8.depthwise_plan import Bundle, DepthwisePlan, lane_channels
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
                weights = address(code, self._weights, str(offset), multiple(code, number, size))
                channel = v.two("add", "i64", multiple(code, number, bundle.channels), str(bundle.first))
                inputs = address(code, source, multiple(code, channel, self._scheme.element_bytes))
                with code.loop(first, last, may_be_empty=True) as units:
                    row = self._row(units.index)
                    inner = v.two("sub", "i64", row, begin)
                    step = plan.layout.rows.stride * plan.layout.row_bytes
                    line = address(code, inputs, multiple(code, inner, step))
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
        plan, code, v = self._plan, self.code, self._single
        tiles = -(-plan.width // plan.pixels(bundle))
        pixels = -(-plan.width // tiles)
        with self._counted(tiles) as tile:
            # Tiles share positions rather than that one of them is shorter.
            column = multiple(code, tile, pixels)
            if plan.width % pixels:
                column = v.call("llvm.smin", "i64", column, str(plan.width - pixels))
            step = plan.layout.columns.stride * plan.layout.pixel_bytes
            start = address(code, source, multiple(code, column, step))
            self._write_tile(bundle, pixels, start, weights, channel, v.two("add", "i64", position, column))

    def _load(self, base: str, number: int) -> str:
        """A vector of words of a bundle's constants."""
        at = address(self.code, base, str(number * self._register))
        return self.code.fresh(f"load {self._vector.type('i32')}, ptr {at}, align {self._register}")

    def _write_tile(
        self, bundle: Bundle, pixels: int, source: str, weights: str, channel: str, position: str
    ) -> None:
        """Some positions of each row of a unit."""
        plan, side = self._plan, self._plan.layout.columns
        starts = [self._load(weights, each) for each in range(bundle.vectors)]
        totals = {(row, pixel): list(starts) for row in range(plan.rows) for pixel in range(pixels)}
        steps = (1 + self._tail.rows) * bundle.vectors
        seen = sorted(
            {pixel * side.stride + tap * side.dilation for pixel in range(pixels) for tap in range(side.taps)}
        )
        for word in range(plan.words):
            for column in seen:
                uses = [
                    (pixel, tap)
                    for pixel in range(pixels)
                    for tap in range(side.taps)
                    if pixel * side.stride + tap * side.dilation == column
                ]
                inputs = self._interleaved(bundle, source, word, column)
                for part in range(plan.parts):
                    for row in range(plan.rows):
                        for pixel, tap in uses:
                            number = ((part * plan.rows + row) * plan.words + word) * side.taps + tap
                            factors = steps + number * bundle.vectors
                            totals[row, pixel] = [
                                self._scheme.step(
                                    self.code, total, each, self._load(weights, factors + vector)
                                )
                                for vector, (total, each) in enumerate(
                                    zip(totals[row, pixel], inputs, strict=True)
                                )
                            ]
        self._finish(bundle, totals, weights, channel, position)

    def _interleaved(self, bundle: Bundle, source: str, word: int, column: int) -> list[str]:
        """The words of a column of the input: vectors of i32."""
        plan, code, scheme = self._plan, self.code, self._scheme
        layout, element = plan.layout, scheme.element
        kind = f"<{bundle.channels} x {element}>"
        lines = []
        for number in range(scheme.group):
            row = word * scheme.group + number
            if row >= layout.rows.taps + plan.rows - 1:
                lines.append("zeroinitializer")
                continue
            offset = row * layout.rows.dilation * layout.row_bytes + column * layout.pixel_bytes
            at = address(code, source, str(offset))
            lines.append(code.fresh(f"load {kind}, ptr {at}, align {scheme.element_bytes}"))
        if bundle.vectors == 1:
            return [self._interleaved_single(lines)]
        if scheme.is_bytes:
            first, second = (self._unpacked(lines[0], lines[1], 1), self._unpacked(lines[2], lines[3], 1))
            parts = [
                each for low, high in zip(first, second, strict=True) for each in self._unpacked(low, high, 2)
            ]
        else:
            parts = self._unpacked(lines[0], lines[1], 2)
        target = self._vector.type("i32")
        return [code.fresh(f"bitcast <{self._register} x i8> {each} to {target}") for each in parts]

    def _unpacked(self, first: str, second: str, size: int) -> list[str]:
        """Pieces of so many bytes of two vectors by turns, from the lower and from the upper halves of each 128 bits."""
        code = self.code
        count = self._register // size
        kind, bytes_ = f"<{count} x i{8 * size}>", f"<{self._register} x i8>"
        names = []
        for each in (first, second):
            is_given = each == "zeroinitializer"
            source = bytes_ if self._scheme.is_bytes else kind
            names.append(each if is_given else code.value(f"bitcast {source} {each} to {kind}"))
        piece = 16 // size
        results = []
        for half in (0, piece // 2):
            picked = [
                start + half + each + side * count
                for start in range(0, count, piece)
                for each in range(piece // 2)
                for side in (0, 1)
            ]
            mask = ", ".join(f"i32 {each}" for each in picked)
            mixed = code.fresh(
                f"shufflevector {kind} {names[0]}, {kind} {names[1]}, <{count} x i32> <{mask}>"
            )
            results.append(code.fresh(f"bitcast {kind} {mixed} to {bytes_}"))
        return results

    def _interleaved_single(self, lines: list[str]) -> str:
        """The bytes of four vectors of as many bytes as there are lanes: words in the order of the channels."""
        code, lanes = self.code, self._scheme.lanes
        halves = []
        for first, second in ((lines[0], lines[1]), (lines[2], lines[3])):
            joined = ", ".join(f"i32 {each}" for each in range(2 * lanes))
            kind = f"<{lanes} x i8>"
            halves.append(
                code.fresh(f"shufflevector {kind} {first}, {kind} {second}, <{2 * lanes} x i32> <{joined}>")
            )
        kind, whole = f"<{2 * lanes} x i8>", f"<{4 * lanes} x i8>"
        joined = ", ".join(f"i32 {each}" for each in range(4 * lanes))
        rows = code.fresh(
            f"shufflevector {kind} {halves[0]}, {kind} {halves[1]}, <{4 * lanes} x i32> <{joined}>"
        )
        # First words to where their channels belong, then bytes within 128 bits.
        words = code.fresh(f"bitcast {whole} {rows} to {self._vector.type('i32')}")
        quarter = lanes // 4
        order = ", ".join(f"i32 {row * quarter + piece}" for piece in range(quarter) for row in range(4))
        kind = self._vector.type("i32")
        words = code.fresh(f"shufflevector {kind} {words}, {kind} poison, <{lanes} x i32> <{order}>")
        bytes_ = code.fresh(f"bitcast {kind} {words} to {whole}")
        order = ", ".join(
            f"i32 {start + 4 * row + each}"
            for start in range(0, 4 * lanes, 16)
            for each in range(4)
            for row in range(4)
        )
        bytes_ = code.fresh(f"shufflevector {whole} {bytes_}, {whole} poison, <{4 * lanes} x i32> <{order}>")
        return code.fresh(f"bitcast {whole} {bytes_} to {kind}")

    def _finish(
        self,
        bundle: Bundle,
        totals: dict[tuple[int, int], list[str]],
        weights: str,
        channel: str,
        position: str,
    ) -> None:
        plan, tail = self._plan, self._tail
        words = [
            [self._load(weights, (1 + row) * bundle.vectors + each) for each in range(bundle.vectors)]
            for row in range(tail.rows)
        ]
        for (row, pixel), sums in totals.items():
            values, target = sums, plan.scheme.target
            if tail.rescaling is not None:
                is_packed = bundle.vectors == _PACKED_VECTORS and tail.rescaling.type.size_bytes == 1
                scale = tail.rescaling.scaled if is_packed else tail.rescaling.write
                values = [
                    scale(self.code, target, total, [each[vector] for each in words])
                    for vector, total in enumerate(sums)
                ]
                if is_packed:
                    values = [tail.rescaling.packed(self.code, target, values)]
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
        whole = self._in_order(bundle, values, element)
        if tail.is_stored:
            size = tail.kernel.output.type.size_bytes
            place = self._single.two("add", "i64", multiple(code, position, plan.channels), channel)
            base = code.value(f"getelementptr {element}, ptr {self._output}, i64 {place}")
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

    def _in_order(self, bundle: Bundle, values: list[str], element: str) -> str:
        """The channels of a bundle in their order, as one vector."""
        code, count = self.code, self._scheme.lanes
        if len(values) == 1:
            return values[0]
        parts = list(values)
        while len(parts) > 1:
            kind = f"<{count} x {element}>"
            joined = ", ".join(f"i32 {each}" for each in range(2 * count))
            parts = [
                code.fresh(f"shufflevector {kind} {first}, {kind} {second}, <{2 * count} x i32> <{joined}>")
                for first, second in zip(parts[::2], parts[1::2], strict=True)
            ]
            count *= 2
        channels = lane_channels(self._scheme, bundle).reshape(-1)
        order = ", ".join(f"i32 {each}" for each in np.argsort(channels))
        kind = f"<{bundle.channels} x {element}>"
        return code.fresh(
            f"shufflevector {kind} {parts[0]}, {kind} poison, <{bundle.channels} x i32> <{order}>"
        )
