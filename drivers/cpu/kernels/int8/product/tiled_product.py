"""Quantised convolutions and matrix products in register tiles.

The inputs of a block of units are packed. Then each panel of weights is multiplied by all tiles of
the block while it is in the first-level cache. Weights are packed at compile time, or, if they are
computed, before the first block. If a product multiplies two computed matrices, images are the left
matrices of batches, and weights are packed for each.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from neurald.drivers.compiler.ir.extents.extent import Extent, has_extents, is_one, same_length
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import (
    LINE_BYTES,
    address,
    lines_of_step,
    multiple,
    prefetch_lines,
    total,
)
from neurald.drivers.cpu.kernels.common.work_items import each_rectangle
from neurald.drivers.cpu.kernels.int8.epilogue.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.packing.input_packing import InputPacker
from neurald.drivers.cpu.kernels.int8.packing.panels import HEAD_BYTES, panel_bytes
from neurald.drivers.cpu.kernels.int8.packing.run_time_panels import RightMatrix, RunTimePanels
from neurald.drivers.cpu.kernels.int8.packing.transposed_input_packing import TransposedInputPacker
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.product.micro_kernel import QuantizedMicroKernel
from neurald.drivers.cpu.kernels.int8.product.results import ResultWriter, is_packed
from neurald.drivers.cpu.kernels.int8.product.tile_kernel import TileMicroKernel
from neurald.drivers.cpu.kernels.int8.product.window_sums import write_window_sums
from neurald.drivers.cpu.kernels.int8.product_time import MAX_NEAR_WEIGHTS_BYTES
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES

#: Units or panels are divided until there are this many work items for threads.
_MIN_WORK_ITEMS = 96
#: Length of tiles for positions that are left if their number is open.
_SHORT_TILE = 4
#: With fewer steps of a tile, computing results between them is slower than after them.
_MIN_STEPS = 4


class TiledProductWriter:
    """Writes the function of a kernel.

    Args:
        plan: the plan of its product.
        epilogue: the epilogue of the kernel.
        arguments: output, input, packed weights, and values that the body reads. The constant
            of `panels.packed_heads` takes the place of weights that are packed at run time.
        zero: the input's zero point.
        sums: True if sums of window inputs are needed too.
        right: the right operand, if it is packed at run time.
        code: receives the instructions; None for those of a new function.
    """

    def __init__(
        self,
        plan: ProductPlan,
        epilogue: QuantizedEpilogue,
        arguments: Sequence[Value],
        *,
        zero: int,
        sums: bool,
        right: RightMatrix | None = None,
        code: Instructions | None = None,
    ) -> None:
        self._plan, self._epilogue, self._has_sums = plan, epilogue, sums
        self._scheme, self._product = plan.scheme, plan.product
        self._names = pointer_names(arguments)
        source, weights = (self._names[each] for each in arguments[1:3])
        self._weights = weights
        self.code = code or Instructions(parameter_names(arguments))
        self._results = ResultWriter(self.code, plan, epilogue, self._names, head=weights)
        self._single = Vector(self.code, plan.scheme.target, 1)
        self._blocks: InputPacker | TransposedInputPacker
        if right is not None and right.is_left_transposed:
            self._blocks = TransposedInputPacker(self.code, plan.layout, source=source, zero=zero)
        else:
            self._blocks = InputPacker(self.code, plan.layout, source=source, zero=zero, padding=weights)
        self._sums = QuantizedMicroKernel(plan, rows=epilogue.rows, has_sums=sums)
        lengths = range(1, 1 + min(_SHORT_TILE, plan.most_pixels - 1)) if plan.is_ragged else ()
        #: The kernels of shorter tiles, by the number of their positions.
        self._shorter = {
            length: QuantizedMicroKernel(plan.shortened(length), rows=epilogue.rows, has_sums=sums)
            for length in lengths
        }
        self._tile_kernel = TileMicroKernel(plan, rows=epilogue.rows) if plan.scheme.has_tiles else None
        self._panel_bytes = panel_bytes(plan, epilogue.rows)
        self._register = plan.scheme.target.vector_bytes
        self._right = right
        self._panels: RunTimePanels | None = None
        if right is not None:
            padding = zero + plan.scheme.shift_of(plan.product.type) if plan.scheme.is_bytes else 0
            self._panels = RunTimePanels(
                self.code,
                plan,
                right,
                (self._names[right.value], weights),
                rows=epilogue.rows,
                padding=padding,
                in_pairs=is_packed(plan, epilogue),
            )

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory per thread: packed inputs, sums of windows and of a tile, and panels."""
        return self._before_panels + (0 if self._panels is None else self._panels.size_bytes)

    @property
    def _before_panels(self) -> int:
        """Offset in scratch memory of panels that are packed at run time."""
        kept = self._totals_bytes if self._plan.spills_accumulators else 0
        return self._before_totals + (2 if self._overlaps else 1) * kept

    @property
    def _totals_bytes(self) -> int:
        """Size of a tile's spilled sums."""
        return self._plan.span * self._plan.vectors * self._register

    @property
    def _before_totals(self) -> int:
        """Offset of a tile's sums in scratch memory."""
        sums = self._plan.positions * self._plan.groups * WORD_BYTES if self._has_sums else 0
        before = self._plan.layout.packed_bytes + sums
        return -(-before // self._register) * self._register

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        if self._tile_kernel is not None:
            self._tile_kernel.configure(self.code)
        self._write_work_items()
        if self._tile_kernel is not None:
            self._tile_kernel.release(self.code)

    @property
    def work_items(self) -> int:
        """Number of work items."""
        return self._plan.work_items * self.divisions

    @property
    def divisions(self) -> int:
        """Number of work items per unit or panel, if these are few for the threads."""
        plan = self._plan
        sizes = plan.units, plan.panels, plan.height, plan.width, plan.rows
        if plan.images != 1 or plan.groups != 1 or has_extents(sizes) or self._panels is not None:
            return 1
        inner = plan.units if plan.shares_panels else plan.panels
        return max(1, min(inner, -(-_MIN_WORK_ITEMS // plan.work_items)))

    def _write_divided(self, divisions: int) -> None:
        """Writes the instructions for a range of work items that are parts of units or panels."""
        plan, code, v = self._plan, self.code, self._single
        inner = plan.units if plan.shares_panels else plan.panels
        with each_rectangle(code, divisions) as (outer, parts):
            first, last = (
                v.binary("udiv", "i64", multiple(code, each, inner), str(divisions)) for each in parts
            )
            panels, (begin, end) = (first, last), outer
            if plan.shares_panels:
                # Without panels there is nothing to do.
                is_empty = code.fresh(f"icmp uge i64 {outer[0]}, {outer[1]}")
                panels, end = outer, last
                begin = code.fresh(f"select i1 {is_empty}, i64 {last}, i64 {first}")
            with code.loop(begin, end, step=plan.block, may_be_empty=True) as blocks:
                self._write_block("0", blocks.index, end, panels)

    def _write_work_items(self) -> None:
        plan, code, v = self._plan, self.code, self._single
        if self.divisions > 1:
            self._write_divided(self.divisions)
            return
        if plan.shares_panels:
            units = str(plan.units)
            with code.loop("0", str(plan.images)) as images, code.loop("0", units, step=plan.block) as blocks:
                self._write_block(images.index, blocks.index, units, ("%begin", "%end"))
            return
        if plan.images == 1:
            self._pack_right("0")
            with code.loop("%begin", "%end", step=plan.block, may_be_empty=True) as blocks:
                self._write_block("0", blocks.index, "%end", ("0", str(plan.panels)))
            return
        units = str(plan.units)
        first = v.binary("udiv", "i64", "%begin", units)
        last = v.binary("udiv", "i64", v.binary("add", "i64", "%end", str(plan.units - 1)), units)
        is_shared = self._right is not None and not self._right.batches
        if is_shared:
            self._pack_right("0")
        with code.loop(first, last, may_be_empty=True) as images:
            if not is_shared:
                self._pack_right(images.index)
            before = multiple(code, images.index, plan.units)
            begin = v.call("llvm.smax", "i64", v.binary("sub", "i64", "%begin", before), "0")
            end = v.call("llvm.smin", "i64", v.binary("sub", "i64", "%end", before), units)
            with code.loop(begin, end, step=plan.block, may_be_empty=True) as blocks:
                self._write_block(images.index, blocks.index, end, ("0", str(plan.panels)))

    def _pack_right(self, image: str) -> None:
        """Packs the weights of a batch, if they are packed at run time."""
        if self._panels is not None:
            memory = address(self.code, "%scratch", str(self._before_panels))
            self._panels.write(image, memory)

    def _source_of(self, image: str) -> str:
        """Returns the number of the image that is read for an image of the output."""
        product = self._product
        if self._right is None:
            return image
        size = product.positions * product.depth * product.type.size_bytes
        return self._right.image_of(self.code, image, size)

    def _write_block(self, image: str, first: str, end: str, panels: tuple[str, str]) -> None:
        plan, code, v = self._plan, self.code, self._single
        last = v.call("llvm.smin", "i64", v.binary("add", "i64", first, str(plan.block)), end)
        begin = self._row(first)
        rows = v.call("llvm.smin", "i64", multiple(code, last, plan.rows), str(plan.height))
        block = self._blocks.write(self._source_of(image), begin, rows)
        if self._has_sums:
            sums = address(code, "%scratch", str(plan.layout.packed_bytes))
            count = v.binary("sub", "i64", rows, begin)
            write_window_sums(code, plan, block, count, head=self._weights, sums=sums)
        if plan.groups == 1:
            self._write_panels(image, block, (first, last, begin), panels, "0")
            return
        with code.loop("0", str(plan.groups)) as groups:
            self._write_panels(image, block, (first, last, begin), panels, groups.index)

    def _write_panels(
        self, image: str, block: str, units: tuple[str, str, str], panels: tuple[str, str], group: str
    ) -> None:
        """Writes every panel for units[0] to before units[1]; units[2] is the block's first row."""
        source = address(
            self.code,
            block,
            multiple(self.code, group, self._product.depth * self._scheme.element_bytes),
        )
        if self._overlaps:
            self._write_overlapping(image, source, units, panels, group)
            return
        with self.code.loop(*panels, may_be_empty=self._plan.shares_panels) as loop:
            panel, channel = self._panel_of(loop.index, group)
            with self.code.loop(units[0], units[1], may_be_empty=True) as each:
                unit = each.index, units[2], units[0]
                self._write_unit(image, source, panel, channel, unit, group)

    def _panel_of(self, index: str, group: str) -> tuple[str, str]:
        """Returns the address of a panel of a group, and its first channel in the output."""
        plan, code, v = self._plan, self.code, self._single
        width = plan.vectors * self._scheme.lanes
        start = multiple(code, index, width)
        if plan.panels * width > self._product.channels:
            start = v.call("llvm.smin", "i64", start, str(plan.start(plan.panels - 1, 0)))
        number = v.binary("add", "i64", multiple(code, group, plan.panels), index)
        offset = multiple(code, number, self._panel_bytes)
        if self._panels is None:
            panel = address(code, self._weights, offset, str(HEAD_BYTES))
        else:
            panel = address(code, "%scratch", offset, str(self._before_panels))
        return panel, v.binary("add", "i64", multiple(code, group, self._product.channels), start)

    @property
    def _overlaps(self) -> bool:
        """True if the results of a tile are computed while the next one is multiplied."""
        plan, kernel = self._plan, self._tile_kernel
        sizes = plan.units, plan.height, plan.width, plan.rows, plan.pitch
        return kernel is not None and not has_extents(sizes) and kernel.steps >= _MIN_STEPS

    def _write_overlapping(
        self, image: str, source: str, units: tuple[str, str, str], panels: tuple[str, str], group: str
    ) -> None:
        """Writes the tiles of all panels; see `_write_panels`.

        In each turn, a tile is multiplied, and the results of the one before are computed between
        its steps. The processor does both at once, because they do not depend on each other.
        """
        plan, code, v, kernel = self._plan, self.code, self._single, self._tile_kernel
        assert kernel is not None  # noqa: S101 - see `_overlaps`
        of_unit = 1 if plan.has_rows else plan.row_tiles
        tiles = multiple(code, v.binary("sub", "i64", units[1], units[0]), of_unit)
        whole = v.binary("mul", "i64", v.binary("sub", "i64", panels[1], panels[0]), tiles)
        is_empty = code.value(f"icmp eq i64 {whole}, 0")
        end = code.value(f"select i1 {is_empty}, i64 0, i64 {total(code, whole, '1')}")
        has_gaps = plan.span != plan.pixels
        shape = (plan.rows, plan.width, plan.pitch) if has_gaps else (1, plan.pixels, plan.pixels)
        results = self._results.turns(*shape[:2])
        of_step = -(-results // kernel.steps)
        ahead = self._lines_ahead(kernel.steps)

        def place(number: str) -> tuple[tuple[str, str], str, str]:
            """Returns the panel and its first channel, and the row and column of a tile."""
            # Not hoisted, since there may be none.
            panel, tile = (code.fresh(f"{each} i64 {number}, {tiles}") for each in ("udiv", "urem"))
            return self._panel_of(total(code, panels[0], panel), group), *self._tile_place(tile, units[0])

        with code.loop("0", end, may_be_empty=True) as turns:
            number = turns.index
            turn = code.value(f"and i64 {number}, 1")
            is_tile = code.fresh(f"icmp ult i64 {number}, {whole}")
            (panel, _), row, column = place(v.call("llvm.smin", "i64", number, total(code, whole, "-1")))
            inner = v.binary("sub", "i64", row, units[2])
            window = address(
                code,
                source,
                multiple(code, inner, self._product.rows.stride * plan.layout.row_bytes),
                multiple(code, column, self._product.columns.stride * plan.layout.pixel_bytes),
            )
            is_first = code.fresh(f"icmp eq i64 {number}, 0")
            (last, channel), row, column = place(v.call("llvm.smax", "i64", total(code, number, "-1"), "0"))
            top = v.binary("add", "i64", multiple(code, image, plan.height), row)
            position = total(code, multiple(code, top, plan.width), column)
            others = self._totals_of(code.value(f"xor i64 {turn}, 1"))
            constants = self._rows_of(last)
            part = code.fresh(f"urem i64 {number}, {tiles}")
            following = address(
                code, panel, str(self._panel_bytes), multiple(code, part, kernel.steps * ahead * LINE_BYTES)
            )
            left = code.fresh(f"select i1 {is_first}, i64 0, i64 {results}")
            with code.when(is_tile):
                kernel.begin(code, panel)
            with code.loop("0", str(kernel.steps)) as steps:
                lines = address(code, following, multiple(code, steps.index, ahead * LINE_BYTES))
                prefetch_lines(code, lines, ahead)
                with code.when(is_tile):
                    kernel.step(code, window, panel, steps.index)
                first = multiple(code, steps.index, of_step)
                stop = v.call("llvm.umin", "i64", total(code, first, str(of_step)), left)
                with code.loop(first, stop, may_be_empty=True) as some:
                    self._results.write_some(others, constants, (position, channel), some.index, shape)
            with code.when(is_tile):
                kernel.end(code, self._totals_of(turn))

    def _lines_ahead(self, steps: int) -> int:
        """Returns how many cache lines of the next panel each step of a tile prefetches.

        The tiles of a block together prefetch the whole panel. Small weights stay in the
        second-level cache.
        """
        plan = self._plan
        if plan.panels * self._panel_bytes <= MAX_NEAR_WEIGHTS_BYTES or self._panels is not None:
            return 0
        tiles = plan.block * (1 if plan.has_rows else plan.row_tiles)
        return lines_of_step(self._panel_bytes, tiles * steps)

    def _tile_place(self, tile: str, unit: str) -> tuple[str, str]:
        """Returns the first row and column of a tile, given its number from a unit on."""
        plan, v = self._plan, self._single
        if plan.has_rows or is_one(plan.row_tiles):
            return self._row(total(self.code, unit, tile)), "0"
        after, of_unit = (v.binary(each, "i64", tile, str(plan.row_tiles)) for each in ("udiv", "urem"))
        column = multiple(self.code, of_unit, plan.pixels)
        if plan.width % plan.pixels:
            column = v.call("llvm.smin", "i64", column, str(plan.width - plan.pixels))
        return self._row(total(self.code, unit, after)), column

    def _row(self, unit: str) -> str:
        """Returns the first row of a unit; the last unit may share rows with the one before."""
        plan = self._plan
        row = multiple(self.code, unit, plan.rows)
        if plan.is_ragged:
            return row
        if not has_extents((plan.height, plan.rows)) and not plan.height % plan.rows:
            return row
        return self._single.call("llvm.smin", "i64", row, str(plan.height - plan.rows))

    def _write_unit(
        self, image: str, source: str, panel: str, channel: str, unit: tuple[str, str, str], group: str
    ) -> None:
        """Writes the tiles of a unit, given its number and the first row and unit of the block."""
        plan, code, v = self._plan, self.code, self._single
        number, begin, first = unit
        row = self._row(number)
        top = v.binary("add", "i64", multiple(code, image, plan.height), row)
        position = multiple(code, top, plan.width)
        inner = v.binary("sub", "i64", row, begin)
        start = address(
            code, source, multiple(code, inner, self._product.rows.stride * plan.layout.row_bytes)
        )
        offset = multiple(code, inner, plan.width)
        before = multiple(code, v.binary("sub", "i64", number, first), plan.row_tiles)
        if plan.is_ragged:
            self._write_ragged((start, panel), (position, channel), (row, offset, before), group)
            return
        if plan.has_rows:
            memory = start, panel, self._sums.prefetch_address(code, panel, before)
            self._write_tile(memory, (position, channel), offset, group)
            return
        # The last tile overlaps the one before, so that all have the same length.
        with self._tiles(plan.row_tiles) as tile:
            column = multiple(code, tile, plan.pixels)
            if isinstance(plan.width, Extent) or plan.width % plan.pixels:
                column = v.call("llvm.smin", "i64", column, str(plan.width - plan.pixels))
            step = self._product.columns.stride * plan.layout.pixel_bytes
            window = address(code, start, multiple(code, column, step))
            memory = (
                window,
                panel,
                self._sums.prefetch_address(code, panel, v.binary("add", "i64", before, tile)),
            )
            at = v.binary("add", "i64", position, column), channel
            inner = v.binary("add", "i64", offset, column)
            self._write_tile(memory, at, inner, group, place=(row, tile))

    def _write_ragged(
        self, memory: tuple[str, str], at: tuple[str, str], of_unit: tuple[str, str, str], group: str
    ) -> None:
        """Writes a unit in tiles of full length, and what is left in shorter ones.

        Args:
            memory: addresses of its first window and of its panel.
            at: its first position and channel.
            of_unit: its row, its offset in the block, and the number of tiles before it.
            group: the channel group.
        """
        plan, code, v, longest = self._plan, self.code, self._single, self._plan.pixels
        start, panel = memory
        row, offset, before = of_unit
        position, channel = at
        step = self._product.columns.stride * plan.layout.pixel_bytes
        whole, left = str(plan.width // longest), str(plan.width % longest)
        if not isinstance(plan.width, Extent):
            # A unit of single pixels, each of which is a row.
            step = self._product.rows.stride * plan.layout.row_bytes
            left = v.call("llvm.smin", "i64", v.binary("sub", "i64", str(plan.height), row), str(longest))
            whole = v.binary("udiv", "i64", left, str(longest))
            left = v.binary("urem", "i64", left, str(longest))

        def write(length: int, index: str) -> None:
            sums = self._sums if length == longest else self._shorter[length]
            window = address(code, start, multiple(code, index, step))
            ahead = sums.prefetch_address(code, panel, before)
            place = v.binary("add", "i64", position, index), channel
            inner = v.binary("add", "i64", offset, index)
            self._write_tile((window, panel, ahead), place, inner, group, sums, length)

        with code.loop("0", whole, may_be_empty=True) as loop:
            write(longest, multiple(code, loop.index, longest))
        first = code.value(f"mul i64 {whole}, {longest}")
        short = min(longest - 1, _SHORT_TILE)
        if not short:
            return
        if short == _SHORT_TILE:
            shorter = v.binary("udiv", "i64", left, str(short))
            with code.loop("0", shorter, may_be_empty=True) as loop:
                write(short, v.binary("add", "i64", first, multiple(code, loop.index, short)))
            first = v.binary("add", "i64", first, multiple(code, shorter, short))
            left = v.binary("urem", "i64", left, str(short))
            short -= 1
        for length in range(short, 0, -1):
            with code.when(code.fresh(f"icmp eq i64 {left}, {length}")):
                write(length, first)

    @contextmanager
    def _tiles(self, count: int) -> Iterator[str]:
        if is_one(count):
            yield "0"
            return
        with self.code.loop("0", str(count)) as loop:
            yield loop.index

    def _write_tile(
        self,
        memory: tuple[str, str, str],
        at: tuple[str, str],
        offset: str,
        group: str,
        sums: QuantizedMicroKernel | None = None,
        length: int | None = None,
        place: tuple[str, str] | None = None,
    ) -> None:
        """Writes a tile.

        Args:
            memory: addresses of its first window, its panel, and the prefetched part.
            at: its first position and channel.
            offset: its offset in the block.
            group: the channel group.
            sums, length: micro-kernel and number of positions, of a tile of another length.
            place: see `QuantizedMicroKernel.call`.
        """
        plan, code = self._plan, self.code
        if length is not None:
            plan = plan.shortened(length)
        sums, window_sums = sums or self._sums, None
        if self._has_sums:
            window_sums = address(
                code,
                "%scratch",
                str(plan.layout.packed_bytes),
                multiple(code, offset, WORD_BYTES),
                multiple(code, group, plan.positions * WORD_BYTES),
            )
        # A unit of several rows is as wide as the output, so its positions are contiguous.
        _, panel, _ = memory
        if self._tile_kernel is not None:
            source, _, _ = memory
            self._tile_kernel.call(code, source, panel, self._totals)
            self._write_rows(self._rows_of(panel), at, self._totals)
        elif plan.spills_accumulators:
            sums.call(code, *memory, window_sums, self._totals, place)
            self._results.write_spilled(self._totals, self._rows_of(panel), *at, count=length)
        else:
            totals = sums.write(code, *memory, window_sums)
            self._results.write(totals, self._rows_of(panel), *at)

    def _write_rows(self, rows: list[list[str]], at: tuple[str, str], sums: str) -> None:
        """Writes the results of a tile with spilled sums, without those between its rows."""
        plan, code = self._plan, self.code
        if same_length(plan.span, plan.pixels):
            self._results.write_spilled(sums, rows, *at)
            return
        position, channel = at
        with code.loop("0", str(plan.rows)) as loop:
            line = plan.pitch * plan.vectors * self._register
            totals = address(code, sums, multiple(code, loop.index, line))
            first = self._single.binary("add", "i64", position, multiple(code, loop.index, plan.width))
            self._results.write_spilled(totals, rows, first, channel, count=plan.width)

    def _rows_of(self, panel: str) -> list[list[str]]:
        """Loads the epilogue constants of a panel."""
        return [self._sums.load_row(self.code, panel, 1 + row) for row in range(self._epilogue.rows)]

    @property
    def _totals(self) -> str:
        """Address of a tile's spilled sums."""
        return address(self.code, "%scratch", str(self._before_totals))

    def _totals_of(self, turn: str) -> str:
        """Address of the spilled sums of every other tile."""
        return address(self.code, self._totals, multiple(self.code, turn, self._totals_bytes))
