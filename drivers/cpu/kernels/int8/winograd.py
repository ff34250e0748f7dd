"""Winograd convolution of bytes with 3 × 3 windows, F(4 × 4, 3 × 3), with exact results.

The output is divided into tiles of 4 × 4 positions. The 6 × 6 pixels that a tile depends on are
transformed to 36 points, each of which is multiplied by transformed weights. The 36 sums of a tile
are transformed to its results. This takes 36 multiplications per tile instead of 144, of 16-bit
instead of 8-bit numbers.

`tile_transforms` has these transformations.

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.common.product import WeightOperand, WindowedProduct
from neurald.drivers.cpu.kernels.common.routine_cache import cached_routine
from neurald.drivers.cpu.kernels.common.window import WindowDimension, window_dimensions
from neurald.drivers.cpu.kernels.int8.epilogue.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.packing.panels import (
    HEAD_BYTES,
    QuantizedWeights,
    head_of,
    packed,
    packed_heads,
    panel_bytes,
    weights_of,
)
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.plan_choice import plan_of
from neurald.drivers.cpu.kernels.int8.product.micro_kernel import QuantizedMicroKernel
from neurald.drivers.cpu.kernels.int8.product.results import ResultWriter, is_packed
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES, Scheme
from neurald.drivers.cpu.kernels.int8.tile_transforms import (
    HALF_BYTES,
    MAX_SUM,
    POINTS,
    TILE_SIZE,
    pixels_subroutine,
    results_subroutine,
    transformed_weights,
)
from neurald.drivers.cpu.target.routine import Routine
from neurald.hal.records import replace

#: Padding between matrices, which avoids conflicts in the first-level cache.
_GAP_BYTES = 64
#: Maximum number of tiles of a block: those of a register tile with two vectors of channels.
_MAX_TILES = 14
#: Cycles of a step for each vector of sums, of storing one, and of a register tile besides.
_STEP_CYCLES, _STORE_CYCLES, _CALL_CYCLES = 0.6, 1.0, 20.0
#: Minimum cycles of a vector of weights. Since there are 8 times as many bytes as without this
#: method, they come from the second-level cache at best.
_WEIGHTS_CYCLES = 1.8
#: Cycles of a tile's transformations per vector of pixels, and of half as many channels; what they
#: take longer if pixels may be outside of the image; and per vector of sums with its results.
_PIXEL_CYCLES, _HALF_PIXEL_CYCLES, _BORDER_CYCLES, _RESULT_CYCLES = 100.0, 65.0, 40.0, 75.0
#: Required relative cost, since more memory is read than is counted.
_MAX_RELATIVE_COST = 0.92
#: Limit on transformed weights, which are 8 times as large as the originals: models with more would
#: take much memory.
_MAX_WEIGHT_BYTES = 10 << 18
_METHOD = "Winograd"


class _WinogradPlan(Struct, frozen=True, kw_only=True):
    """Division of a convolution.

    Attributes:
        rows, columns: movement of its window.
        images: number of images.
        block: number of tiles that are computed together.
        product: the plan of a block's product at one of the points.
    """

    rows: WindowDimension
    columns: WindowDimension
    images: int
    block: int
    product: ProductPlan

    @property
    def is_inside(self) -> bool:
        """True if all pixels of all tiles are inside of the image."""
        return self.rows.is_inside and self.columns.is_inside

    @property
    def sides(self) -> tuple[int, int]:
        """Tiles per image in each dimension; the last one may overlap the one before."""
        return _tiles(self.rows), _tiles(self.columns)

    @property
    def tiles(self) -> int:
        """Number of tiles of all images."""
        return self.images * math.prod(self.sides)

    @property
    def blocks(self) -> int:
        """Number of blocks; the last one may have fewer tiles."""
        return -(-self.tiles // self.block)

    @property
    def depth(self) -> int:
        """Channels of a pixel."""
        return self.product.product.depth

    @property
    def pixel_lanes(self) -> int:
        """Number of channels that are transformed at once; the last ones overlap those before."""
        lanes = self.product.scheme.target.lanes(HALF_BYTES)
        is_whole = self.depth >= lanes and self._pixel_cycles(lanes) <= self._pixel_cycles(lanes // 2)
        return lanes if is_whole else lanes // 2

    @property
    def matrix_bytes(self) -> int:
        """Distance of a block's pixels at one of the points from those at the next one.

        It is that of the largest blocks, so that blocks share a function that transforms pixels.
        """
        return _MAX_TILES * self.depth * HALF_BYTES + _GAP_BYTES

    @property
    def vector_bytes(self) -> int:
        """Size of the sums of a tile for a panel at one of the points."""
        return self.product.vectors * self.product.scheme.target.vector_bytes

    @property
    def sums_bytes(self) -> int:
        """Distance of the sums for a panel at one of the points from those at the next one.

        It is that of the largest blocks, like that of pixels.
        """
        return _MAX_TILES * self.vector_bytes + _GAP_BYTES

    @property
    def weight_bytes(self) -> int:
        """Size of the transformed weights."""
        return POINTS * self.product.panels * panel_bytes(self.product, 0)

    @property
    def cycles(self) -> float:
        """Estimated cycles."""
        product = self.product
        sums = product.rows * product.vectors
        step = max(sums * _STEP_CYCLES, product.vectors * _WEIGHTS_CYCLES)
        tile = product.steps * step + sums * _STORE_CYCLES + _CALL_CYCLES
        panel = POINTS * product.units * tile + self.block * product.vectors * _RESULT_CYCLES
        border = 0.0 if self.is_inside else _BORDER_CYCLES
        pixels = self.block * (self._pixel_cycles(self.pixel_lanes) + border)
        return self.blocks * (pixels + product.panels * panel)

    def _pixel_cycles(self, lanes: int) -> float:
        """Returns the estimated cycles of transforming the pixels of a tile, `lanes` at once."""
        is_whole = lanes * HALF_BYTES == self.product.scheme.target.vector_bytes
        return -(-self.depth // lanes) * (_PIXEL_CYCLES if is_whole else _HALF_PIXEL_CYCLES)


def routine(
    kernel: Kernel,
    epilogue: QuantizedEpilogue,
    direct: ProductPlan,
    weights: QuantizedWeights,
    key_of: Callable[[Sequence[Value]], Hashable | None],
) -> Routine | None:
    """Returns the routine of a convolution, or None if this method is unsupported or slower.

    Args:
        kernel: the kernel.
        epilogue: its epilogue.
        direct: the plan of the direct convolution.
        weights: its weights.
        key_of: returns a key of everything that a direct convolution's function with these
            arguments depends on, or None.
    """
    node = kernel.contraction
    if not isinstance(node, Convolution) or int(weights.largest.max()) >= MAX_SUM:
        return None
    plan = _plan(node, direct.scheme)
    if plan is None or plan.weight_bytes > _MAX_WEIGHT_BYTES:
        return None
    if plan.cycles > _MAX_RELATIVE_COST * direct.cycles:
        return None
    results = replace(plan.product, scheme=direct.scheme)
    in_pairs = is_packed(results, epilogue)
    channels = plan.product.product.channels
    heads = packed_heads(
        plan.product,
        head_of(0, 0, () if epilogue.residual is None else epilogue.residual.words),
        epilogue.starts(np.zeros((1, channels), np.int64)),
        epilogue.words(1, channels),
        node.weights.name,
        in_pairs=in_pairs,
    )
    points = _transformed(node, plan.product, in_pairs=in_pairs)
    arguments = arguments_with(epilogue.kernel, (node.input, points, heads))
    key = key_of(arguments)
    return cached_routine(
        None if key is None else (_METHOD, key),
        kernel,
        arguments,
        lambda: _new_routine(kernel, plan, epilogue, results, arguments),
    )


def _new_routine(
    kernel: Kernel,
    plan: _WinogradPlan,
    epilogue: QuantizedEpilogue,
    results: ProductPlan,
    arguments: tuple[Value, ...],
) -> Routine:
    writer = _WinogradWriter(kernel, plan, epilogue, results, arguments)
    writer.write()
    return Routine(
        text=function_text(writer.code, arguments),
        arguments=arguments,
        work_items=plan.blocks * plan.product.panels,
        cost_ns=cost_ns(plan.cycles, arguments),
        declarations=frozenset(writer.code.declarations),
        scratch_bytes=writer.scratch_bytes,
        label=f"int8, {_METHOD}, {plan.block} tiles of {TILE_SIZE} x {TILE_SIZE} positions "
        f"by {plan.product.vectors} vectors of {plan.product.scheme.lanes}",
        operations=kernel.operations,
        subroutines=frozenset(writer.code.subroutines),
    )


def _tiles(side: WindowDimension) -> int:
    return -(-side.positions // TILE_SIZE)


def _plan(node: Convolution, scheme: Scheme) -> _WinogradPlan | None:
    """Returns the plan, or None for unsupported windows, types, channels or targets."""
    target, lanes = scheme.target, scheme.lanes
    if has_extents((*node.input.shape, *node.output.shape)) or node.output.type is not Scalar.INT32:
        return None
    rows, columns = window_dimensions(node)
    images, _, _, depth = node.input.shape
    outputs = node.weights.shape[0]
    is_plain = all((side.taps, side.stride, side.dilation) == (3, 1, 1) for side in (rows, columns))
    is_large = min(rows.positions, columns.positions) >= TILE_SIZE
    is_fast = scheme.is_bytes and scheme.is_one_step and target.has_short_dots and target.vector_bytes == 64
    if not is_plain or not is_large or not is_fast or scheme.has_tiles:
        return None
    if node.groups != 1 or min(depth, outputs) < lanes or node.weights.constant is None:
        return None
    if depth * HALF_BYTES % WORD_BYTES:
        return None
    tiles = images * _tiles(rows) * _tiles(columns)
    block = -(-tiles // -(-tiles // _MAX_TILES))
    line = WindowDimension(length=1, positions=1)
    product = WindowedProduct(
        source=node.input,
        weights=WeightOperand(value=node.weights, sets=POINTS, channel_step=depth, term_step=1),
        batches=(),
        images=1,
        rows=line,
        columns=WindowDimension(length=block, positions=block),
        depth=depth,
        channels=outputs,
        image_bytes=block * depth * HALF_BYTES,
        row_bytes=block * depth * HALF_BYTES,
        pixel_bytes=depth * HALF_BYTES,
        element_bytes=HALF_BYTES,
        type=Scalar.INT16,
        width=outputs,
    )
    plan = plan_of(product, replace(scheme, is_bytes=False), is_direct=True)
    # Each panel is multiplied by the whole block.
    plan = replace(plan, block=plan.units)
    return _WinogradPlan(rows=rows, columns=columns, images=images, block=block, product=plan)


def _transformed(node: Convolution, plan: ProductPlan, *, in_pairs: bool) -> Value:
    """Returns the transformed weights: (panels, 36) panels of the product at a point."""
    constant = node.weights.constant
    assert constant is not None  # noqa: S101 - implied by the plan
    points = transformed_weights(constant, node.weights_zero)
    factors = weights_of(points, source=Scalar.INT16, zeros=(0, 0), scheme=plan.scheme)
    none = np.zeros((0, POINTS, len(constant)), np.int64)
    found = packed(plan, factors, factors.starts, none, node.weights.name, in_pairs=in_pairs).constant
    assert found is not None  # noqa: S101 - it is a constant
    panels = found[HEAD_BYTES:].reshape(POINTS, plan.panels, -1).swapaxes(0, 1)
    array: Array = np.ascontiguousarray(panels).reshape(-1)
    return Value(array.shape, Scalar.UINT8, array, node.weights.name)


class _WinogradWriter:
    """Writes the function of a Winograd convolution.

    A work item is a block of tiles with a panel. Consecutive ones of a block use the same
    transformed pixels. Scratch memory holds a pixel outside the image, the transformed pixels of a
    block, the sums of a panel, and the results of a tile.
    """

    def __init__(
        self,
        kernel: Kernel,
        plan: _WinogradPlan,
        epilogue: QuantizedEpilogue,
        results: ProductPlan,
        arguments: Sequence[Value],
    ) -> None:
        node = kernel.contraction
        assert isinstance(node, Convolution)  # noqa: S101 - implied by the plan
        names, target = pointer_names(arguments), plan.product.scheme.target
        self.code = Instructions(parameter_names(arguments))
        self._node, self._plan, self._epilogue = node, plan, epilogue
        self._source, self._points, self._heads = (names[each] for each in arguments[1:4])
        self._results = ResultWriter(self.code, results, epilogue, names, head=self._heads)
        self._kernel = QuantizedMicroKernel(plan.product, rows=0, has_sums=False, is_streamed=True)
        self._pixels = Vector(self.code, target, plan.pixel_lanes)
        self._single = Vector(self.code, target, 1)
        matrices = -(-plan.depth // _GAP_BYTES) * _GAP_BYTES
        # Sums are aligned to a register.
        sums = matrices + -(-POINTS * plan.matrix_bytes // target.vector_bytes) * target.vector_bytes
        totals = sums + POINTS * plan.sums_bytes
        self.scratch_bytes = totals + TILE_SIZE * TILE_SIZE * plan.vector_bytes
        self._matrices, self._sums, self._totals = (
            address(self.code, "%scratch", str(each)) for each in (matrices, sums, totals)
        )

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        code, plan = self.code, self._plan
        outside = self._pixels.number("i8", self._stored_zero)
        with code.loop("0", str(plan.depth), step=plan.pixel_lanes) as loop:
            to = address(code, "%scratch", loop.index)
            code.effect(f"store {self._pixels.type('i8')} {outside}, ptr {to}, align 1")
        panels = plan.product.panels
        with code.loop("%begin", "%end", may_be_empty=True) as loop:
            block, panel = (code.value(f"{each} i64 {loop.index}, {panels}") for each in ("udiv", "urem"))
            first = multiple(code, block, plan.block)
            is_first = code.value(f"icmp eq i64 {loop.index}, %begin")
            is_new = code.value(f"icmp eq i64 {panel}, 0")
            with code.when(code.value(f"or i1 {is_first}, {is_new}")):
                self._write_pixels(first)
            self._write_products(panel)
            self._write_results(first, panel)

    @property
    def _stored_zero(self) -> int:
        """The zero point of the input, as the signed byte with the same bits."""
        return (self._node.input_zero + 128) % 256 - 128

    @contextmanager
    def _each_tile(self, first: str) -> Iterator[tuple[str, str, list[str]]]:
        """Loops over the tiles of a block; yields number, image, and first row and column.

        Tiles beyond the last one repeat it.
        """
        code, plan, v = self.code, self._plan, self._single
        height, width = plan.sides
        with code.loop("0", str(plan.block)) as loop:
            number = total(code, first, loop.index)
            if plan.tiles % plan.block:
                number = v.call("llvm.smin", "i64", number, str(plan.tiles - 1))
            line, column = (code.value(f"{each} i64 {number}, {width}") for each in ("udiv", "urem"))
            image, row = (code.value(f"{each} i64 {line}, {height}") for each in ("udiv", "urem"))
            start = []
            for index, side in ((row, plan.rows), (column, plan.columns)):
                at = multiple(code, index, TILE_SIZE)
                if side.positions % TILE_SIZE:
                    at = v.call("llvm.smin", "i64", at, str(side.positions - TILE_SIZE))
                start.append(at)
            yield loop.index, image, start

    # Pixels.

    def _write_pixels(self, first: str) -> None:
        """Transforms the pixels of a block."""
        code, plan = self.code, self._plan
        _, height, width, depth = self._node.input.shape
        subroutine = pixels_subroutine(
            self._node.input.type,
            plan.product.scheme.target,
            plan.pixel_lanes,
            plan.depth,
            plan.matrix_bytes,
            has_zero=self._has_zero,
            is_inside=plan.is_inside,
        )
        with self._each_tile(first) as (number, image, start):
            to = address(code, self._matrices, multiple(code, number, depth * HALF_BYTES))
            corner = [
                total(code, at, str(-side.padding_before))
                for at, side in zip(start, (plan.rows, plan.columns), strict=True)
            ]
            line = total(code, multiple(code, image, height), corner[0])
            pixel = total(code, multiple(code, line, width), corner[1])
            source = address(code, self._source, multiple(code, pixel, depth))
            zero = (str(self._node.input_zero),) if self._has_zero else ()
            border = () if plan.is_inside else ("%scratch", *corner, str(height))
            code.call(subroutine, source, to, str(width), *border, *zero)

    @property
    def _has_zero(self) -> bool:
        return self._node.input_zero != 0

    # Products.

    def _write_products(self, panel: str) -> None:
        """Computes the sums of a block for a panel at all points."""
        code, plan, product = self.code, self._plan, self._plan.product
        size = panel_bytes(product, 0)
        with code.loop("0", str(POINTS)) as point:
            number = total(code, multiple(code, panel, POINTS), point.index)
            weights = address(code, self._points, multiple(code, number, size))
            source = address(code, self._matrices, multiple(code, point.index, plan.matrix_bytes))
            sums = address(code, self._sums, multiple(code, point.index, plan.sums_bytes))
            with code.loop("0", str(product.units)) as unit:
                first = multiple(code, unit.index, product.rows)
                if plan.block % product.rows:
                    first = self._single.call("llvm.smin", "i64", first, str(plan.block - product.rows))
                self._kernel.call(
                    code,
                    address(code, source, multiple(code, first, plan.depth * HALF_BYTES)),
                    weights,
                    self._kernel.prefetch_address(code, weights, unit.index),
                    None,
                    address(code, sums, multiple(code, first, plan.vector_bytes)),
                )

    # Results.

    def _write_results(self, first: str, panel: str) -> None:
        """Transforms the sums of a block for a panel to the results of its tiles."""
        code, plan, product = self.code, self._plan, self._plan.product
        channel = multiple(code, panel, product.vectors * product.scheme.lanes)
        if product.panels > 1:
            channel = self._single.call(
                "llvm.smin", "i64", channel, str(product.start(product.panels - 1, 0))
            )
        rows = 1 + self._epilogue.rows
        head = address(code, self._heads, multiple(code, panel, rows * plan.vector_bytes), str(HEAD_BYTES))
        constants = [self._kernel.load_row(code, head, 1 + row) for row in range(self._epilogue.rows)]
        has_begins = self._epilogue.rescaling is not None
        subroutine = results_subroutine(
            product.scheme.target,
            product.scheme.lanes,
            product.vectors,
            plan.sums_bytes,
            has_begins=has_begins,
        )
        with self._each_tile(first) as (number, image, start):
            sums = address(code, self._sums, multiple(code, number, plan.vector_bytes))
            code.call(subroutine, sums, self._totals, *((head,) if has_begins else ()))
            with code.loop("0", str(TILE_SIZE)) as loop:
                line = total(code, multiple(code, image, plan.rows.positions), start[0], loop.index)
                position = total(code, multiple(code, line, plan.columns.positions), start[1])
                totals = address(
                    code, self._totals, multiple(code, loop.index, TILE_SIZE * plan.vector_bytes)
                )
                self._results.write_spilled(totals, constants, position, channel, count=TILE_SIZE)
