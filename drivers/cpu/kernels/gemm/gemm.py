"""Tiled FLOAT32 products: divides positions into tiles and channels into panels.

A work item is a tile (or a row of tiles) of positions with a panel of channels. If there are few
weights, each tile is multiplied by all panels while its inputs are in the first-level cache. If
there are many, each panel is multiplied by all positions while it is in the second-level cache, and
the next panel is prefetched meanwhile. If there are many inputs, too, positions are divided into
blocks, whose inputs stay in the second-level cache while all panels go through them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, is_one
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import Epilogue
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.accumulator_spill import each_spilled_position, spill
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, prefetch, total
from neurald.drivers.cpu.kernels.common.bias import initial_sums, split_bias
from neurald.drivers.cpu.kernels.common.borders import tile_start, write_chosen
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.tile import Tile, rows_of_tile
from neurald.drivers.cpu.kernels.common.window import TapSegment, TileRun, tap_segments, tile_runs
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.kernels.gemm.digit_sums import DigitCopy, DigitSums
from neurald.drivers.cpu.kernels.gemm.micro_kernel import FloatMicroKernel, TileShape, WeightLayout
from neurald.drivers.cpu.kernels.gemm.operand_packing import OutputRange, SourceCopy
from neurald.drivers.cpu.target.routine import MAX_ORDERED_UNITS, OrderedUnits
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: With at most this many terms, a tile is faster than its output lines arrive, so these are
#: prefetched.
_MAX_PREFETCHED_TERMS = 64
#: Vectors of results that are computed together from spilled sums, to hide latencies.
_RESULTS_TOGETHER = 4
#: Packs the panel that begins with a channel, given the index along each batch dimension.
PackPanel = Callable[[Sequence[str], str], None]


class _Panel(Struct, frozen=True, kw_only=True):
    """The operands of a work item.

    Attributes:
        source: address of the image.
        weights: address of the panel.
        position: the image's first position in the output.
        channel: the first channel in the output.
        tile: number of the first tile with this panel.
    """

    source: str
    weights: str
    position: str
    channel: str
    tile: str


class ProductMemory(Struct, frozen=True, kw_only=True):
    """The memory of a product's numbers.

    Attributes:
        source: name of the input's memory.
        pointers: names of the memory of the kernel's output and of all values that its body reads.
        pack_panel: packs a panel before it is used; None if panels are packed in advance.
        copy: the copy of the input that the product reads; None if it reads the input.
        totals: memory for the sums of a tile, whose results are then written in a loop; None to
            write out all of them.
    """

    source: str
    pointers: Mapping[Value, str]
    pack_panel: PackPanel | None = None
    copy: SourceCopy | None = None
    totals: str | None = None


class GemmWriter:
    """Writes a function that computes a product in tiles.

    Args:
        code: receives the instructions.
        target: the target of the code.
        kernel: see `flattened`.
        product: its contraction.
        tile: size of tiles.
        weights: how they are read.
        memory: where its numbers are.
    """

    def __init__(
        self,
        code: Instructions,
        target: Target,
        kernel: Kernel,
        product: WindowedProduct,
        tile: Tile,
        weights: WeightLayout,
        memory: ProductMemory,
    ) -> None:
        self._pack_panel, self._copy, self._totals = memory.pack_panel, memory.copy, memory.totals
        self._code, self._target, self._product = code, target, product
        self._kernel, self._bias = split_bias(kernel)
        self._epilogue = Epilogue(self._kernel, target, code, memory.pointers)
        self._tile, self._weights = tile, weights
        self._source, self._pointers = memory.source, memory.pointers
        self._single = Vector(code, target, 1)
        rows = rows_of_tile(product, tile.positions)
        self._row_runs = tile_runs(product.rows, rows) if rows > 1 else ()
        self._column_runs = tile_runs(
            product.columns, product.columns.positions if rows > 1 else tile.positions
        )
        self._is_one_row = product.rows.positions == 1
        self._is_panel_major = weights.is_panel_major or memory.pack_panel is not None
        #: Units of each block but the last one, which may have fewer.
        self._block_units = -(-self._all_units // weights.blocks)
        self._shares_positions = weights.shares_positions and memory.pack_panel is None
        self._offsets = tile.offsets(product.channels)
        self._mask: str | None = None
        if not isinstance(product.channels, Extent) and tile.lanes > product.channels:
            exists = [lane < product.channels for lane in range(tile.lanes)]
            self._mask = Vector(code, target, tile.lanes).numbers("i1", exists)
        tiles = estimate(self._block_units) * estimate(self._tiles)
        is_prefetched = tiles > 1 and weights.is_panel_major and weights.panel_bytes > 0
        self._prefetched_tiles = tiles if is_prefetched else 0
        self._prefetches_inputs = tiles > 1 and self._is_one_row and not is_prefetched
        self._sums = self._new_sums(tile.positions)
        #: Writes the last panel, if not all of its vectors are computed.
        self._shorter: GemmWriter | None = None
        if tile.left_out:
            vectors = tile.vectors - tile.left_out
            self._shorter = GemmWriter(
                code,
                target,
                kernel,
                product,
                replace(tile, vectors=vectors, left_out=0),
                replace(weights, vectors=weights.vectors[:vectors]),
                replace(memory, pack_panel=None),
            )

    def _new_sums(self, positions: int) -> FloatMicroKernel | DigitSums:
        """Returns the micro-kernel of tiles with this many positions."""
        if isinstance(self._copy, DigitCopy):
            return DigitSums(self._code, self._target, self._tile, self._weights, self._copy)
        return FloatMicroKernel(
            self._code,
            self._target,
            self._product,
            replace(self._tile, positions=positions),
            self._weights,
            tiles=self._prefetched_tiles,
            prefetches_inputs=self._prefetches_inputs,
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """Dimensions of the work items."""
        batches = tuple(each.extent for each in self._product.batches)
        if self._has_blocks:
            return (*batches, -(-self._all_units // self._block_units), self._tile.panels, self._block_units)
        positions = self._product.images, self._units
        panels = (self._tile.panels,)
        return (*batches, *panels, *positions) if self._is_panel_major else (*batches, *positions, *panels)

    @property
    def units(self) -> OrderedUnits | None:
        """The positions that work items compute, in the order in which threads share them."""
        product = self._product
        lengths = product.images, product.rows.positions, product.columns.positions, self._tile.panels
        if any(isinstance(each, Extent) for each in lengths) or self._pack_panel is not None:
            return None
        if any(not is_one(each.extent) for each in product.batches):
            return None
        if product.images * self._units > MAX_ORDERED_UNITS:
            return None
        if self._is_panel_major and not self._shares_positions and self._tile.panels > 1:
            return None
        if self._has_blocks:
            return None
        width = product.columns.positions
        if self._is_one_row:
            parts = [(start, start + run.length) for run in self._column_runs for start in run.starts]
        elif self._row_runs:
            parts = [
                (start * width, (start + run.length) * width)
                for run in self._row_runs
                for start in run.starts
            ]
        else:
            parts = [(row * width, (row + 1) * width) for row in range(product.rows.positions)]
        size = product.rows.positions * width
        found = [
            (image * size + begin, image * size + end)
            for image in range(product.images)
            for begin, end in parts
        ]
        return OrderedUnits(
            begins=tuple(begin for begin, _ in found),
            ends=tuple(end for _, end in found),
            items=self._tile.panels,
        )

    @property
    def _units(self) -> int:
        """Number of units that an image's positions are divided into."""
        if self._is_one_row:
            return sum(run.count for run in self._column_runs)
        return sum(run.count for run in self._row_runs) or self._product.rows.positions

    @property
    def _all_units(self) -> int:
        """Number of units of all images."""
        return self._units * self._product.images

    @property
    def _has_blocks(self) -> bool:
        """True if work items are ordered by blocks of positions first, then by panels."""
        return self._weights.blocks > 1

    @property
    def _tiles(self) -> int:
        """Number of tiles in a unit."""
        return 1 if self._is_one_row or self._row_runs else sum(run.count for run in self._column_runs)

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        code = self._code
        order = list(range(len(self.extents)))
        if self._is_panel_major and self._shares_positions:
            # Images and units before panels.
            order[-3:] = order[-2], order[-1], order[-3]
        with each_work_item(code, self.extents, order) as (position, number), ExitStack() as stack:
            *batches, first, second, third = position
            if self._has_blocks:
                panel, step = second, third
                index = total(code, multiple(code, first, self._block_units), step)
                if self._all_units % self._block_units:
                    exists = code.value(f"icmp ult i64 {index}, {self._all_units}")
                    stack.enter_context(code.when(exists))
                image, unit = "0", index
                if self._product.images > 1:
                    image = code.value(f"udiv i64 {index}, {self._units}")
                    unit = code.value(f"urem i64 {index}, {self._units}")
            else:
                panel, image, unit = (
                    (first, second, third) if self._is_panel_major else (third, first, second)
                )
                step = total(code, multiple(code, image, self._units), unit)
            channel = multiple(code, panel, self._tile.width)
            if not is_one(self._tile.panels):
                last = str(self._product.channels - self._tile.width)
                channel = self._single.call("llvm.smin", "i64", channel, last)
            is_first = code.value(f"icmp eq i64 {number}, 0")
            if self._pack_panel is not None:
                is_new = code.value(f"icmp eq i64 {step}, 0")
                with code.when(code.value(f"or i1 {is_first}, {is_new}")):
                    self._pack_panel(batches, channel)
            if self._copy is not None:
                self._copy_inputs(self._copy, (batches, image), (panel, unit, number), is_first)
            self._write_panel(self._panel(batches, panel, channel, image, step), panel, unit)

    def _write_panel(self, panel: _Panel, number: str, unit: str) -> None:
        """Writes a unit with a panel, given the panel's number."""
        shorter, code = self._shorter, self._code
        if shorter is None:
            self._write_unit(panel, unit)
            return
        first, left_out = self._weights.vectors[self._tile.left_out], self._tile.left_out
        last = replace(
            panel,
            weights=address(code, panel.weights, str(first)),
            channel=total(code, panel.channel, str(left_out * self._tile.lanes)),
        )
        is_last = code.value(f"icmp eq i64 {number}, {self._tile.panels - 1}")
        with code.when(is_last):
            shorter._write_unit(last, unit)
        with code.when(code.value(f"xor i1 {is_last}, true")):
            self._write_unit(panel, unit)

    def _copy_inputs(
        self,
        copy: SourceCopy,
        at: tuple[Sequence[str], str],
        item: tuple[str, str, str],
        is_first: str,
    ) -> None:
        """Copies the inputs of a unit, unless an earlier work item of the range did.

        Args:
            copy: copies them.
            at: the index along each batch dimension, and the image.
            item: the panel, the unit, and the work item's number in the range.
            is_first: an i1 that is true for the first work item of the range.
        """
        code = self._code
        if copy.is_whole:
            with code.when(is_first):
                copy.write_all(code)
            return
        panel, unit, number = item
        is_needed = code.value(f"icmp eq i64 {panel}, 0")
        if self._is_panel_major and not self._shares_positions:
            # A range may begin with any panel. Until it comes to the same unit again, no unit is
            # copied.
            count = self._block_units
            is_new = code.value(f"icmp ult i64 {number}, {count}")
            is_needed = code.value(f"or i1 {is_needed}, {is_new}")
        else:
            is_needed = code.value(f"or i1 {is_needed}, {is_first}")
        begins = code.value(f"or i1 {is_first}, {code.value(f'icmp eq i64 {unit}, 0')}")
        are_columns = self._is_one_row and is_one(self._product.rows.length)
        if self._is_one_row and not are_columns:
            # Every column depends on all rows.
            is_needed = code.value(f"and i1 {is_needed}, {begins}")
        continues = code.value(f"xor i1 {begins}, true")

        def write(run: TileRun, start: str) -> None:
            positions = OutputRange(first=start, count=run.length, are_rows=not are_columns)
            copy.write(code, at, positions, continues)

        with code.when(is_needed):
            if are_columns:
                write_chosen(code, self._column_runs, unit, write)
            elif self._row_runs:
                write_chosen(code, self._row_runs, unit, write)
            else:
                row = "0" if self._is_one_row else unit
                copy.write(code, at, OutputRange(first=row, count=1, are_rows=True), continues)

    def _panel(self, batches: Sequence[str], panel: str, channel: str, image: str, number: str) -> _Panel:
        code, product, weights = self._code, self._product, self._weights
        known = list(zip(batches, product.batches, strict=True))
        return _Panel(
            source=address(
                code,
                self._source,
                *(multiple(code, at, each.source_bytes) for at, each in known),
                multiple(code, image, product.image_bytes),
            ),
            weights=address(
                code,
                weights.pointer,
                *(multiple(code, at, each.weights * weights.set_bytes) for at, each in known),
                multiple(code, panel, weights.panel_bytes),
                multiple(code, channel, weights.channel_bytes),
            ),
            position=total(
                code,
                *(multiple(code, at, each.positions) for at, each in known),
                multiple(code, image, product.rows.positions * product.columns.positions),
            ),
            channel=total(code, *(multiple(code, at, each.channels) for at, each in known), channel),
            tile=multiple(code, number, self._tiles),
        )

    def _needed_positions(self) -> str | None:
        """Returns how many positions are needed, of which there is one row; None if all are."""
        limit, positions = self._kernel.limit, self._product.columns.positions
        if limit is None or self._product.batches or not is_one(self._product.images):
            return None
        if isinstance(positions, Extent) or positions % limit.bound:
            return None
        count = self._code.load(f"load i32, ptr {self._pointers[limit.count]}")
        return multiple(self._code, self._code.value(f"sext i32 {count} to i64"), positions // limit.bound)

    def _write_unit(self, panel: _Panel, unit: str) -> None:
        if self._is_one_row:
            rows, needed = tap_segments((self._product.rows.taps_at(0),)), self._needed_positions()

            def write(run: TileRun, start: str) -> None:
                is_needed: AbstractContextManager[None] = nullcontext()
                if needed is not None:
                    is_needed = self._code.when(self._code.fresh(f"icmp slt i64 {start}, {needed}"))
                with is_needed:
                    self._write_tile(self._shape(1, run, rows), panel, "0", start)

            write_chosen(self._code, self._column_runs, unit, write)
        elif self._row_runs:
            (whole,) = self._column_runs
            write_chosen(
                self._code,
                self._row_runs,
                unit,
                lambda run, start: self._write_tile(
                    self._shape(run.length, whole, tap_segments(run.taps)), panel, start, "0"
                ),
            )
        else:
            self._write_row(panel, unit)

    def _shape(self, rows: int, run: TileRun, row_segments: tuple[TapSegment, ...] | None) -> TileShape:
        return TileShape(
            rows=rows,
            columns=run.length,
            row_segments=row_segments,
            column_segments=tap_segments(run.taps),
        )

    def _write_row(self, panel: _Panel, row: str) -> None:
        """Writes the tiles of a row one after another."""
        side = self._product.rows
        taps = (TapSegment(taps=range(side.taps), members=frozenset((0,))),) if side.is_inside else None
        done = 0
        for run in self._column_runs:
            shape = self._shape(1, run, taps)
            if not isinstance(run.count, Extent) and run.count == 1:
                self._write_tile(shape, panel, row, str(run.first), str(done))
            else:
                is_open = isinstance(run.count, Extent)
                with self._code.loop("0", str(run.count), may_be_empty=is_open) as loop:
                    column = tile_start(self._code, run, loop.index)
                    number = total(self._code, loop.index, str(done))
                    self._write_tile(shape, panel, row, column, number)
            done += run.count

    def _write_tile(self, shape: TileShape, panel: _Panel, row: str, column: str, number: str = "0") -> None:
        """Writes a tile, given its number in its unit."""
        code, product, tile = self._code, self._product, self._tile
        start = address(
            code,
            panel.source,
            multiple(code, row, product.rows.stride * product.row_bytes),
            multiple(code, column, product.columns.stride * product.pixel_bytes),
            str(
                -product.rows.padding_before * product.row_bytes
                - product.columns.padding_before * product.pixel_bytes
            ),
        )
        first = total(code, panel.position, multiple(code, row, product.columns.positions), column)
        if estimate(product.terms) <= _MAX_PREFETCHED_TERMS and self._kernel.output_offset is None:
            self._prefetch_output(shape, first, panel.channel)
        micro_kernel = self._sums
        if isinstance(product.columns.positions, Extent) and shape.positions < tile.positions:
            micro_kernel = self._new_sums(shape.positions)
        ahead = micro_kernel.prefetch_address(panel.weights, total(code, panel.tile, number))
        sums = micro_kernel.accumulate(shape, self._starts(panel), start, (panel.weights, ahead), row)
        if self._totals is not None:
            self._write_spilled(self._totals, shape.positions, sums, first, panel.channel)
            return
        for index in range(shape.positions):
            offset = index // shape.columns * product.columns.positions + index % shape.columns
            position = total(code, first, str(offset))
            self._write_position(sums[index * tile.vectors :][: tile.vectors], position, panel.channel)

    def _write_position(self, sums: Sequence[str], position: str, channel: str) -> None:
        """Writes the results of a position."""
        for each, offset in zip(sums, self._offsets, strict=True):
            at = position, total(self._code, channel, str(offset))
            self._epilogue.write(each, at, self._tile.lanes, self._mask)

    def _write_spilled(
        self, totals: str, positions: int, sums: Sequence[str], first: str, channel: str
    ) -> None:
        """Writes the results of a tile, whose positions are consecutive, in a loop."""
        code, tile = self._code, self._tile
        v = Vector(code, self._target, tile.lanes)
        spill(v, "float", sums, totals)

        def write(index: str, some: Sequence[str]) -> None:
            for number in range(len(some) // tile.vectors):
                position = total(code, first, index, str(number))
                self._write_position(some[number * tile.vectors :][: tile.vectors], position, channel)

        together = min(positions, -(-_RESULTS_TOGETHER // tile.vectors))
        each_spilled_position(v, "float", (positions, tile.vectors), totals, write, together=together)

    def _starts(self, panel: _Panel) -> list[str]:
        """Returns the initial sums of a position."""
        return [
            initial_sums(
                self._code,
                self._target,
                self._kernel,
                self._bias,
                total(self._code, panel.channel, str(offset)),
                self._tile.lanes,
                self._pointers,
                self._mask,
            )
            for offset in self._offsets
        ]

    def _prefetch_output(self, shape: TileShape, position: str, channel: str) -> None:
        """Prefetches the output of a tile."""
        code, product, output = self._code, self._product, self._kernel.output
        size = output.type.size_bytes
        row = multiple(code, position, product.width * size)
        begin = address(code, self._pointers[output], row, multiple(code, channel, size))
        for index in range(shape.positions):
            offset = index // shape.columns * product.columns.positions + index % shape.columns
            for first in self._offsets:
                prefetch(
                    code, address(code, begin, str((offset * product.width + first) * size)), is_written=True
                )
