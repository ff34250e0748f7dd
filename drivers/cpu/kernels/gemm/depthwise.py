"""FLOAT32 depthwise convolution, and convolution with narrow groups, with vectors of channels.

Several positions of a row are computed at once, because they share inputs. A work item is a tile of
positions in a row, with few enough channels that the window's rows stay in the first-level cache
until the tile below has used them. Successive work items go down the image. If input and output
exceed the second-level cache, they go along rows instead, with all channels, because processors
prefetch consecutive lines. Taps outside the image are skipped; see `micro_kernel`.

A vector holds the channels of several groups. In a depthwise convolution, groups have one input
channel each. If they have several, the inputs of a vector are loaded once and permuted for each, so
that every lane gets an input of its group.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate
from neurald.drivers.compiler.ir.graph import Convolution, DepthwiseConvolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import Epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math.float_tables import can_permute, permuted
from neurald.drivers.cpu.emit.op_table import from_stored, stored
from neurald.drivers.cpu.emit.vector import Vector, vector_type
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, opaque, total
from neurald.drivers.cpu.kernels.common.bias import initial_sums, split_bias
from neurald.drivers.cpu.kernels.common.borders import taps_on_image, write_chosen
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.common.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.common.packing import as_floats
from neurald.drivers.cpu.kernels.common.routine_cache import shared_routine
from neurald.drivers.cpu.kernels.common.tile import lanes_for
from neurald.drivers.cpu.kernels.common.window import TileRun, tile_runs, window_dimensions
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.target.routine import MAX_ORDERED_UNITS, OrderedUnits, Routine
from neurald.drivers.cpu.target.target import Target

#: Input and output beyond this total size exceed the second-level cache.
_MAX_CACHED_BYTES = 768 << 10
#: More positions at once compile longer and run slower.
_MAX_POSITIONS = 8
#: Number of a window row's weights kept in registers.
_MAX_KEPT_WEIGHTS = 7
#: Share of the first-level cache for a tile's inputs.
_MAX_TILE_INPUT_BYTES = 20 << 10
_STORE_CYCLES = 3.0


def routine(kernel: Kernel, node: DepthwiseConvolution, target: Target) -> Routine:
    """Returns the routine of a FLOAT32 depthwise convolution.

    Args:
        kernel: its output is not empty.
        node: its contraction.
        target: the target of the code.
    """
    return _routine(kernel, node, as_floats(node.weights), target)


def grouped_routine(kernel: Kernel, node: Convolution, target: Target) -> Routine | None:
    """Returns the routine of a FLOAT32 convolution, or None unless its groups are narrow.

    Args:
        kernel: its output is not empty.
        node: its contraction.
        target: the target of the code.
    """
    outputs, _, _, depth = node.weights.shape
    width = outputs // node.groups
    lanes = lanes_for(outputs, target)
    if node.groups == 1 or node.weights.constant is None:
        return None
    if width >= lanes or lanes % width or depth > width or width % depth:
        return None
    array = np.ascontiguousarray(node.weights.constant.transpose(1, 2, 3, 0), dtype=np.float32)
    weights = Value(array.shape, Scalar.FLOAT32, array, node.weights.name)
    return _routine(kernel, node, weights, target)


def _routine(
    kernel: Kernel, node: DepthwiseConvolution | Convolution, weights: Value, target: Target
) -> Routine:
    arguments = arguments_with(kernel, (node.input, weights))
    return shared_routine(
        kernel, arguments, target, lambda: _new_routine(kernel, node, weights, arguments, target)
    )


def _new_routine(
    kernel: Kernel,
    node: DepthwiseConvolution | Convolution,
    weights: Value,
    arguments: tuple[Value, ...],
    target: Target,
) -> Routine:
    code = Instructions(parameter_names(arguments))
    writer = _Depthwise(code, target, flattened(kernel), node, pointer_names(arguments))
    writer.write(weights)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=math.prod(writer.extents),
        cost_ns=cost_ns(writer.cycles, arguments),
        declarations=frozenset(code.declarations),
        label=f"{writer.kind}, {writer.positions} positions of {writer.lanes} channels at once",
        operations=kernel.operations,
        units=writer.units,
    )


class _Spread(Struct, frozen=True, kw_only=True):
    """The inputs for a vector of channels if neither it nor a group divides the other.

    Attributes:
        first: the first input channel that is loaded.
        count: how many are loaded.
        places: the number among these for each lane, as a vector of i32.
    """

    first: str
    count: int
    places: str


class _Depthwise:
    """Writes the function of a convolution whose groups have fewer channels than a vector."""

    def __init__(
        self,
        code: Instructions,
        target: Target,
        kernel: Kernel,
        node: DepthwiseConvolution | Convolution,
        pointers: Mapping[Value, str],
    ) -> None:
        self._code, self._target, self._node = code, target, node
        self._kernel, self._bias = split_bias(kernel)
        self._pointers = pointers
        self._epilogue = Epilogue(self._kernel, target, code, pointers)
        self._channels = node.output.shape[3]
        self.lanes = lanes_for(self._channels, target)
        # Output and input channels of each group.
        if isinstance(node, Convolution):
            self.kind = "narrow groups"
            self._width, self._depth = self._channels // node.groups, node.weights.shape[3]
        else:
            self.kind = "depthwise"
            self._width, self._depth = node.multiplier, 1
        self._rows, self._columns = window_dimensions(node)
        kept = self._columns.taps * self._depth
        if self._depth == 1:
            self._keeps_weights = kept <= _MAX_KEPT_WEIGHTS
            kept = min(kept, _MAX_KEPT_WEIGHTS)
        else:
            self._keeps_weights = kept <= target.registers // 2
            kept = kept if self._keeps_weights else 0
        self.positions = max(1, min(_MAX_POSITIONS, target.registers - kept - (2 if target.has_fma else 3)))
        self._runs = tile_runs(self._columns, self.positions)
        self._vectors = -(-self._channels // self.lanes)
        self._vector, self._single = Vector(code, target, self.lanes), Vector(code, target, 1)
        longest = max(run.length for run in self._runs)
        across = (longest - 1) * self._columns.stride + (self._columns.taps - 1) * self._columns.dilation + 1
        near = self._rows.taps * across * self.lanes * node.input.type.size_bytes
        self._is_row_by_row = (
            self._width == 1 and estimate(node.input.size_bytes + node.output.size_bytes) > _MAX_CACHED_BYTES
        )
        self._spread: _Spread | None = None
        self._blocks = 1
        if not self._is_row_by_row:
            self._blocks = -(-self._vectors // max(1, _MAX_TILE_INPUT_BYTES // near))

    @property
    def extents(self) -> tuple[int, ...]:
        """Dimensions of the work items."""
        tiles, rows = sum(run.count for run in self._runs), self._rows.positions
        inner = (rows, tiles) if self._is_row_by_row else (tiles, rows)
        return (self._node.output.shape[0], self._blocks, *inner)

    @property
    def units(self) -> OrderedUnits | None:
        """The positions that work items compute, in the order in which threads share them."""
        images, blocks, *_ = self.extents
        rows, width = self._rows.positions, self._columns.positions
        if any(isinstance(each, Extent) for each in (images, rows, width)):
            return None
        tiles = sum(run.count for run in self._runs)
        if images * rows * (tiles if self._is_row_by_row else 1) > MAX_ORDERED_UNITS:
            return None
        if not self._is_row_by_row:
            begins = range(0, images * rows * width, width)
            return OrderedUnits(
                begins=tuple(begins), ends=tuple(each + width for each in begins), items=blocks * tiles
            )
        tiles_of_row = [(start, start + run.length) for run in self._runs for start in run.starts]
        found = [
            (row * width + begin, row * width + end)
            for row in range(images * rows)
            for begin, end in tiles_of_row
        ]
        return OrderedUnits(begins=tuple(b for b, _ in found), ends=tuple(e for _, e in found), items=1)

    @property
    def cycles(self) -> float:
        """Estimated cycles of the whole kernel."""
        products = self._rows.taps * self._columns.taps * self._depth
        each = products * (0.75 if self._target.has_fma else 1.5) + _STORE_CYCLES
        return math.prod(self._node.output.shape[:3]) * self._vectors * each

    def write(self, weights: Value) -> None:
        """Writes the instructions for the range of work items."""
        code, node = self._code, self._node
        size = node.input.type.size_bytes
        _, height, width, channels = node.input.shape
        order = (0, 1, 2, 3) if self._is_row_by_row else (0, 3, 1, 2)
        with each_work_item(code, self.extents, order) as ((image, block, *inner), _):
            row, tile = inner if self._is_row_by_row else reversed(inner)
            source = address(
                code,
                self._pointers[node.input],
                multiple(code, image, height * width * channels * size),
                multiple(code, row, self._rows.stride * width * channels * size),
                str(-(self._rows.padding_before * width + self._columns.padding_before) * channels * size),
            )
            first = total(
                code,
                multiple(code, image, self._rows.positions * self._columns.positions),
                multiple(code, row, self._columns.positions),
            )
            taps = "0", str(self._rows.taps)
            if not self._rows.is_inside:
                taps = taps_on_image(self._single, self._rows, row)

            def write(run: TileRun, column: str) -> None:
                at = address(code, source, multiple(code, column, self._columns.stride * channels * size))
                self._write_tile(run, at, total(code, first, column), block, taps, weights)

            write_chosen(code, self._runs, tile, write)

    def _write_tile(
        self, run: TileRun, source: str, position: str, block: str, taps: tuple[str, str], weights: Value
    ) -> None:
        """Writes all channels of a block at the positions of a tile."""
        code = self._code
        bounds = "0", str(self._vectors)
        if self._blocks > 1:
            scaled = multiple(code, block, self._vectors)
            bounds = (
                code.value(f"udiv i64 {scaled}, {self._blocks}"),
                code.value(f"udiv i64 {total(code, scaled, str(self._vectors))}, {self._blocks}"),
            )
        with code.loop(*bounds) as loop:
            channel = multiple(code, loop.index, self.lanes)
            if self._channels % self.lanes:
                # The last vector overlaps the one before; both compute the same values.
                channel = self._single.call("llvm.smin", "i64", channel, str(self._channels - self.lanes))
            sums = self._sums(run, source, channel, taps, weights)
            for offset, name in enumerate(sums):
                at = total(code, position, str(offset))
                self._epilogue.write(name, (at, channel), self.lanes)

    def _sums(
        self, run: TileRun, source: str, channel: str, taps: tuple[str, str], weights: Value
    ) -> list[str]:
        code, v, node = self._code, self._vector, self._node
        first = initial_sums(
            code, self._target, self._kernel, self._bias, channel, self.lanes, self._pointers
        )
        carried = [(v.type("float"), first)] * run.length
        self._spread = self._new_spread(channel)
        if self._width == 1:
            source = address(code, source, multiple(code, channel, node.input.type.size_bytes))
        row_bytes = math.prod(node.input.shape[2:]) * node.input.type.size_bytes * self._rows.dilation
        line_bytes = self._columns.taps * self._depth * self._channels * weights.type.size_bytes
        at = address(code, self._pointers[weights], multiple(code, channel, weights.type.size_bytes))
        with code.loop(*taps, carried, may_be_empty=not self._rows.is_inside) as loop:
            loop.results = self._add_row(
                run,
                loop.carried,
                opaque(code, address(code, source, multiple(code, loop.index, row_bytes))),
                channel,
                opaque(code, address(code, at, multiple(code, loop.index, line_bytes))),
                weights,
            )
        return loop.results

    def _new_spread(self, channel: str) -> "_Spread | None":
        """Returns how inputs are spread over a vector of channels, see `_Spread`."""
        code, v, channels, width = self._code, self._vector, self._node.input.shape[3], self._width
        is_regular = width % self.lanes == 0 or self.lanes % width == 0 or channels == 1
        if is_regular or not can_permute(v):
            return None
        # A vector that begins with the last channel of a group needs the most inputs.
        count = min(channels, (self.lanes + width - 2) // width + 1)
        group = code.value(f"udiv i64 {channel}, {width}")
        first = self._single.call("llvm.smin", "i64", group, str(channels - count))
        rest = code.value(f"sub i64 {channel}, {multiple(code, first, width)}")
        numbers = v.binary(
            "add",
            "i32",
            v.splat("i32", code.value(f"trunc i64 {rest} to i32")),
            v.numbers("i32", range(self.lanes)),
        )
        places = v.binary("udiv", "i32", numbers, v.number("i32", width))
        return _Spread(first=first, count=count, places=places)

    def _add_row(
        self, run: TileRun, sums: list[str], source: str, channel: str, line: str, weights: Value
    ) -> list[str]:
        """Multiplies a window row: each input by the weights of every position that reads it.

        Args:
            run: the tile.
            sums: accumulators of its positions.
            source: address of the input row, offset by the channel if groups have one output.
            channel: the first output channel.
            line: address of the row's weights.
            weights: the weights.
        """
        code, v, side = self._code, self._vector, self._columns
        sums = list(sums)
        kept: dict[tuple[int, int], str] = {}
        users: dict[int, list[tuple[int, int]]] = {}
        for offset, on_image in enumerate(run.taps):
            for tap in on_image:
                users.setdefault(offset * side.stride + tap * side.dilation, []).append((offset, tap))
        for column in sorted(users):
            for term, factor in enumerate(self._inputs(source, column, channel)):
                for offset, tap in users[column]:
                    if (tap, term) not in kept or not self._keeps_weights:
                        row = (tap * self._depth + term) * self._channels
                        at = address(code, line, str(row * weights.type.size_bytes))
                        kind = v.type(stored(weights.type))
                        loaded = code.fresh(f"load {kind}, ptr {at}, align {weights.type.size_bytes}")
                        kept[tap, term] = from_stored(v, weights.type, loaded)
                    sums[offset] = v.fma("float", factor, kept[tap, term], sums[offset])
        return sums

    def _inputs(self, source: str, column: int, channel: str) -> Iterator[str]:
        """Yields the inputs for a vector of channels, at a column relative to the tile's first.

        There is a vector for each input channel of a group.
        """
        code, v, node = self._code, self._vector, self._node
        kind, width = node.input.type, self._width
        size, element = kind.size_bytes, stored(kind)
        pixel = address(code, source, str(column * node.input.shape[3] * size))

        def load(first: str, lanes: int) -> str:
            at = address(code, pixel, multiple(code, first, size))
            text = code.fresh(f"load {vector_type(element, lanes)}, ptr {at}, align {size}")
            return from_stored(Vector(code, self._target, lanes), kind, text)

        if width == 1:
            yield load("0", self.lanes)
            return
        if node.input.shape[3] == 1:
            yield v.splat("float", load("0", 1))
            return
        group = code.value(f"udiv i64 {channel}, {width}")
        if width % self.lanes == 0:
            yield v.splat("float", load(group, 1))
            return
        if self.lanes % width == 0:
            count = self.lanes // width * self._depth
            loaded = load(multiple(code, group, self._depth), count)
            if count == 1:
                yield v.splat("float", loaded)
                return
            few = vector_type("float", count)
            for term in range(self._depth):
                places = (lane // width * self._depth + term for lane in range(self.lanes))
                offsets = ", ".join(f"i32 {place}" for place in places)
                yield code.value(
                    f"shufflevector {few} {loaded}, {few} poison, <{self.lanes} x i32> <{offsets}>"
                )
            return
        if self._spread is not None:
            loaded, count = load(self._spread.first, self._spread.count), self._spread.count
            few = vector_type("float", count)
            offsets = ", ".join(f"i32 {lane if lane < count else 'poison'}" for lane in range(self.lanes))
            widened = code.value(
                f"shufflevector {few} {loaded}, {few} poison, <{self.lanes} x i32> <{offsets}>"
            )
            yield permuted(v, widened, self._spread.places)
            return
        whole = "poison"
        for lane in range(self.lanes):
            group = code.value(f"udiv i64 {total(code, channel, str(lane))}, {width}")
            whole = code.value(f"insertelement {v.type('float')} {whole}, float {load(group, 1)}, i64 {lane}")
        yield whole
