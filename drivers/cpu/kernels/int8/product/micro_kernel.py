"""Micro-kernel of quantised products: multiplies the windows of a tile by a panel of weights."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, has_extents
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.accumulator_spill import spill
from neurald.drivers.cpu.kernels.common.addressing import LINE_BYTES, address, multiple, prefetch_lines
from neurald.drivers.cpu.kernels.int8.packing.panels import panel_bytes, weights_row
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.product.tile_sums import (
    TileEntry,
    TileForm,
    tile_sums,
)
from neurald.drivers.cpu.kernels.int8.product.word_products import add_words, joined, separated
from neurald.drivers.cpu.kernels.int8.product_time import MAX_NEAR_WEIGHTS_BYTES
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES
from neurald.drivers.cpu.target.routine import NAME

#: Larger weights exceed the second-level cache, so the next panel is prefetched.
_MAX_RESIDENT_BYTES = 256 << 10
#: Smaller ones may still come from memory each time, because other layers evict them; prefetching
#: costs little if there are several positions per tile. Only `MAX_NEAR_WEIGHTS_BYTES` stay near.
_NIBBLE_BITS = 4
#: Size of an entry of a table.
_ENTRY_BYTES = 8
#: The high bits of four bytes, as a signed number.
_HIGH_NIBBLES = 0xF0F0F0F0 - (1 << 32)
#: Name, without the number of its positions, and parameters of the function that computes a tile.
_FUNCTION = f"@{NAME}.sums"
_ROW = "%row"
_PARAMETERS = ("%source", "%panel", "%ahead", "%common", "%totals")


class QuantizedMicroKernel:
    """Writes the accumulation of a tile.

    Args:
        plan: the plan of the product.
        rows: number of rows of epilogue constants in a panel.
        has_sums: True if all channels of a position share an addend.
        is_streamed: True if panels of any size come from memory, since each is one of many
            matrices.
    """

    def __init__(self, plan: ProductPlan, *, rows: int, has_sums: bool, is_streamed: bool = False) -> None:
        self._plan, self._rows, self._has_sums = plan, rows, has_sums
        self._scheme, self._product = plan.scheme, plan.product
        self._register = plan.scheme.target.vector_bytes
        self._panel_bytes = panel_bytes(plan, rows)
        # Bytes prefetched every `_period` steps.
        tiles = estimate(plan.row_tiles * plan.block)
        most = max(plan.unrolled, tiles // plan.vectors)
        self._period = next(each for each in range(most, 0, -1) if plan.run_steps % each == 0)
        # A panel for a single tile of few positions is read as fast as memory allows anyway.
        has_many = plan.spills_accumulators
        is_large = plan.panels * self._panel_bytes > (
            MAX_NEAR_WEIGHTS_BYTES if has_many else _MAX_RESIDENT_BYTES
        )
        is_prefetched = is_streamed or (is_large and (tiles > 1 or has_many))
        self._prefetched_bytes = -(-plan.step_bytes * self._period // tiles) if is_prefetched else 0
        row_step = self._product.rows.stride * plan.layout.row_bytes
        column_step = self._product.columns.stride * plan.layout.pixel_bytes
        self._offsets: list[int] = []
        if not plan.scheme.has_tiles:
            columns = plan.pixels // plan.rows
            self._offsets = [
                row * row_step + column * column_step for row in range(plan.rows) for column in range(columns)
            ]

    def prefetch_address(self, code: Instructions, panel: str, tile: str) -> str:
        """Returns the address of the next panel's part that is prefetched during a tile.

        The tiles of a block together prefetch the whole panel, in equal parts.

        Args:
            code: receives the instructions.
            panel: address of the current panel.
            tile: number of the tile in the block.
        """
        part = self._plan.steps // self._period * self._prefetched_bytes
        return address(code, panel, str(self._panel_bytes), multiple(code, tile, part))

    def call(
        self,
        code: Instructions,
        source: str,
        panel: str,
        prefetched_at: str,
        window_sums: str | None,
        totals: str,
        place: tuple[str, str] | None = None,
    ) -> None:
        """Calls a function that stores the accumulators to memory; see `write`.

        In a separate function, register allocation keeps the accumulators in registers.

        Args:
            code: receives the instructions.
            source, panel, prefetched_at, window_sums: see `write`.
            totals: destination, aligned to a vector; the sums of a position are contiguous.
            place: the tile's row in the output and number in the row, for plans with `taps`.
        """
        shared = self._shared()
        if shared is not None:
            form, entries = shared
            table = self._table(code, entries, place)
            common = window_sums or "null"
            code.call(tile_sums(form), source, panel, prefetched_at, common, totals, table)
            return
        # The kernel may have tiles of another size as well.
        function = f"{_FUNCTION}{len(self._offsets)}"
        row, parameters, arguments = self._row_bytes, _typed(_PARAMETERS), ""
        if isinstance(row, Extent):
            # The inner function does not see extents.
            parameters, arguments = f"{parameters}, i64 {_ROW}", f", i64 {row}"
        if not any(f"{function}(" in each for each in code.globals):
            inner = Instructions((*_PARAMETERS, _ROW))
            sums = self.write(
                inner,
                *_PARAMETERS[:3],
                _PARAMETERS[3] if window_sums else None,
                row=_ROW if isinstance(row, Extent) else None,
            )
            spill(Vector(inner, self._scheme.target, self._scheme.lanes), "i32", sums, _PARAMETERS[4])
            head = f"define internal void {function}({parameters}) noinline nounwind {{"
            code.globals.append("\n".join((head, *inner.lines, "  ret void", "}")))
            code.declarations.update(inner.declarations)
        given = _typed((source, panel, prefetched_at, window_sums or "null", totals))
        code.effect(f"call void {function}({given}{arguments})")

    @property
    def is_shared(self) -> bool:
        """True if many kernels share the function, which tiles of plans with `taps` need."""
        return self._shared() is not None

    def _table(self, code: Instructions, entries: dict[TileEntry, int], place: tuple[str, str] | None) -> str:
        """Returns the address of the table for a tile at a place."""
        taps = self._plan.taps
        if taps is None or place is None:
            return _constant(code, [entries[each] for each in TileEntry])
        words: list[int] = []
        for number, (rows, columns) in enumerate(taps.sets):
            changed = self._entries_of(entries, number, rows, columns)
            words += [changed[each] for each in TileEntry]
        size = len(TileEntry) * _ENTRY_BYTES
        distances = len(taps.columns) * size, size
        offsets = []
        for at, numbers, distance in zip(place, (taps.of_row, taps.of_tile), distances, strict=True):
            known = _constant(code, [number * distance for number in numbers])
            entry = address(code, known, multiple(code, at, _ENTRY_BYTES))
            offsets.append(code.fresh(f"load i64, ptr {entry}, align {_ENTRY_BYTES}"))
        return address(code, _constant(code, words), *offsets)

    def _entries_of(
        self, entries: dict[TileEntry, int], number: int, rows: range, columns: range
    ) -> dict[TileEntry, int]:
        """Returns the entries for a set of taps, given those for all of them."""
        plan = self._plan
        assert plan.taps is not None  # noqa: S101 - there are sets
        run_bytes = plan.run_steps * plan.step_bytes
        before = rows.start * plan.runs + columns.start
        changed = {
            TileEntry.HEAD: entries[TileEntry.HEAD] + before * run_bytes,
            TileEntry.SOURCE: rows.start * entries[TileEntry.ROW] + columns.start * entries[TileEntry.RUN],
            TileEntry.ROWS: len(rows),
            TileEntry.RUNS: len(columns),
            TileEntry.OMITTED: (plan.runs - len(columns)) * run_bytes,
        }
        if plan.taps.has_starts:
            changed[TileEntry.START] = (1 + self._rows + number) * plan.vectors * self._register
        return entries | changed

    def _shared(self) -> tuple[TileForm, dict[TileEntry, int]] | None:
        """Returns the form and the table of the subroutine that computes a tile.

        Returns None if the tile needs a function of its own: if it adds up several steps in a turn
        of a loop, lengths are open, or there are too few registers for the addresses.
        """
        plan, product = self._plan, self._product
        rows = plan.rows if plan.has_rows else 1
        if plan.has_nibbles or plan.unrolled > 1 or isinstance(rows, Extent):
            return None
        columns = plan.pixels // rows
        form = TileForm.of(
            rows,
            columns,
            scheme=self._scheme,
            vectors=plan.vectors,
            has_sums=self._has_sums,
            prefetches=-(-self._prefetched_bytes // LINE_BYTES),
            skips_taps=plan.skips_taps,
            omits_taps=plan.taps is not None,
        )
        steps = self._period if self._prefetched_bytes else 1
        words, rest = divmod(product.depth, self._scheme.group)
        divides = not rest and not words % steps
        row_step = product.rows.stride * plan.layout.row_bytes
        column_step = product.columns.stride * plan.layout.pixel_bytes
        is_wide = columns >= rows
        entries = {
            TileEntry.STEP: column_step if is_wide else row_step,
            TileEntry.LINE_STEP: row_step if is_wide else column_step,
            TileEntry.HEAD: weights_row(plan, self._rows) * plan.vectors * self._register,
            TileEntry.START: 0,
            TileEntry.SOURCE: 0,
            TileEntry.ROWS: product.rows.taps,
            TileEntry.ROW: self._row_bytes,
            TileEntry.RUNS: plan.runs,
            TileEntry.RUN: product.columns.dilation * plan.layout.pixel_bytes,
            TileEntry.OMITTED: 0,
            TileEntry.PARTS: plan.run_steps // steps,
            TileEntry.STEPS: steps,
            TileEntry.AHEAD: self._prefetched_bytes,
            TileEntry.FIRST: (1 + self._rows) * plan.vectors * self._register,
            TileEntry.SKIPPED_RUNS: int(plan.runs > 1),
            TileEntry.SKIPPED_PARTS: words // steps if plan.runs == 1 and divides else 0,
        }
        if form.addresses > form.most_addresses or has_extents(tuple(entries.values())):
            return None
        return form, entries

    def write(
        self,
        code: Instructions,
        source: str,
        panel: str,
        prefetched_at: str,
        window_sums: str | None,
        *,
        row: str | None = None,
    ) -> list[str]:
        """Computes the sums, vectors of i32; those of a position are consecutive.

        Args:
            code: receives the instructions.
            source: address of the first window.
            panel: address of the panel.
            prefetched_at: see `prefetch_address`.
            window_sums: address of the shared addends of the positions, if there are any.
            row: name of the variable that has the distance of the rows of a window in bytes; None
                if this code is for one distance.
        """
        v = self._vector(code)
        starts = self.load_row(code, panel, 0)
        totals: list[str] = []
        for each in range(len(self._offsets)):
            if window_sums is None:
                totals += starts
                continue
            at = address(code, window_sums, str(each * WORD_BYTES))
            word = v.splat("i32", code.fresh(f"load i32, ptr {at}, align 4"))
            totals += [code.fresh(f"add {v.type('i32')} {start}, {word}") for start in starts]
        before = weights_row(self._plan, self._rows) * self._plan.vectors * self._register
        weights = address(code, panel, str(before))
        words = source, weights, prefetched_at, row or str(self._row_bytes), self._first_taps(code, panel)
        vectors, positions = self._plan.vectors, len(self._offsets)
        begun = [v.number("i32", 0)] * len(totals) if self._plan.has_nibbles else totals
        sums = joined(code, self._scheme, begun, vectors)
        sums = self._add_windows(code, sums, *words)
        sums = separated(code, self._scheme, sums, vectors, positions)
        if not self._plan.has_nibbles:
            return sums
        # Products are 16 times as large, see `_add_pair`.
        bits = v.number("i32", _NIBBLE_BITS)
        return [
            v.binary("add", "i32", v.binary("ashr", "i32", each, bits), begin)
            for each, begin in zip(sums, totals, strict=True)
        ]

    def _first_taps(self, code: Instructions, panel: str) -> tuple[str, str]:
        """Returns the first row and column of a panel's windows that are multiplied."""
        if not self._plan.skips_taps:
            return "0", "0"
        row = (1 + self._rows) * self._plan.vectors * self._register
        found = []
        for number in range(2):
            at = address(code, panel, str(row + number * WORD_BYTES))
            word = code.fresh(f"load i32, ptr {at}, align {WORD_BYTES}")
            found.append(code.fresh(f"zext i32 {word} to i64"))
        return found[0], found[1]

    def load_row(self, code: Instructions, panel: str, row: int) -> list[str]:
        """Loads the vectors of a row of words of a panel."""
        kind, vectors = self._vector(code).type("i32"), self._plan.vectors
        at = [address(code, panel, str((row * vectors + each) * self._register)) for each in range(vectors)]
        return [code.fresh(f"load {kind}, ptr {each}, align {self._register}") for each in at]

    def _vector(self, code: Instructions) -> Vector:
        return Vector(code, self._scheme.target, self._scheme.lanes)

    def _carried(self, totals: Sequence[str]) -> list[tuple[str, str]]:
        kind = f"<{self._scheme.lanes} x i32>"
        return [(kind, each) for each in totals]

    @property
    def _row_bytes(self) -> int:
        """Distance of window rows."""
        return self._product.rows.dilation * self._plan.layout.row_bytes

    def _add_windows(
        self,
        code: Instructions,
        totals: list[str],
        source: str,
        weights: str,
        prefetched_at: str,
        row: str,
        first: tuple[str, str],
    ) -> list[str]:
        """Adds all products from the first window row and column on."""
        plan, side = self._plan, self._product.rows
        if side.taps == 1:
            return self._add_row(code, totals, source, weights, prefetched_at, first[1])
        with code.loop(first[0], str(side.taps), self._carried(totals)) as loop:
            line = address(code, source, code.value(f"mul i64 {loop.index}, {row}"))
            words = self._advance(code, (weights, prefetched_at), loop.index, plan.runs * plan.run_steps)
            loop.results = self._add_row(code, list(loop.carried), line, *words, first[1])
        return loop.results

    def _advance(
        self, code: Instructions, pointers: tuple[str, str], number: str, steps: int
    ) -> tuple[str, str]:
        """Advances the weights and the prefetch address by `number` × `steps` steps."""
        weights, prefetched_at = pointers
        prefetched = steps // self._period * self._prefetched_bytes
        return (
            address(code, weights, multiple(code, number, steps * self._plan.step_bytes)),
            address(code, prefetched_at, multiple(code, number, prefetched)),
        )

    def _add_row(
        self,
        code: Instructions,
        totals: list[str],
        source: str,
        weights: str,
        prefetched_at: str,
        first: str,
    ) -> list[str]:
        plan = self._plan
        if plan.runs == 1:
            return self._add_run(code, totals, source, weights, prefetched_at, first)
        with code.loop(first, str(plan.runs), self._carried(totals)) as loop:
            step = self._product.columns.dilation * plan.layout.pixel_bytes
            run = address(code, source, multiple(code, loop.index, step))
            words = self._advance(code, (weights, prefetched_at), loop.index, plan.run_steps)
            loop.results = self._add_run(code, list(loop.carried), run, *words)
        return loop.results

    def _add_run(
        self,
        code: Instructions,
        totals: list[str],
        source: str,
        weights: str,
        prefetched_at: str,
        first: str = "0",
    ) -> list[str]:
        """Adds the products of a run, whose windows begin at column `first`."""
        steps, period = self._plan.run_steps, self._period
        if not self._prefetched_bytes:
            begin = self._first_part(code, first, self._plan.unrolled)
            begin = multiple(code, begin, self._plan.unrolled)
            return self._add_steps(code, totals, source, weights, steps, begin)
        with code.loop(
            self._first_part(code, first, period), str(steps // period), self._carried(totals)
        ) as loop:
            words = address(code, source, multiple(code, loop.index, period * self._scheme.word_bytes))
            panel, lines = self._advance(code, (weights, prefetched_at), loop.index, period)
            prefetch_lines(code, lines, -(-self._prefetched_bytes // LINE_BYTES))
            loop.results = self._add_steps(code, list(loop.carried), words, panel, period)
        return loop.results

    def _first_part(self, code: Instructions, column: str, steps: int) -> str:
        """Returns the first part of a run, with merged columns of windows, of this many steps.

        If the columns do not consist of such parts, none is skipped.
        """
        words, rest = divmod(self._product.depth, self._scheme.group)
        return "0" if rest or words % steps else multiple(code, column, words // steps)

    def _add_steps(
        self,
        code: Instructions,
        totals: list[str],
        source: str,
        weights: str,
        count: int,
        first: str = "0",
    ) -> list[str]:
        """Computes the sums after consecutive words, of which the first ones may be left out."""
        plan, at_once = self._plan, self._plan.weights_per_byte
        unrolled = max(1, plan.unrolled // at_once) * at_once
        add = self._add_pair if plan.has_nibbles else self._add_step
        done = count - count % unrolled
        if done > unrolled:
            with code.loop(first, str(done), self._carried(totals), step=unrolled) as loop:
                words = address(code, source, multiple(code, loop.index, self._scheme.word_bytes))
                step_bytes = plan.step_bytes // at_once
                panel = address(code, weights, multiple(code, loop.index, step_bytes))
                results = list(loop.carried)
                for step in range(0, unrolled, at_once):
                    results = add(code, results, words, panel, step)
                loop.results = results
            totals = loop.results
        else:
            done = 0
        for step in range(done, count, at_once):
            totals = add(code, totals, source, weights, step)
        return totals

    def _add_step(
        self, code: Instructions, totals: list[str], source: str, weights: str, step: int
    ) -> list[str]:
        """Computes the sums after another word of every window."""
        return self._multiplied(code, totals, source, self._load_weights(code, weights, step), step)

    def _add_pair(
        self, code: Instructions, totals: list[str], source: str, weights: str, step: int
    ) -> list[str]:
        """Computes the sums after two words of every window, with weights that share bytes.

        In the high bits of a byte, a weight of 4 bits stands for 16 times its value.
        """
        v = self._vector(code)
        high, bits = v.number("i32", _HIGH_NIBBLES), v.number("i32", _NIBBLE_BITS)
        pairs = self._load_weights(code, weights, step // 2)
        for offset in range(2):
            moved = pairs if offset else [v.binary("shl", "i32", each, bits) for each in pairs]
            columns = [v.binary("and", "i32", each, high) for each in moved]
            totals = self._multiplied(code, totals, source, columns, step + offset)
        return totals

    def _load_weights(self, code: Instructions, weights: str, number: int) -> list[str]:
        """Loads the registers of weights of a step, after `number` times as many."""
        count, kind = self._plan.vectors * self._scheme.word_registers, self._vector(code).type("i32")
        columns = []
        for each in range(count):
            at = address(code, weights, str((number * count + each) * self._register))
            columns.append(code.fresh(f"load {kind}, ptr {at}, align {self._register}"))
        return columns

    def _multiplied(
        self, code: Instructions, totals: list[str], source: str, columns: Sequence[str], step: int
    ) -> list[str]:
        """Adds the products of a word of every window and vectors of weights."""
        after = step * self._scheme.word_bytes
        places = (address(code, source, str(offset + after)) for offset in self._offsets)
        return add_words(code, self._scheme, totals, places, columns)


def _constant(code: Instructions, numbers: Sequence[int]) -> str:
    """Returns the address of a constant table."""
    words = ", ".join(f"i64 {each}" for each in numbers)
    content = f"private unnamed_addr constant [{len(numbers)} x i64] [{words}]"
    for each in code.globals:
        name, _, text = each.partition(" = ")
        if text == content:
            return name
    name = f"@{NAME}.tile{len(code.globals)}"
    code.globals.append(f"{name} = {content}")
    return name


def _typed(names: Sequence[str]) -> str:
    """Returns pointers as a list of parameters or arguments."""
    return ", ".join(f"ptr {each}" for each in names)
