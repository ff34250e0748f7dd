"""Winograd convolution with 3 × 3 windows, F(2 × 2, 3 × 3).

The output is divided into tiles of 2 × 2 positions. The 4 × 4 pixels that a tile depends on are
transformed by additions. Each of the 16 transformed points is multiplied by weights that were
transformed at compile time, in 16 matrix products with a row per tile. The 16 sums of a tile are
then transformed to its results. This takes 16 multiplications per tile instead of 36.

Terms are differences of pixels, so sums are off by a few more units in the last place, and infinite
pixels would yield NaN instead of infinity, or the limit of an activation. So the results of a tile
that are not all finite are computed again as sums of products (`tile_sums`).

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate
from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import Epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.borders import tile_start
from neurald.drivers.cpu.kernels.common.convolution import product_of
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.common.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.common.packing import channels_of
from neurald.drivers.cpu.kernels.common.product import WeightOperand, WindowedProduct
from neurald.drivers.cpu.kernels.common.tile import Tile, choose_tile
from neurald.drivers.cpu.kernels.common.window import (
    WindowDimension,
    tap_segments,
    tile_runs,
    window_dimensions,
)
from neurald.drivers.cpu.kernels.gemm.micro_kernel import FloatMicroKernel, TileShape, WeightLayout
from neurald.drivers.cpu.kernels.gemm.tile_sums import tile_sums
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Positions of a tile per dimension, the pixels it depends on, and the number of transformed
#: points.
_TILE_SIZE, _PIXELS = 2, 4
_POINTS = _PIXELS * _PIXELS
_FLOAT_BYTES = Scalar.FLOAT32.size_bytes
#: Padding between the rows of a matrix, which avoids conflicts in the first-level cache.
_GAP_BYTES = 64
#: Maximum number of tiles of a block; transformed, they should stay in the second-level cache.
_MAX_TILES = 56
#: Blocks are divided until there are this many work items for threads, into parts with at least as
#: many tiles as large register tiles have positions, that compute at most this share of tiles
#: twice.
_MIN_WORK_ITEMS, _MIN_PART_TILES, _MAX_REPEATED = 32, 12, 1 / 32
#: Cycles of a tile's transformations per vector of channels.
_TRANSFORM_CYCLES = 70.0
#: Weights up to this size stay in the second-level cache; others are limited by this bandwidth per
#: cycle.
_MAX_RESIDENT_BYTES = 384 << 10
_WEIGHT_BYTES_PER_CYCLE = 8.0
#: Required relative cost, since direct convolution is more accurate.
_MAX_RELATIVE_COST = 0.85
#: Limit on transformed weights, which are 16/9 as large as the originals.
_MAX_WEIGHT_BYTES = 64 << 20


class _WinogradPlan(Struct, frozen=True, kw_only=True):
    """Division of a convolution.

    Attributes:
        rows, columns: movement of its window.
        tile_rows, tile_columns: tiles per image in each dimension.
        tiles: number of tiles of all images.
        part: tiles of a work item.
        parts: number of parts of a block.
        capacity: the largest number of tiles of a block, for which there is memory.
        product: the product of a part of a block at one of the 16 points.
        register_tile: the register tile of the product.
    """

    rows: WindowDimension
    columns: WindowDimension
    tile_rows: int
    tile_columns: int
    tiles: int
    part: int
    parts: int
    capacity: int
    product: WindowedProduct
    register_tile: Tile

    @property
    def block(self) -> int:
        """Number of tiles whose transformed pixels are kept."""
        return self.part * self.parts

    @property
    def blocks(self) -> int:
        """Number of blocks; the last one may have fewer tiles."""
        return -(-self.tiles // self.block)

    @property
    def extents(self) -> tuple[int, ...]:
        """Dimensions of the work items: blocks, panels and parts."""
        return self.blocks, self.register_tile.panels, self.parts

    @property
    def matrix_bytes(self) -> int:
        """Size of the transformed pixels at one of the 16 points."""
        return self.capacity * self.product.pixel_bytes

    @property
    def sums_bytes(self) -> int:
        """Size of a block's sums for a panel at one of the 16 points."""
        return self.capacity * self.register_tile.width * _FLOAT_BYTES

    @property
    def weight_bytes(self) -> int:
        """Size of the transformed weights."""
        return (
            _POINTS * self.product.depth * self.register_tile.panels * self.register_tile.width * _FLOAT_BYTES
        )

    @property
    def cycles(self) -> float:
        """Estimated cycles."""
        lanes, register_tile, product = self.register_tile.lanes, self.register_tile, self.product
        vectors = product.depth // lanes + register_tile.panels * register_tile.vectors
        cycles = _POINTS * self.parts * register_tile.cycles
        cycles += estimate(self.block) * vectors * _TRANSFORM_CYCLES
        if self.weight_bytes > _MAX_RESIDENT_BYTES:
            cycles += self.weight_bytes / _WEIGHT_BYTES_PER_CYCLE
        return estimate(self.blocks) * cycles


def cycles_of(node: Convolution, target: Target) -> float:
    """Returns the estimated cycles of a convolution; infinity if this method is unsupported."""
    plan = _plan(node, target)
    return math.inf if plan is None else plan.cycles


def routine(kernel: Kernel, node: Convolution, target: Target) -> Routine | None:
    """Returns the routine of a convolution, or None if this method is unsupported or slower."""
    plan = _plan(node, target)
    if plan is None or plan.weight_bytes > _MAX_WEIGHT_BYTES:
        return None
    if plan.cycles > _MAX_RELATIVE_COST * choose_tile(product_of(node), target, is_packed=True).cycles:
        return None
    constant = node.weights.constant
    assert constant is not None  # noqa: S101 - implied by the plan
    weights = _transformed(constant, node.weights.name, plan)
    if weights is None:
        return None
    arguments = arguments_with(kernel, (node.input, weights))
    writer = _WinogradWriter(kernel, node, plan, weights, arguments, target)
    writer.write()
    register_tile = plan.register_tile
    return Routine(
        text=function_text(writer.code, arguments),
        arguments=arguments,
        work_items=math.prod(plan.extents),
        cost_ns=cost_ns(plan.cycles, arguments),
        declarations=frozenset(writer.code.declarations),
        subroutines=frozenset(writer.code.subroutines),
        scratch_bytes=writer.scratch_bytes,
        label=f"Winograd, {plan.capacity} tiles of {_TILE_SIZE} x {_TILE_SIZE} positions and "
        f"{register_tile.vectors} x {register_tile.lanes} channels",
        operations=kernel.operations,
    )


def _plan(node: Convolution, target: Target) -> _WinogradPlan | None:
    """Returns the plan, or None for unsupported windows, types or channels."""
    rows, columns = window_dimensions(node)
    images, height, width, depth = node.input.shape
    outputs = node.weights.shape[0]
    lanes = target.lanes(_FLOAT_BYTES)
    is_plain = all((side.taps, side.stride, side.dilation) == (3, 1, 1) for side in (rows, columns))
    is_float = node.input.type is Scalar.FLOAT32 and node.weights.constant is not None
    if not is_plain or not is_float or node.groups != 1 or depth % lanes or outputs % lanes:
        return None
    tile_rows, tile_columns = (-(-side.positions // _TILE_SIZE) for side in (rows, columns))
    tiles = images * tile_rows * tile_columns
    blocks = -(-tiles // _MAX_TILES)
    block = -(-tiles // blocks)
    product = WindowedProduct(
        source=node.input,
        weights=WeightOperand(value=node.weights, sets=_POINTS, channel_step=depth, term_step=1),
        batches=(),
        images=1,
        rows=WindowDimension(length=1, positions=1),
        columns=WindowDimension(length=block, positions=block),
        depth=depth,
        channels=outputs,
        image_bytes=height * width * depth * _FLOAT_BYTES,
        row_bytes=width * depth * _FLOAT_BYTES,
        pixel_bytes=depth * _FLOAT_BYTES + _GAP_BYTES,
        element_bytes=_FLOAT_BYTES,
        type=Scalar.FLOAT32,
        width=outputs,
    )
    parts = 1
    if not isinstance(block, Extent):
        wanted = -(-_MIN_WORK_ITEMS // (blocks * choose_tile(product, target).panels))
        most = max(1, min(wanted, block // _MIN_PART_TILES))
        parts = max(each for each in range(1, most + 1) if -block % each <= _MAX_REPEATED * block)
    part = -(-block // parts)
    product = replace(product, columns=WindowDimension(length=part, positions=part))
    return _WinogradPlan(
        rows=rows,
        columns=columns,
        tile_rows=tile_rows,
        tile_columns=tile_columns,
        tiles=tiles,
        part=part,
        parts=parts,
        capacity=_MAX_TILES if isinstance(part, Extent) else part * parts,
        product=product,
        register_tile=choose_tile(product, target),
    )


def _transformed(weights: np.ndarray, name: str, plan: _WinogradPlan) -> Value | None:
    """Returns the transformed weights: (panels, 16, depth, channels of a panel).

    Returns None if they are not all finite: the weights do not follow from them then.
    """
    transform = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    outputs, rows, columns, depth = weights.shape
    taps = weights.astype(np.float64).reshape(outputs, rows * columns, depth)
    with np.errstate(over="ignore", invalid="ignore"):
        points = (np.kron(transform, transform) @ taps).astype(np.float32)
    if not np.isfinite(points).all():
        return None
    panels = points[channels_of(plan.register_tile, outputs)]
    array = np.ascontiguousarray(panels.transpose(0, 2, 3, 1))
    return Value(array.shape, Scalar.FLOAT32, array, name)


class _WinogradWriter:
    """Writes the function of a Winograd convolution.

    A work item is a part of a block of tiles with a panel. Consecutive ones with the same part of a
    block use the same transformed pixels. Scratch memory holds zeros for pixels outside the image,
    the transformed pixels of a block, the sums of a panel, and results that are computed again.
    """

    def __init__(
        self,
        kernel: Kernel,
        node: Convolution,
        plan: _WinogradPlan,
        weights: Value,
        arguments: Sequence[Value],
        target: Target,
    ) -> None:
        names = pointer_names(arguments)
        self.code = Instructions(parameter_names(arguments))
        self._kernel = flattened(kernel)
        self._plan, self._target = plan, target
        self._source, self._weights = names[node.input], names[weights]
        self._epilogue = Epilogue(self._kernel, target, self.code, names)
        self._v = Vector(self.code, target, plan.register_tile.lanes)
        self._single = Vector(self.code, target, 1)
        matrix = plan.product.depth * _FLOAT_BYTES
        sums = matrix + _POINTS * plan.matrix_bytes
        again = sums + _POINTS * plan.sums_bytes
        self.scratch_bytes = again + _TILE_SIZE**2 * plan.register_tile.lanes * _FLOAT_BYTES
        self._matrix = address(self.code, "%scratch", str(matrix))
        self._sums = address(self.code, "%scratch", str(sums))
        #: The results of a tile that is computed again.
        self._again = address(self.code, "%scratch", str(again))

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        code, plan, single = self.code, self._plan, self._single
        with code.loop("0", str(plan.product.depth), step=plan.register_tile.lanes) as loop:
            self._store(self._v.number("float", 0), "%scratch", loop.index)
        # Parts of a block with the same panel are multiplied together.
        parts, panels = plan.parts, plan.register_tile.panels
        first_group = code.value(f"udiv i64 %begin, {parts}")
        last_group = code.value(f"udiv i64 {total(code, '%end', str(parts - 1))}, {parts}")
        first_part = code.value(f"sub i64 %begin, {multiple(code, first_group, parts)}")
        with code.loop(first_group, last_group, may_be_empty=True) as loop:
            group = loop.index
            block = code.value(f"udiv i64 {group}, {panels}")
            panel = code.value(f"urem i64 {group}, {panels}")
            before = multiple(code, group, parts)
            begin = single.call("llvm.smax", "i64", code.value(f"sub i64 %begin, {before}"), "0")
            end = single.call("llvm.smin", "i64", code.value(f"sub i64 %end, {before}"), str(parts))
            # Pixels are transformed once for all panels of a block. After the first group, only the
            # parts before its first one are missing, which the second group transforms.
            number = code.value(f"sub i64 {group}, {first_group}")
            is_second = code.value(f"icmp eq i64 {number}, 1")
            missing = single.call("llvm.smin", "i64", first_part, end)
            missing = code.value(f"select i1 {is_second}, i64 {missing}, i64 0")
            is_first = code.value(f"icmp eq i64 {number}, 0")
            is_new = code.value(f"icmp eq i64 {panel}, 0")
            all_missing = code.value(f"or i1 {is_first}, {is_new}")
            missing = code.value(f"select i1 {all_missing}, i64 {end}, i64 {missing}")
            start = multiple(code, block, plan.block)
            self._write_pixels(start, (begin, missing))
            self._write_products(panel, (begin, end))
            self._write_results(start, panel, (begin, end))

    def _store(self, value: str, memory: str, channel: str) -> None:
        to = address(self.code, memory, multiple(self.code, channel, _FLOAT_BYTES))
        self.code.effect(f"store {self._v.type('float')} {value}, ptr {to}, align {_FLOAT_BYTES}")

    def _load(self, memory: str) -> str:
        return self.code.fresh(f"load {self._v.type('float')}, ptr {memory}, align {_FLOAT_BYTES}")

    @contextmanager
    def _each_tile(self, first: str, parts: tuple[str, str]) -> Iterator[tuple[str, tuple[str, str, str]]]:
        """Loops over tiles; yields a tile's number in its block, and its image, row and column.

        Tiles beyond the last one repeat it.

        Args:
            first: the first tile of the block.
            parts: the first part, and the one after the last.
        """
        code, plan = self.code, self._plan
        begin, end = (multiple(code, each, plan.part) for each in parts)
        with code.loop(begin, end, may_be_empty=True) as loop:
            number = total(code, first, loop.index)
            if isinstance(plan.tiles, Extent) or plan.tiles % plan.block:
                number = self._single.call("llvm.smin", "i64", number, str(plan.tiles - 1))
            line = code.value(f"udiv i64 {number}, {plan.tile_columns}")
            column = code.value(f"urem i64 {number}, {plan.tile_columns}")
            image = code.value(f"udiv i64 {line}, {plan.tile_rows}")
            row = code.value(f"urem i64 {line}, {plan.tile_rows}")
            yield loop.index, (image, row, column)

    def _write_pixels(self, first: str, parts: tuple[str, str]) -> None:
        """Transforms the pixels of parts of a block."""
        code, plan, product = self.code, self._plan, self._plan.product
        with self._each_tile(first, parts) as (number, place):
            to = address(code, self._matrix, multiple(code, number, product.pixel_bytes))
            corner, starts = self._corner(place)
            inside = [
                [self._is_inside(total(code, start, str(n)), side) for n in range(_PIXELS)]
                for start, side in zip(starts, (plan.rows, plan.columns), strict=True)
            ]
            pixels = [
                str(row * product.row_bytes + column * (product.pixel_bytes - _GAP_BYTES))
                for row in range(_PIXELS)
                for column in range(_PIXELS)
            ]
            is_whole = self._all([each for side in inside for each in side])
            with code.when(is_whole):
                self._write_tile([address(code, corner, each) for each in pixels], to)
            with code.when(code.value(f"xor i1 {is_whole}, true")):
                is_on_image = [self._all([row, column]) for row in inside[0] for column in inside[1]]
                self._write_tile(
                    [
                        code.value(f"select i1 {condition}, ptr {address(code, corner, each)}, ptr %scratch")
                        for condition, each in zip(is_on_image, pixels, strict=True)
                    ],
                    to,
                )

    def _corner(self, place: tuple[str, str, str]) -> tuple[str, list[str]]:
        """Returns the address of a tile's first pixel, and its row and column, perhaps negative.

        Args:
            place: the image, row and column of the tile.
        """
        code, plan, product = self.code, self._plan, self._plan.product
        sides = (plan.rows, product.row_bytes), (plan.columns, product.pixel_bytes - _GAP_BYTES)
        image, *tile = place
        offsets, starts = [multiple(code, image, product.image_bytes)], []
        for index, (side, step) in zip(tile, sides, strict=True):
            start = total(code, multiple(code, index, _TILE_SIZE), str(-side.padding_before))
            offsets.append(multiple(code, start, step))
            starts.append(start)
        return address(code, self._source, *offsets), starts

    def _is_inside(self, index: str, side: WindowDimension) -> str:
        """Returns an i1 that is true for a pixel on the image.

        Negative indices are large when unsigned.
        """
        return self.code.value(f"icmp ult i64 {index}, {side.length}")

    def _all(self, conditions: Sequence[str]) -> str:
        result = conditions[0]
        for each in conditions[1:]:
            result = self.code.value(f"and i1 {result}, {each}")
        return result

    def _write_tile(self, pixels: Sequence[str], to: str) -> None:
        """Transforms the pixels of a tile."""
        code, plan, v = self.code, self._plan, self._v

        def transform(lines: Sequence[Sequence[str]]) -> list[list[str]]:
            a, b, c, d = lines
            return [
                [v.binary("fsub", "float", one, other) for one, other in zip(a, c, strict=True)],
                [v.binary("fadd", "float", one, other) for one, other in zip(b, c, strict=True)],
                [v.binary("fsub", "float", one, other) for one, other in zip(c, b, strict=True)],
                [v.binary("fsub", "float", one, other) for one, other in zip(b, d, strict=True)],
            ]

        with code.loop("0", str(plan.product.depth), step=plan.register_tile.lanes) as loop:
            at = multiple(code, loop.index, _FLOAT_BYTES)
            loaded = [self._load(address(code, each, at)) for each in pixels]
            rows = transform([loaded[first : first + _PIXELS] for first in range(0, _POINTS, _PIXELS)])
            columns = transform(list(zip(*rows, strict=True)))
            for column, values in enumerate(columns):
                for row, value in enumerate(values):
                    point = row * _PIXELS + column
                    self._store(value, address(code, to, str(point * plan.matrix_bytes)), loop.index)

    def _write_products(self, panel: str, parts: tuple[str, str]) -> None:
        """Computes the sums of parts of a block for a panel at all 16 points."""
        code, plan = self.code, self._plan
        product, register_tile = plan.product, plan.register_tile
        column_runs = tile_runs(product.columns, register_tile.positions)
        panel_bytes = product.depth * register_tile.width * _FLOAT_BYTES
        weights = WeightLayout(
            pointer=self._weights,
            type=Scalar.FLOAT32,
            set_bytes=0,
            panel_bytes=panel_bytes,
            term_bytes=register_tile.width * _FLOAT_BYTES,
            channel_bytes=0,
            vectors=tuple(each * register_tile.lanes * _FLOAT_BYTES for each in range(register_tile.vectors)),
            align=register_tile.lanes * _FLOAT_BYTES,
            is_panel_major=True,
        )
        register_tiles = estimate(sum(run.count for run in column_runs))
        sums = FloatMicroKernel(
            code,
            self._target,
            product,
            register_tile,
            weights,
            tiles=register_tiles,
            prefetches_inputs=False,
        )
        zeros = [self._v.number("float", 0)] * register_tile.vectors
        taps = tap_segments((range(1),))
        with code.loop("0", str(_POINTS)) as point:
            number = total(code, multiple(code, panel, _POINTS), point.index)
            at = address(code, self._weights, multiple(code, number, panel_bytes))
            source = address(code, self._matrix, multiple(code, point.index, plan.matrix_bytes))
            target = address(code, self._sums, multiple(code, point.index, plan.sums_bytes))
            with code.loop(*parts, may_be_empty=True) as part:
                inner = multiple(code, part.index, plan.part)
                done = 0
                for run in column_runs:
                    shape = TileShape(
                        rows=1, columns=run.length, row_segments=taps, column_segments=tap_segments(run.taps)
                    )
                    with code.loop("0", str(run.count), may_be_empty=isinstance(run.count, Extent)) as loop:
                        first = total(code, inner, tile_start(code, run, loop.index))
                        ahead = sums.prefetch_address(at, total(code, loop.index, str(done)))
                        begin = address(code, source, multiple(code, first, product.pixel_bytes))
                        to = address(code, target, multiple(code, first, register_tile.width * _FLOAT_BYTES))
                        found = sums.accumulate(shape, zeros, begin, (at, ahead), "0")
                        for each, value in enumerate(found):
                            self._store(value, to, str(each * register_tile.lanes))
                    done += run.count

    def _write_results(self, first: str, panel: str, parts: tuple[str, str]) -> None:
        """Transforms the sums of parts of a block for a panel to the results of their tiles."""
        code, plan, register_tile, v = self.code, self._plan, self._plan.register_tile, self._v
        channel = multiple(code, panel, register_tile.width)
        if register_tile.panels > 1:
            channel = self._single.call(
                "llvm.smin", "i64", channel, str(plan.product.channels - register_tile.width)
            )

        def transform(lines: Sequence[Sequence[str]]) -> list[list[str]]:
            results: list[list[str]] = [[], []]
            for a, b, c, d in zip(*lines, strict=True):
                results[0].append(v.binary("fadd", "float", v.binary("fadd", "float", a, b), c))
                results[1].append(v.binary("fsub", "float", v.binary("fsub", "float", b, c), d))
            return results

        with self._each_tile(first, parts) as (number, (image, row, column)):
            at = address(code, self._sums, multiple(code, number, register_tile.width * _FLOAT_BYTES))
            for each, offset in enumerate(register_tile.offsets(plan.product.channels)):
                loaded = [
                    self._load(
                        address(
                            code, at, str(point * plan.sums_bytes + each * register_tile.lanes * _FLOAT_BYTES)
                        )
                    )
                    for point in range(_POINTS)
                ]
                rows = transform([loaded[start : start + _PIXELS] for start in range(0, _POINTS, _PIXELS)])
                columns = transform(list(zip(*rows, strict=True)))
                found = [value for values in columns for value in values]
                found = self._finite_or_summed(found, (image, row, column), panel, each)
                for number_of_result, value in enumerate(found):
                    right, below = divmod(number_of_result, _TILE_SIZE)
                    target = (image, row, column), (below, right)
                    self._write_result(value, target, total(code, channel, str(offset)))

    def _finite_or_summed(
        self, found: Sequence[str], place: tuple[str, str, str], panel: str, vector: int
    ) -> list[str]:
        """Returns the results of a tile, computed as sums of products if they are not all finite.

        Args:
            found: the results, column by column.
            place: the image, row and column of the tile.
            panel: the panel.
            vector: the vector of the panel's channels.
        """
        code, plan, v, register_tile = self.code, self._plan, self._v, self._plan.register_tile
        product, vector_bytes = plan.product, register_tile.lanes * _FLOAT_BYTES
        together = found[0]
        for each in found[1:]:
            together = v.binary("fadd", "float", together, each)
        # A number times 0 is 0, and anything else NaN.
        nothing = v.binary("fmul", "float", together, v.number("float", 0))
        is_other = v.any_lane(v.compare("uno", "float", nothing, nothing))
        times = code.value(f"zext i1 {is_other} to i64")
        kept = [(v.type("float"), each) for each in found]
        with code.loop("0", times, kept, may_be_empty=True) as once:
            # What depends on the counter is only computed in the loop.
            image, row, column, here = (
                code.fresh(f"add i64 {each}, {once.index}") for each in (*place, panel)
            )
            corner, starts = self._corner((image, row, column))
            row_bytes = register_tile.width * _FLOAT_BYTES
            point_bytes = product.depth * row_bytes
            at = multiple(code, here, _POINTS * point_bytes)
            numbers = (
                *starts,
                plan.rows.length,
                plan.columns.length,
                product.row_bytes,
                product.pixel_bytes - _GAP_BYTES,
                product.depth,
                row_bytes,
                point_bytes,
            )
            code.call(
                tile_sums(self._target, register_tile.lanes),
                corner,
                "%scratch",
                address(code, self._weights, at, str(vector * vector_bytes)),
                self._again,
                *map(str, numbers),
            )
            once.results = [
                self._load(address(code, self._again, str(each * vector_bytes))) for each in range(len(found))
            ]
        return once.results

    def _write_result(
        self, value: str, target: tuple[tuple[str, str, str], tuple[int, int]], channel: str
    ) -> None:
        """Stores a result of a tile, if it is inside the output."""
        code, plan = self.code, self._plan
        (image, *tile), offset = target
        at, missing = [], []
        for number, further, side in zip(tile, offset, (plan.rows, plan.columns), strict=True):
            position = total(code, multiple(code, number, _TILE_SIZE), str(further))
            if further and (isinstance(side.positions, Extent) or side.positions % _TILE_SIZE):
                missing.append(code.value(f"icmp ult i64 {position}, {side.positions}"))
            at.append(position)
        line = total(code, multiple(code, image, plan.rows.positions), at[0])
        position = total(code, multiple(code, line, plan.columns.positions), at[1])
        if not missing:
            self._epilogue.write(value, (position, channel), plan.register_tile.lanes)
            return
        with code.when(self._all(missing)):
            self._epilogue.write(value, (position, channel), plan.register_tile.lanes)
