"""Winograd convolution with 3 × 3 windows, F(2 × 2, 3 × 3).

Matrix products with fewer multiplications.

The output is divided into Winograd tiles ("squares") of 2 × 2 positions. The 4 × 4 pixels that a
square depends on are transformed by additions. Each of the 16 transformed points is multiplied with
weights that were transformed at compile time, in 16 matrix products with a row per square. The 16
sums of a square are then transformed to its results. This takes 16 multiplications instead of 36.
Terms are differences of pixels, so sums are off by a few more units in the last place, and infinite
pixels may yield NaN instead of infinity.

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import Epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.convolution import product_of
from neurald.drivers.cpu.kernels.common.counters import address, each_grain, multiple, total
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.common.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.common.packing import channels_of
from neurald.drivers.cpu.kernels.common.product import Operand, Product
from neurald.drivers.cpu.kernels.common.tile import Tile, choose_tile
from neurald.drivers.cpu.kernels.common.window import Side, runs, segments, sides_of
from neurald.drivers.cpu.kernels.gemm.sums import FloatTileSums, TileShape, WeightLayout
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Positions of a square per dimension, the pixels it depends on, and the number of points.
_PLACES, _PIXELS = 2, 4
_POINTS = _PIXELS * _PIXELS
_FLOAT_BYTES = Scalar.FLOAT32.size_bytes
#: Padding between the rows of a matrix, which avoids conflicts in the nearest cache.
_GAP_BYTES = 64
#: Maximum number of squares transformed at once; the results should stay in the second-level cache.
_MAX_SQUARES = 56
#: Minimum number of grains, for several threads.
_MIN_GRAINS = 4
#: Cycles of a square's transformations per vector of channels.
_TRANSFORM_CYCLES = 70.0
#: Weights up to this size stay in the second-level cache; others are limited by this bandwidth per
#: cycle.
_RESIDENT_BYTES = 384 << 10
_WEIGHT_BYTES_PER_CYCLE = 8.0
#: Required relative cost, since direct convolution is more accurate.
_WORTHWHILE = 0.85
#: Limit on transformed weights, which are 16/9 as large as the originals.
_MAX_WEIGHT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Division of a convolution.

    Attributes:
        rows, columns: movement of its window.
        down, across: squares per image in each dimension.
        squares: of all images.
        block: squares transformed at once.
        groups: groups of panels; each is computed for a block before the next one.
        product: one of the 16 products of a block.
        tile: of the product.
    """

    rows: Side
    columns: Side
    down: int
    across: int
    squares: int
    block: int
    groups: int
    product: Product
    tile: Tile

    @property
    def blocks(self) -> int:
        """Number of blocks; the last one may have fewer squares."""
        return -(-self.squares // self.block)

    @property
    def panels_of_group(self) -> int:
        """Panels of each group; the last one may have fewer."""
        return -(-self.tile.panels // self.groups)

    @property
    def matrix_bytes(self) -> int:
        """Size of the transformed pixels at one of the 16 points."""
        return self.block * self.product.pixel_bytes

    @property
    def sums_bytes(self) -> int:
        """Size of a panel's sums at one of the 16 points."""
        return self.block * self.tile.width * _FLOAT_BYTES

    @property
    def weight_bytes(self) -> int:
        """Size of the transformed weights."""
        return _POINTS * self.product.depth * self.tile.panels * self.tile.width * _FLOAT_BYTES

    @property
    def cycles(self) -> float:
        """Estimated cycles."""
        lanes, tile, product = self.tile.lanes, self.tile, self.product
        vectors = product.depth // lanes + tile.panels * tile.vectors
        cycles = _POINTS * tile.cycles + self.block * vectors * _TRANSFORM_CYCLES
        if self.weight_bytes > _RESIDENT_BYTES:
            cycles += self.weight_bytes / _WEIGHT_BYTES_PER_CYCLE
        return self.blocks * cycles


def routine(kernel: Kernel, node: Convolution, target: Target) -> Routine | None:
    """Returns the routine of a convolution, or None if this method is unsupported or slower."""
    plan = _plan(node, target)
    if plan is None or plan.weight_bytes > _MAX_WEIGHT_BYTES:
        return None
    if plan.cycles > _WORTHWHILE * choose_tile(product_of(node), target).cycles:
        return None
    constant = node.weights.constant
    assert constant is not None  # noqa: S101 - implied by the plan
    weights = _transformed(constant, node.weights.name, plan)
    arguments = arguments_with(kernel, (node.input, weights))
    writer = _Writer(kernel, node, plan, weights, arguments, target)
    writer.write()
    tile = plan.tile
    return Routine(
        text=function_text(writer.code, arguments),
        arguments=arguments,
        grains=plan.blocks * plan.groups,
        cost_ns=cost_ns(plan.cycles, arguments),
        declarations=frozenset(writer.code.declarations),
        scratch_bytes=writer.scratch_bytes,
        label=f"Winograd, {plan.block} squares of {_PLACES} x {_PLACES} positions and {tile.vectors} x {tile.lanes} channels",
        operations=kernel.operations,
    )


def _plan(node: Convolution, target: Target) -> _Plan | None:
    """Returns the plan, or None for unsupported windows, types or channels."""
    rows, columns = sides_of(node)
    images, height, width, depth = node.input.shape
    outputs = node.weights.shape[0]
    lanes = target.lanes(_FLOAT_BYTES)
    is_plain = all((side.taps, side.stride, side.dilation) == (3, 1, 1) for side in (rows, columns))
    is_float = node.input.type is Scalar.FLOAT32 and node.weights.constant is not None
    if not is_plain or not is_float or node.groups != 1 or depth % lanes or outputs % lanes:
        return None
    down, across = (-(-side.places // _PLACES) for side in (rows, columns))
    squares = images * down * across
    block = -(-squares // -(-squares // _MAX_SQUARES))
    product = Product(
        source=node.input,
        weights=Operand(value=node.weights, sets=_POINTS, channel_step=depth, term_step=1),
        parts=(),
        images=1,
        rows=Side(length=1, places=1),
        columns=Side(length=block, places=block),
        depth=depth,
        channels=outputs,
        image_bytes=height * width * depth * _FLOAT_BYTES,
        row_bytes=width * depth * _FLOAT_BYTES,
        pixel_bytes=depth * _FLOAT_BYTES + _GAP_BYTES,
        element_bytes=_FLOAT_BYTES,
        type=Scalar.FLOAT32,
        width=outputs,
    )
    tile = choose_tile(product, target)
    groups = min(tile.panels, -(-_MIN_GRAINS // -(-squares // block)))
    groups = -(-tile.panels // -(-tile.panels // groups))
    return _Plan(
        rows=rows,
        columns=columns,
        down=down,
        across=across,
        squares=squares,
        block=block,
        groups=groups,
        product=product,
        tile=tile,
    )


def _transformed(weights: np.ndarray, name: str, plan: _Plan) -> Value:
    """Returns the transformed weights: (panels, 16, depth, channels of a panel)."""
    turned = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    outputs, rows, columns, depth = weights.shape
    taps = weights.astype(np.float64).reshape(outputs, rows * columns, depth)
    points = (np.kron(turned, turned) @ taps).astype(np.float32)
    panels = points[channels_of(plan.tile, outputs)]
    array = np.ascontiguousarray(panels.transpose(0, 2, 3, 1))
    return Value(array.shape, Scalar.FLOAT32, array, name)


class _Writer:
    """Writes the function.

    A grain is a block of squares with a group of panels. Scratch memory holds zeros for pixels
    outside the image, the transformed pixels of a block, and the sums of a panel.
    """

    def __init__(
        self,
        kernel: Kernel,
        node: Convolution,
        plan: _Plan,
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
        self._v = Vector(self.code, target, plan.tile.lanes)
        self._single = Vector(self.code, target, 1)
        matrix = plan.product.depth * _FLOAT_BYTES
        sums = matrix + _POINTS * plan.matrix_bytes
        self.scratch_bytes = sums + _POINTS * plan.sums_bytes
        self._matrix = address(self.code, "%scratch", str(matrix))
        self._sums = address(self.code, "%scratch", str(sums))

    def write(self) -> None:
        """Writes the instructions for the range of grains."""
        code, plan = self.code, self._plan
        with code.loop("0", str(plan.product.depth), step=plan.tile.lanes) as loop:
            self._store(self._v.number("float", 0), "%scratch", loop.index)
        with each_grain(code, (plan.blocks, plan.groups)) as ((block, group), is_first):
            is_new = code.value(f"icmp eq i64 {group}, 0")
            first = multiple(code, block, plan.block)
            with code.when(code.value(f"or i1 {is_first}, {is_new}")):
                self._write_pixels(first)
            begin = multiple(code, group, plan.panels_of_group)
            end = total(code, begin, str(plan.panels_of_group))
            end = self._single.call("llvm.smin", "i64", end, str(plan.tile.panels))
            with code.loop(begin, end, may_be_empty=True) as panel:
                self._write_products(panel.index)
                self._write_results(first, panel.index)

    def _store(self, value: str, memory: str, channel: str) -> None:
        to = address(self.code, memory, multiple(self.code, channel, _FLOAT_BYTES))
        self.code.effect(f"store {self._v.type('float')} {value}, ptr {to}, align {_FLOAT_BYTES}")

    def _load(self, memory: str) -> str:
        return self.code.fresh(f"load {self._v.type('float')}, ptr {memory}, align {_FLOAT_BYTES}")

    @contextmanager
    def _each_square(self, first: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
        """Loops over a block; yields a square's number in it, and its image, row and column.

        Missing squares repeat the last one.
        """
        code, plan = self.code, self._plan
        with code.loop("0", str(plan.block)) as loop:
            number = total(code, first, loop.index)
            if plan.squares % plan.block:
                number = self._single.call("llvm.smin", "i64", number, str(plan.squares - 1))
            line = code.value(f"udiv i64 {number}, {plan.across}")
            column = code.value(f"urem i64 {number}, {plan.across}")
            image = code.value(f"udiv i64 {line}, {plan.down}")
            row = code.value(f"urem i64 {line}, {plan.down}")
            yield loop.index, (image, row, column)

    def _write_pixels(self, first: str) -> None:
        """Transforms the pixels of a block."""
        code, plan, product = self.code, self._plan, self._plan.product
        sides = (plan.rows, product.row_bytes), (plan.columns, product.pixel_bytes - _GAP_BYTES)
        with self._each_square(first) as (number, (image, *square)):
            to = address(code, self._matrix, multiple(code, number, product.pixel_bytes))
            offsets, inside = [multiple(code, image, product.image_bytes)], []
            for index, (side, step) in zip(square, sides, strict=True):
                start = total(code, multiple(code, index, _PLACES), str(-side.before))
                offsets.append(multiple(code, start, step))
                inside.append([self._is_inside(total(code, start, str(n)), side) for n in range(_PIXELS)])
            corner = address(code, self._source, *offsets)
            pixels = [
                str(row * product.row_bytes + column * (product.pixel_bytes - _GAP_BYTES))
                for row in range(_PIXELS)
                for column in range(_PIXELS)
            ]
            is_whole = self._all([each for side in inside for each in side])
            with code.when(is_whole):
                self._write_square([address(code, corner, each) for each in pixels], to)
            with code.when(code.value(f"xor i1 {is_whole}, true")):
                there = [self._all([row, column]) for row in inside[0] for column in inside[1]]
                self._write_square(
                    [
                        code.value(f"select i1 {condition}, ptr {address(code, corner, each)}, ptr %scratch")
                        for condition, each in zip(there, pixels, strict=True)
                    ],
                    to,
                )

    def _is_inside(self, index: str, side: Side) -> str:
        """Returns an i1 that is true for a pixel on the image.

        Negative indices are large when unsigned.
        """
        return self.code.value(f"icmp ult i64 {index}, {side.length}")

    def _all(self, conditions: Sequence[str]) -> str:
        result = conditions[0]
        for each in conditions[1:]:
            result = self.code.value(f"and i1 {result}, {each}")
        return result

    def _write_square(self, pixels: Sequence[str], to: str) -> None:
        """Transforms the pixels of a square."""
        code, plan, v = self.code, self._plan, self._v

        def turned(lines: Sequence[Sequence[str]]) -> list[list[str]]:
            a, b, c, d = lines
            return [
                [v.two("fsub", "float", one, other) for one, other in zip(a, c, strict=True)],
                [v.two("fadd", "float", one, other) for one, other in zip(b, c, strict=True)],
                [v.two("fsub", "float", one, other) for one, other in zip(c, b, strict=True)],
                [v.two("fsub", "float", one, other) for one, other in zip(b, d, strict=True)],
            ]

        with code.loop("0", str(plan.product.depth), step=plan.tile.lanes) as loop:
            at = multiple(code, loop.index, _FLOAT_BYTES)
            loaded = [self._load(address(code, each, at)) for each in pixels]
            rows = turned([loaded[first : first + _PIXELS] for first in range(0, _POINTS, _PIXELS)])
            columns = turned(list(zip(*rows, strict=True)))
            for column, values in enumerate(columns):
                for row, value in enumerate(values):
                    point = row * _PIXELS + column
                    self._store(value, address(code, to, str(point * plan.matrix_bytes)), loop.index)

    def _write_products(self, panel: str) -> None:
        """Computes the sums of a panel at all 16 points."""
        code, plan, product, tile = self.code, self._plan, self._plan.product, self._plan.tile
        column_runs = runs(product.columns, tile.places)
        panel_bytes = product.depth * tile.width * _FLOAT_BYTES
        weights = WeightLayout(
            pointer=self._weights,
            type=Scalar.FLOAT32,
            set_bytes=0,
            panel_bytes=panel_bytes,
            term_bytes=tile.width * _FLOAT_BYTES,
            channel_bytes=0,
            vectors=tuple(each * tile.lanes * _FLOAT_BYTES for each in range(tile.vectors)),
            align=tile.lanes * _FLOAT_BYTES,
            are_many=True,
        )
        tiles = sum(run.count for run in column_runs)
        sums = FloatTileSums(code, self._target, product, tile, weights, tiles=tiles, fetches_inputs=False)
        zeros = [self._v.number("float", 0)] * tile.vectors
        taps = segments((range(1),))
        with code.loop("0", str(_POINTS)) as point:
            number = total(code, multiple(code, panel, _POINTS), point.index)
            at = address(code, self._weights, multiple(code, number, panel_bytes))
            source = address(code, self._matrix, multiple(code, point.index, plan.matrix_bytes))
            target = address(code, self._sums, multiple(code, point.index, plan.sums_bytes))
            done = 0
            for run in column_runs:
                shape = TileShape(
                    rows=1, columns=run.length, row_segments=taps, column_segments=segments(run.taps)
                )
                with code.loop("0", str(run.count)) as loop:
                    first = total(code, multiple(code, loop.index, run.length), str(run.first))
                    ahead = sums.ahead(at, total(code, loop.index, str(done)))
                    begin = address(code, source, multiple(code, first, product.pixel_bytes))
                    to = address(code, target, multiple(code, first, tile.width * _FLOAT_BYTES))
                    found = sums.of(shape, zeros, begin, (at, ahead), "0")
                    for each, value in enumerate(found):
                        self._store(value, to, str(each * tile.lanes))
                done += run.count

    def _write_results(self, first: str, panel: str) -> None:
        """Transforms the sums of a panel to the results of its squares."""
        code, plan, tile, v = self.code, self._plan, self._plan.tile, self._v
        channel = multiple(code, panel, tile.width)
        if tile.panels > 1:
            channel = self._single.call("llvm.smin", "i64", channel, str(plan.product.channels - tile.width))

        def turned(lines: Sequence[Sequence[str]]) -> list[list[str]]:
            results: list[list[str]] = [[], []]
            for a, b, c, d in zip(*lines, strict=True):
                results[0].append(v.two("fadd", "float", v.two("fadd", "float", a, b), c))
                results[1].append(v.two("fsub", "float", v.two("fsub", "float", b, c), d))
            return results

        with self._each_square(first) as (number, (image, row, column)):
            at = address(code, self._sums, multiple(code, number, tile.width * _FLOAT_BYTES))
            for each, offset in enumerate(tile.offsets(plan.product.channels)):
                loaded = [
                    self._load(
                        address(code, at, str(point * plan.sums_bytes + each * tile.lanes * _FLOAT_BYTES))
                    )
                    for point in range(_POINTS)
                ]
                rows = turned([loaded[start : start + _PIXELS] for start in range(0, _POINTS, _PIXELS)])
                columns = turned(list(zip(*rows, strict=True)))
                for right, values in enumerate(columns):
                    for below, value in enumerate(values):
                        target = (image, row, column), (below, right)
                        self._write_result(value, target, total(code, channel, str(offset)))

    def _write_result(
        self, value: str, target: tuple[tuple[str, str, str], tuple[int, int]], channel: str
    ) -> None:
        """Stores a result of a square, if it is inside the output."""
        code, plan = self.code, self._plan
        (image, *square), offset = target
        at, missing = [], []
        for number, further, side in zip(square, offset, (plan.rows, plan.columns), strict=True):
            position = total(code, multiple(code, number, _PLACES), str(further))
            if further and side.places % _PLACES:
                missing.append(code.value(f"icmp ult i64 {position}, {side.places}"))
            at.append(position)
        line = total(code, multiple(code, image, plan.rows.places), at[0])
        position = total(code, multiple(code, line, plan.columns.places), at[1])
        if not missing:
            self._epilogue.write(value, (position, channel), plan.tile.lanes)
            return
        with code.when(self._all(missing)):
            self._epilogue.write(value, (position, channel), plan.tile.lanes)
