"""Convolutions and matrix products of quantised values, with constant weights: sums of bytes or halves in register tiles.

A block of units is packed, then every panel goes through all tiles of the block while its weights are in the first cache.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from neurald.drivers.compiler.graph import Value
from neurald.drivers.cpu.dialect import stored
from neurald.drivers.cpu.epilogue import epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.counters import address, multiple
from neurald.drivers.cpu.kernels.int8.blocks import Blocks
from neurald.drivers.cpu.kernels.int8.panels import HEAD_BYTES, panel_bytes
from neurald.drivers.cpu.kernels.int8.plan import Plan
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES
from neurald.drivers.cpu.kernels.int8.stores import store_lanes
from neurald.drivers.cpu.kernels.int8.tail import Tail
from neurald.drivers.cpu.kernels.int8.window_sums import WindowSums
from neurald.drivers.cpu.vector import Vector

#: Weights beyond this do not stay in the second cache, so that the next panel is fetched while one is multiplied.
_RESIDENT_BYTES = 256 << 10


class Products:
    """Writes the function of a kernel.

    Args:
        plan: of its product.
        tail: what follows the sums.
        arguments: the values that it takes: output, input, packed weights, and what the body reads.
        zero: the input's zero point.
        sums: whether the inputs of windows are summed, too.
    """

    def __init__(self, plan: Plan, tail: Tail, arguments: Sequence[Value], *, zero: int, sums: bool) -> None:
        self._plan, self._tail, self._has_sums = plan, tail, sums
        self._scheme, self._product = plan.scheme, plan.product
        self._names = pointer_names(arguments)
        output, source, weights = (self._names[each] for each in arguments[:3])
        self._output, self._weights = output, weights
        self.code = Instructions(parameter_names(arguments))
        self._single = Vector(self.code, plan.scheme.target, 1)
        self._vector = Vector(self.code, plan.scheme.target, plan.scheme.lanes)
        self._blocks = Blocks(self.code, plan.layout, source=source, zero=zero, outside=weights)
        self._panel_bytes = panel_bytes(plan, tail.rows)
        self._register = plan.scheme.target.vector_bytes

    @property
    def scratch_bytes(self) -> int:
        """What a thread needs: packed inputs, and sums of windows."""
        sums = self._plan.positions * self._plan.groups * WORD_BYTES if self._has_sums else 0
        return self._plan.layout.packed_bytes + sums

    def write(self) -> None:
        """The instructions for the range of grains."""
        plan, code, v = self._plan, self.code, self._single
        if plan.shares_panels:
            units = str(plan.units)
            with code.loop("0", str(plan.images)) as images, code.loop("0", units, step=plan.block) as blocks:
                self._write_block(images.index, blocks.index, units, ("%begin", "%end"))
            return
        if plan.images == 1:
            with code.loop("%begin", "%end", step=plan.block, may_be_empty=True) as blocks:
                self._write_block("0", blocks.index, "%end", ("0", str(plan.panels)))
            return
        units = str(plan.units)
        first = v.two("udiv", "i64", "%begin", units)
        last = v.two("udiv", "i64", v.two("add", "i64", "%end", str(plan.units - 1)), units)
        with code.loop(first, last, may_be_empty=True) as images:
            before = multiple(code, images.index, plan.units)
            begin = v.call("llvm.smax", "i64", v.two("sub", "i64", "%begin", before), "0")
            end = v.call("llvm.smin", "i64", v.two("sub", "i64", "%end", before), units)
            with code.loop(begin, end, step=plan.block, may_be_empty=True) as blocks:
                self._write_block(images.index, blocks.index, end, ("0", str(plan.panels)))

    def _write_block(self, image: str, first: str, end: str, panels: tuple[str, str]) -> None:
        plan, code, v = self._plan, self.code, self._single
        last = v.call("llvm.smin", "i64", v.two("add", "i64", first, str(plan.block)), end)
        begin = self._row(first)
        rows = v.call("llvm.smin", "i64", multiple(code, last, plan.rows), str(plan.height))
        block = self._blocks.write(image, begin, rows)
        if self._has_sums:
            sums = address(code, "%scratch", str(plan.layout.packed_bytes))
            WindowSums(code, plan, head=self._weights, sums=sums).write(block, begin, rows)
        if plan.groups == 1:
            self._write_panels(image, block, (first, last, begin), panels, "0")
            return
        with code.loop("0", str(plan.groups)) as groups:
            self._write_panels(image, block, (first, last, begin), panels, groups.index)

    def _write_panels(
        self, image: str, block: str, units: tuple[str, str, str], panels: tuple[str, str], group: str
    ) -> None:
        """Every panel with the units from the first to before the last; the third of `units` is where their rows begin."""
        plan, code, v = self._plan, self.code, self._single
        width = plan.vectors * self._scheme.lanes
        with code.loop(*panels, may_be_empty=plan.shares_panels) as loop:
            start = multiple(code, loop.index, width)
            if plan.panels * width > self._product.channels:
                start = v.call("llvm.smin", "i64", start, str(plan.start(plan.panels - 1, 0)))
            number = v.two("add", "i64", multiple(code, group, plan.panels), loop.index)
            offset = multiple(code, number, self._panel_bytes)
            panel = address(code, self._weights, offset, str(HEAD_BYTES))
            channel = v.two("add", "i64", multiple(code, group, self._product.channels), start)
            source = address(
                code, block, multiple(code, group, self._product.depth * self._scheme.element_bytes)
            )
            with code.loop(units[0], units[1], may_be_empty=True) as each:
                self._write_unit(image, source, panel, channel, (each.index, units[2]), group)

    def _row(self, unit: str) -> str:
        """The first row of a unit; the last one shares rows with the one before it, so that all are of one height."""
        plan = self._plan
        row = multiple(self.code, unit, plan.rows)
        if not plan.height % plan.rows:
            return row
        return self._single.call("llvm.smin", "i64", row, str(plan.height - plan.rows))

    def _write_unit(
        self, image: str, source: str, panel: str, channel: str, unit: tuple[str, str], group: str
    ) -> None:
        """The tiles of a unit: its number, and the first row of the block."""
        plan, code, v = self._plan, self.code, self._single
        number, begin = unit
        row = self._row(number)
        top = v.two("add", "i64", multiple(code, image, plan.height), row)
        position = multiple(code, top, plan.width)
        inner = v.two("sub", "i64", row, begin)
        start = address(
            code, source, multiple(code, inner, self._product.rows.stride * plan.layout.row_bytes)
        )
        place = multiple(code, inner, plan.width)
        if plan.rows > 1:
            self._write_tile(plan.rows, plan.width, (start, panel), (position, channel), place, group)
            return
        # Tiles of a row share positions rather than that one of them is shorter.
        with self._tiles(plan.row_tiles) as tile:
            column = multiple(code, tile, plan.pixels)
            if plan.width % plan.pixels:
                column = v.call("llvm.smin", "i64", column, str(plan.width - plan.pixels))
            step = self._product.columns.stride * plan.layout.pixel_bytes
            memory = address(code, start, multiple(code, column, step)), panel
            at = v.two("add", "i64", position, column), channel
            inner = v.two("add", "i64", place, column)
            self._write_tile(1, plan.pixels, memory, at, inner, group)

    @contextmanager
    def _tiles(self, count: int) -> Iterator[str]:
        if count == 1:
            yield "0"
            return
        with self.code.loop("0", str(count)) as loop:
            yield loop.index

    def _write_tile(
        self, rows: int, columns: int, memory: tuple[str, str], at: tuple[str, str], place: str, group: str
    ) -> None:
        """A tile: pointers to its first window and to its panel, its first position and channel, its place in the block."""
        plan, code = self._plan, self.code
        row_step = self._product.rows.stride * plan.layout.row_bytes
        column_step = self._product.columns.stride * plan.layout.pixel_bytes
        offsets = [row * row_step + column * column_step for row in range(rows) for column in range(columns)]
        source, panel = memory
        kind = self._vector.type("i32")
        starts = self._load_row(panel, 0)
        totals = []
        for each in range(len(offsets)):
            if self._has_sums:
                at_place = self._single.two("add", "i64", place, str(each))
                sums = address(
                    code,
                    "%scratch",
                    str(plan.layout.packed_bytes),
                    multiple(code, at_place, WORD_BYTES),
                    multiple(code, group, plan.positions * WORD_BYTES),
                )
                common = self._vector.splat("i32", code.fresh(f"load i32, ptr {sums}, align 4"))
                totals += [code.fresh(f"add {kind} {start}, {common}") for start in starts]
            else:
                totals += starts
        weights = address(code, panel, str((1 + self._tail.rows) * plan.vectors * self._register))
        totals = self._add_windows(totals, offsets, source, weights)
        self._finish(totals, rows, columns, panel, at)

    def _load_row(self, panel: str, row: int) -> list[str]:
        """The vectors of words of a row of a panel."""
        code, vectors = self.code, self._plan.vectors
        return [
            code.fresh(
                f"load {self._vector.type('i32')}, "
                f"ptr {address(code, panel, str((row * vectors + each) * self._register))}, align {self._register}"
            )
            for each in range(vectors)
        ]

    def _carried(self, totals: Sequence[str]) -> list[tuple[str, str]]:
        return [(self._vector.type("i32"), each) for each in totals]

    def _add_windows(self, totals: list[str], offsets: list[int], source: str, weights: str) -> list[str]:
        """All products added to the sums."""
        plan, code, side = self._plan, self.code, self._product.rows
        run_bytes = plan.run_steps * plan.vectors * self._register
        if side.taps == 1:
            return self._add_row(totals, offsets, source, weights, run_bytes)
        with code.loop("0", str(side.taps), self._carried(totals)) as loop:
            line = address(code, source, multiple(code, loop.index, side.dilation * plan.layout.row_bytes))
            words = address(code, weights, multiple(code, loop.index, plan.runs * run_bytes))
            loop.results = self._add_row(list(loop.carried), offsets, line, words, run_bytes)
        return loop.results

    def _add_row(
        self, totals: list[str], offsets: list[int], source: str, weights: str, run_bytes: int
    ) -> list[str]:
        plan, code = self._plan, self.code
        if plan.runs == 1:
            return self._add_run(totals, offsets, source, weights)
        with code.loop("0", str(plan.runs), self._carried(totals)) as loop:
            step = self._product.columns.dilation * plan.layout.pixel_bytes
            run = address(code, source, multiple(code, loop.index, step))
            words = address(code, weights, multiple(code, loop.index, run_bytes))
            loop.results = self._add_run(list(loop.carried), offsets, run, words)
        return loop.results

    def _add_run(self, totals: list[str], offsets: list[int], source: str, weights: str) -> list[str]:
        plan, code = self._plan, self.code
        turn = plan.unrolled
        done = plan.run_steps - plan.run_steps % turn
        vectors_bytes = plan.vectors * self._register
        if done > turn:
            with code.loop("0", str(done), self._carried(totals), step=turn) as loop:
                words = address(code, source, multiple(code, loop.index, WORD_BYTES))
                panel = address(code, weights, multiple(code, loop.index, vectors_bytes))
                results = list(loop.carried)
                for step in range(turn):
                    results = self._add_step(results, offsets, words, panel, step)
                loop.results = results
            totals = loop.results
        else:
            done = 0
        for step in range(done, plan.run_steps):
            totals = self._add_step(totals, offsets, source, weights, step)
        return totals

    def _add_step(
        self, totals: list[str], offsets: list[int], source: str, weights: str, step: int
    ) -> list[str]:
        """The sums after another word of every window."""
        plan, code, v = self._plan, self.code, self._vector
        kind = v.type("i32")
        columns = []
        for each in range(plan.vectors):
            offset = (step * plan.vectors + each) * self._register
            at = address(code, weights, str(offset))
            columns.append(code.fresh(f"load {kind}, ptr {at}, align {self._register}"))
            if plan.panels * self._panel_bytes > _RESIDENT_BYTES:
                code.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
                ahead = address(code, weights, str(offset + self._panel_bytes))
                code.effect(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 3, i32 1)")
        results = []
        for number, offset in enumerate(offsets):
            at = address(code, source, str(offset + step * WORD_BYTES))
            word = v.splat("i32", code.fresh(f"load i32, ptr {at}, align 1"))
            for each, column in enumerate(columns):
                total = totals[number * plan.vectors + each]
                results.append(self._scheme.step(code, total, word, column))
        return results

    def _finish(self, totals: list[str], rows: int, columns: int, panel: str, at: tuple[str, str]) -> None:
        """What follows the sums."""
        plan, tail = self._plan, self._tail
        words = [self._load_row(panel, 1 + row) for row in range(tail.rows)]
        position, channel = at
        if is_packed(plan, tail):
            self._finish_packed(totals, words, position, channel)
            return
        for number in range(rows * columns):
            # A unit of several rows is as wide as the output, so that positions follow one another.
            for vector in range(plan.vectors):
                total = totals[number * plan.vectors + vector]
                if tail.rescaling is not None:
                    total = tail.rescaling.write(
                        self.code, plan.scheme.target, total, [row[vector] for row in words]
                    )
                offset = plan.start(0, vector)
                self._store(total, position, number, channel, offset)

    def _finish_packed(self, totals: list[str], words: list[list[str]], position: str, channel: str) -> None:
        """The same for stored bytes: of two positions, two vectors each are narrowed and stored together."""
        plan, code, rescaling = self._plan, self.code, self._tail.rescaling
        assert rescaling is not None  # noqa: S101 - see `is_packed`
        vectors, lanes, target = plan.vectors, plan.scheme.lanes, plan.scheme.target
        place = self._single.two("add", "i64", multiple(code, position, self._product.width), channel)
        base = code.value(f"getelementptr i8, ptr {self._output}, i64 {place}")
        count = len(totals) // vectors
        for first in range(0, count, 2):
            numbers = [first, first + 1] if first + 1 < count else [first]
            for vector in range(0, vectors, 2):
                scaled = [
                    rescaling.scaled(
                        code, target, totals[number * vectors + each], [row[each] for row in words]
                    )
                    for number in numbers
                    for each in (vector, vector + 1)
                ]
                mixed = rescaling.packed(code, target, (scaled * 2)[:4])
                for half, number in enumerate(numbers):
                    # Each 128 bits hold eight channels of the one position, and then eight of the other.
                    order = ", ".join(
                        f"i32 {16 * (each // 8) + 8 * half + each % 8}" for each in range(2 * lanes)
                    )
                    piece = code.fresh(
                        f"shufflevector <64 x i8> {mixed}, <64 x i8> poison, <{2 * lanes} x i32> <{order}>"
                    )
                    to = address(code, base, str(number * self._product.width + vector * lanes))
                    code.effect(f"store <{2 * lanes} x i8> {piece}, ptr {to}, align 1")

    def _store(self, total: str, position: str, number: int, channel: str, offset: int) -> None:
        plan, code, tail = self._plan, self.code, self._tail
        lanes, channels = plan.scheme.lanes, self._product.channels
        row = self._single.two("add", "i64", position, str(number))
        column = self._single.two("add", "i64", channel, str(offset))
        if tail.is_stored:
            kind, size = stored(tail.kernel.output.type), tail.kernel.output.type.size_bytes
            place = self._single.two("add", "i64", multiple(code, position, self._product.width), channel)
            base = code.value(f"getelementptr {kind}, ptr {self._output}, i64 {place}")
            at = address(code, base, str((number * self._product.width + offset) * size))
            store_lanes(code, total, kind, lanes, at, min(lanes, channels))
            return
        mask = None
        if channels < lanes:
            mask = "<" + ", ".join(f"i1 {int(lane < channels)}" for lane in range(lanes)) + ">"
        epilogue(
            tail.kernel,
            plan.scheme.target,
            code,
            total,
            (row, column),
            lanes,
            mask=mask,
            pointers=self._names,
        )


def is_packed(plan: Plan, tail: Tail) -> bool:
    """Whether stored bytes are narrowed from pairs of vectors, with instructions of AVX-512."""
    rescaling = tail.rescaling
    is_bytes = rescaling is not None and rescaling.type.size_bytes == 1
    return plan.scheme.is_bytes and plan.has_pairs and tail.is_stored and is_bytes
