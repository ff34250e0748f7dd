"""Quantised depthwise convolution, which multiplies several rows of a window in one step.

The elements of neighbouring rows are interleaved to packed words; `depthwise_plan` describes these
words and the order of channels.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import Epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, opaque, total
from neurald.drivers.cpu.kernels.int8.depthwise.interleaving import Addresses, Interleaving
from neurald.drivers.cpu.kernels.int8.depthwise.micro_kernel import DepthwiseMicroKernel
from neurald.drivers.cpu.kernels.int8.depthwise.plan import ChannelBlock, DepthwisePlan
from neurald.drivers.cpu.kernels.int8.depthwise.rolling_rows import shared_positions, write_rolling
from neurald.drivers.cpu.kernels.int8.epilogue.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.epilogue.stores import store_lanes
from neurald.drivers.cpu.kernels.int8.packing.input_packing import InputPacker
from neurald.drivers.cpu.kernels.int8.packing.panels import HEAD_BYTES


class DepthwiseWriter:
    """Writes the function of a kernel.

    Args:
        plan: the plan of its contraction.
        epilogue: the epilogue of the kernel.
        arguments: output, input, packed weights, and values that the body reads.
        zero: the input's zero point.
    """

    def __init__(
        self, plan: DepthwisePlan, epilogue: QuantizedEpilogue, arguments: Sequence[Value], *, zero: int
    ) -> None:
        self._plan, self._epilogue, self._scheme = plan, epilogue, plan.scheme
        self._names = pointer_names(arguments)
        self._output, source, self._weights = (self._names[each] for each in arguments[:3])
        self.code = Instructions(parameter_names(arguments))
        self._single = Vector(self.code, self._scheme.target, 1)
        self._blocks = InputPacker(self.code, plan.layout, source=source, zero=zero, padding=self._weights)
        self._interleaving = Interleaving(self.code, plan)
        self._sums = DepthwiseMicroKernel(self.code, plan, epilogue)

    @property
    def scratch_bytes(self) -> int:
        """Size of scratch memory, for inputs and for the sums of a tile."""
        plan, size = self._plan, self._plan.layout.packed_bytes
        if self._epilogue.is_stored or not self._shares_tiles:
            return size
        tiles = [each for each in plan.channel_blocks if not plan.is_rolling(each)]
        sums = max((plan.pixels(each) * each.channels for each in tiles), default=0)
        return size + sums * self._sums.element_bytes

    @property
    def _shares_tiles(self) -> bool:
        """True if subroutines compute the sums of tiles, and loops what is left of their results.

        Written out, they would take most of the time to compile, but tiles of several rows are up
        to a tenth faster then.
        """
        return self._plan.rows == 1

    @cached_property
    def _generic_epilogue(self) -> Epilogue:
        return Epilogue(self._epilogue.kernel, self._scheme.target, self.code, self._names)

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        plan, code, v = self._plan, self.code, self._single
        if plan.images == 1:
            self._write_blocks("0", "%begin", "%end")
            return
        units = str(plan.units)
        first = v.binary("udiv", "i64", "%begin", units)
        last = v.binary("udiv", "i64", v.binary("add", "i64", "%end", str(plan.units - 1)), units)
        with code.loop(first, last, may_be_empty=True) as images:
            before = multiple(code, images.index, plan.units)
            begin = v.call("llvm.smax", "i64", v.binary("sub", "i64", "%begin", before), "0")
            end = v.call("llvm.smin", "i64", v.binary("sub", "i64", "%end", before), units)
            self._write_blocks(images.index, begin, end)

    def _write_blocks(self, image: str, begin: str, end: str) -> None:
        """Writes the units of an image from `begin` to before `end`."""
        code, v, block = self.code, self._single, self._plan.layout.block // self._plan.rows
        with code.loop(begin, end, step=block, may_be_empty=True) as blocks:
            stop = v.call("llvm.smin", "i64", v.binary("add", "i64", blocks.index, str(block)), end)
            self._write_block(image, blocks.index, stop)

    def _row(self, unit: str) -> str:
        """Returns the first row of a unit."""
        plan = self._plan
        row = multiple(self.code, unit, plan.rows)
        if not isinstance(plan.height, Extent) and not plan.height % plan.rows:
            return row
        return self._single.call("llvm.smin", "i64", row, str(plan.height - plan.rows))

    def _write_block(self, image: str, first: str, last: str) -> None:
        plan, code, v = self._plan, self.code, self._single
        begin = self._row(first)
        end = v.call("llvm.smin", "i64", multiple(code, last, plan.rows), str(plan.height))
        source = self._blocks.write(image, begin, end)
        offset = HEAD_BYTES
        for channel_block in plan.channel_blocks:
            size = self._sums.constants_bytes(channel_block)
            with self._counted(channel_block.count) as number:
                weights = opaque(
                    code, address(code, self._weights, str(offset), multiple(code, number, size))
                )
                channel = v.binary(
                    "add", "i64", multiple(code, number, channel_block.channels), str(channel_block.first)
                )
                if channel_block.overlaps:
                    channel = v.call("llvm.smin", "i64", channel, str(channel_block.last))
                inputs = address(code, source, multiple(code, channel, self._scheme.element_bytes))
                with code.loop(first, last, may_be_empty=True) as units:
                    row = self._row(units.index)
                    inner = v.binary("sub", "i64", row, begin)
                    step = plan.layout.rows.stride * plan.layout.row_bytes
                    line = opaque(code, address(code, inputs, multiple(code, inner, step)))
                    top = v.binary("add", "i64", multiple(code, image, plan.height), row)
                    self._write_unit(channel_block, line, weights, channel, multiple(code, top, plan.width))
            offset += channel_block.count * size

    @contextmanager
    def _counted(self, count: int) -> Iterator[str]:
        if count == 1:
            yield "0"
            return
        with self.code.loop("0", str(count)) as loop:
            yield loop.index

    def _write_unit(
        self, channel_block: ChannelBlock, source: str, weights: str, channel: str, position: str
    ) -> None:
        """Writes all positions of a unit's rows."""
        plan, code, v = self._plan, self.code, self._single
        if plan.is_rolling(channel_block):
            self._write_rolling(channel_block, source, weights, channel, position)
            return
        tiles = -(-plan.width // plan.pixels(channel_block))
        pixels = -(-plan.width // tiles)
        with self._counted(tiles) as tile:
            # The last tile overlaps the one before, so that all have the same length.
            column = multiple(code, tile, pixels)
            if plan.width % pixels:
                column = v.call("llvm.smin", "i64", column, str(plan.width - pixels))
            step = plan.layout.columns.stride * plan.layout.pixel_bytes
            start = address(code, source, multiple(code, column, step))
            at = v.binary("add", "i64", position, column)
            if not self._shares_tiles:
                self._write_tile(channel_block, start, weights, channel, at, pixels)
            elif self._epilogue.is_stored:
                self._call_shared(channel_block, start, weights, self._place(at, channel), pixels)
            else:
                self._write_spilled(channel_block, start, weights, channel, at, pixels)

    def _write_tile(
        self,
        channel_block: ChannelBlock,
        source: str,
        weights: str,
        channel: str,
        position: str,
        pixels: int,
    ) -> None:
        """Writes out a tile."""
        inputs = partial(self._interleaving.words, channel_block, self._window(source))
        totals = self._sums.totals(channel_block, pixels, weights, inputs)
        words = self._sums.epilogue_constants(channel_block, weights)
        for pixel, rows in enumerate(totals):
            self._finish(channel_block, rows, words, position, pixel, channel)

    def _write_spilled(
        self,
        channel_block: ChannelBlock,
        source: str,
        weights: str,
        channel: str,
        position: str,
        pixels: int,
    ) -> None:
        """Stores the sums of a tile to scratch memory, and computes the results in a loop."""
        code = self.code
        totals = address(code, "%scratch", str(self._plan.layout.packed_bytes))
        pitch = channel_block.channels * self._sums.element_bytes
        self._call_shared(channel_block, source, weights, (totals, pitch, 0), pixels)
        with code.loop("0", str(pixels)) as loop:
            sums = address(code, totals, multiple(code, loop.index, pitch))
            self._write_results(channel_block, sums, total(code, position, loop.index), channel)

    def _write_results(self, channel_block: ChannelBlock, sums: str, at: str, channel: str) -> None:
        """Writes the results of a position from spilled sums."""
        code, lanes, element = self.code, self._scheme.lanes, self._sums.element
        for each, mask in self._vectors(channel_block):
            place = address(code, sums, str(each * lanes * self._sums.element_bytes))
            part = code.fresh(f"load <{lanes} x {element}>, ptr {place}, align {self._sums.element_bytes}")
            axes = (at, self._single.binary("add", "i64", channel, str(each * lanes)))
            self._generic_epilogue.write(part, axes, lanes, mask)

    def _write_rolling(
        self, channel_block: ChannelBlock, source: str, weights: str, channel: str, position: str
    ) -> None:
        """Writes the positions one after another; see `rolling_rows`."""
        plan, code, layout = self._plan, self.code, self._plan.layout
        if self._epilogue.is_stored and channel_block.vectors > 1:
            self._call_shared(channel_block, source, weights, self._place(position, channel), None)
            return
        constants = self._sums.epilogue_constants(channel_block, weights)

        def windows(index: str) -> Addresses:
            step = layout.columns.stride * layout.pixel_bytes
            return self._window(
                source if index == "0" else address(code, source, multiple(code, index, step))
            )

        def finish(index: str, after: int, totals: list[list[str]]) -> None:
            at = self._single.binary("add", "i64", position, index)
            self._finish(channel_block, totals, constants, at, after, channel)

        write_rolling(
            code,
            plan,
            self._epilogue,
            channel_block,
            weights=weights,
            windows=windows,
            count=str(plan.width),
            finish=finish,
        )

    def _place(self, position: str, channel: str) -> tuple[str, int, int]:
        """Returns the address of a result, and the distances of positions and of rows."""
        size = self._sums.element_bytes
        pitch = self._plan.channels * size
        offset = multiple(self.code, position, pitch)
        place = address(self.code, self._output, offset, multiple(self.code, channel, size))
        return place, pitch, self._plan.width * pitch

    def _call_shared(
        self,
        channel_block: ChannelBlock,
        source: str,
        weights: str,
        place: tuple[str, int, int],
        pixels: int | None,
    ) -> None:
        """Calls the subroutine of a tile of `pixels` positions, or of all positions of a row.

        Results are stored to `place`, see `_place`.
        """
        plan, layout = self._plan, self._plan.layout
        sizes = [layout.rows.dilation * layout.row_bytes, layout.pixel_bytes, *place[1:]]
        if pixels is None:
            sizes.append(plan.width)
        subroutine = shared_positions(plan, self._epilogue, channel_block, pixels)
        self.code.call(subroutine, source, weights, place[0], *map(str, sizes))

    def _window(self, start: str) -> Addresses:
        """Returns the addresses of a window that begins at a pointer."""
        code, layout = self.code, self._plan.layout
        row, pixel = layout.rows.dilation * layout.row_bytes, layout.pixel_bytes
        begin = opaque(code, start)
        return lambda down, across: address(code, begin, str(down * row + across * pixel))

    def _finish(
        self,
        channel_block: ChannelBlock,
        totals: list[list[str]],
        words: list[list[str]],
        position: str,
        pixel: int,
        channel: str,
    ) -> None:
        """Stores the results of the position `pixel` after another, for each row of a unit."""
        for row, whole in enumerate(self._sums.results(channel_block, totals, words)):
            number = row * self._plan.width + pixel
            at = self._single.binary("add", "i64", position, str(number))
            self._store(channel_block, whole, position, number, at, channel)

    def _store(
        self, channel_block: ChannelBlock, whole: str, position: str, number: int, at: str, channel: str
    ) -> None:
        plan, code, epilogue = self._plan, self.code, self._epilogue
        lanes, stored_channels, element = (
            plan.scheme.lanes,
            min(channel_block.channels, plan.channels),
            self._sums.element,
        )
        if epilogue.is_stored:
            size = epilogue.kernel.output.type.size_bytes
            offset = self._single.binary("add", "i64", multiple(code, position, plan.channels), channel)
            base = opaque(code, code.value(f"getelementptr {element}, ptr {self._output}, i64 {offset}"))
            to = address(code, base, str(number * plan.channels * size))
            store_lanes(code, whole, element, channel_block.channels, to, stored_channels)
            return
        for each, mask in self._vectors(channel_block):
            part = whole
            if channel_block.vectors > 1:
                kind = f"<{channel_block.channels} x {element}>"
                picked = ", ".join(f"i32 {each * lanes + lane}" for lane in range(lanes))
                part = code.fresh(f"shufflevector {kind} {whole}, {kind} poison, <{lanes} x i32> <{picked}>")
            axes = (at, self._single.binary("add", "i64", channel, str(each * lanes)))
            self._generic_epilogue.write(part, axes, lanes, mask)

    def _vectors(self, channel_block: ChannelBlock) -> Iterator[tuple[int, str | None]]:
        """Yields the vectors of a block with channels of the output, and masks of partial ones."""
        lanes = self._plan.scheme.lanes
        for each in range(channel_block.vectors):
            left = min(channel_block.channels, self._plan.channels) - each * lanes
            if left <= 0:
                return
            mask = None
            if left < lanes:
                mask = "<" + ", ".join(f"i1 {int(lane < left)}" for lane in range(lanes)) + ">"
            yield each, mask
