"""Relaxed FLOAT32 products as sums of products of bfloat16 parts, with tile registers (AMX).

Relaxed models may be computed with the 11 bits of float16. bfloat16 numbers have 8, and two of them
16. Of the four products of the parts of two numbers, one is beyond the precision of the result; the
three others take three sixteenths of the time of vectors. They are exact, and are added in FLOAT32.

Terms below 2^-126 are 0.

Source: Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype for
Higher-Precision Computations", 2019.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import Epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common import tile_registers
from neurald.drivers.cpu.kernels.common.accumulator_spill import each_spilled_position
from neurald.drivers.cpu.kernels.common.addressing import (
    LINE_BYTES,
    address,
    lines_of_step,
    multiple,
    prefetch_lines,
    total,
)
from neurald.drivers.cpu.kernels.common.bias import initial_sums, split_bias
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.common.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.routine_cache import shared_routine
from neurald.drivers.cpu.kernels.common.tile import choose_tile
from neurald.drivers.cpu.kernels.common.work_items import each_rectangle
from neurald.drivers.cpu.kernels.gemm.split.inputs import PartWriter
from neurald.drivers.cpu.kernels.gemm.split.plan import (
    HALF_BYTES,
    LANES,
    PARTS,
    PRODUCTS,
    WORD_BYTES,
    SplitPlan,
    plan_of,
    rounded,
)
from neurald.drivers.cpu.kernels.gemm.split.weights import are_divisible, packed_parts
from neurald.drivers.cpu.target.routine import MAX_ORDERED_UNITS, NAME, OrderedUnits, Routine
from neurald.drivers.cpu.target.target import Target

#: Required relative cost, since estimates are not exact.
_MAX_RELATIVE_COST = 0.8
#: Name and parameters of the function that computes the sums of a group of tiles.
_FUNCTION = f"@{NAME}.sums"
_PARAMETERS = ("%source", "%panel", "%ahead", "%starts", "%totals")


def routine(kernel: Kernel, product: WindowedProduct, target: Target, other: float) -> Routine | None:
    """Returns the routine of a product, or None if this method is unsupported or slower.

    Args:
        kernel: its output is not empty.
        product: its contraction, with at least one term.
        target: the target of the code.
        other: estimated cycles of another method than vectors.
    """
    constant = product.weights.value.constant
    if not (target.has_tiles and target.is_relaxed) or constant is None or kernel.limit is not None:
        return None
    plan = plan_of(product)
    if plan is None or not are_divisible(constant):
        return None
    if plan.cycles > _MAX_RELATIVE_COST * min(other, choose_tile(product, target).cycles):
        return None
    weights = packed_parts(plan, constant)
    arguments = arguments_with(kernel, (product.source, weights))
    return shared_routine(
        kernel, arguments, target, lambda: _new_routine(kernel, plan, weights, arguments, target)
    )


def _new_routine(
    kernel: Kernel, plan: SplitPlan, weights: Value, arguments: tuple[Value, ...], target: Target
) -> Routine:
    writer = _Writer(plan, kernel, weights, arguments, target)
    writer.write()
    return Routine(
        text=function_text(writer.code, arguments),
        arguments=arguments,
        work_items=plan.images * plan.units * plan.divisions,
        cost_ns=cost_ns(plan.cycles, arguments),
        declarations=frozenset(writer.code.declarations),
        scratch_bytes=writer.scratch_bytes,
        label=f"{PARTS} bfloat16 parts, {plan.span} positions by {plan.vectors} vectors of {LANES}",
        operations=kernel.operations,
        units=_units_of(plan),
    )


def _units_of(plan: SplitPlan) -> OrderedUnits | None:
    """Returns the positions of a plan's units."""
    if plan.images * plan.units > MAX_ORDERED_UNITS:
        return None
    firsts = [
        image * plan.height + plan.first_row(unit)
        for image in range(plan.images)
        for unit in range(plan.units)
    ]
    return OrderedUnits(
        begins=tuple(each * plan.width for each in firsts),
        ends=tuple((each + plan.unit) * plan.width for each in firsts),
        items=plan.divisions,
    )


class _Writer:
    """Writes the function; a work item is a unit with some panels."""

    def __init__(
        self, plan: SplitPlan, kernel: Kernel, weights: Value, arguments: tuple[Value, ...], target: Target
    ) -> None:
        self._plan, self._target = plan, target
        self._pointers = pointer_names(arguments)
        self.code = Instructions(parameter_names(arguments))
        self._kernel, self._bias = split_bias(flattened(kernel))
        self._epilogue = Epilogue(self._kernel, target, self.code, self._pointers)
        self._weights = self._pointers[weights]
        self._parts = PartWriter(self.code, target, plan, self._pointers[plan.product.source])
        self._single = Vector(self.code, target, 1)
        self._vector = Vector(self.code, target, LANES)
        self._vector_bytes = LANES * WORD_BYTES
        self._line = plan.vectors * self._vector_bytes
        count = plan.position_tiles
        self._sums = [[row * plan.vectors + each for each in range(plan.vectors)] for row in range(count)]
        self._inputs = [count * plan.vectors + each for each in range(count)]
        self._factors = [count * (plan.vectors + 1) + each for each in range(plan.vectors)]

    @property
    def _ahead_bytes(self) -> int:
        """Bytes of the next panel that are prefetched with each tile of words."""
        plan = self._plan
        groups = plan.block * plan.row_tiles
        return lines_of_step(plan.panel_bytes, groups * plan.chunks) * LINE_BYTES

    @property
    def _starts_offset(self) -> int:
        """Offset of a panel's initial sums in scratch memory, behind the parts of inputs."""
        return rounded(PARTS * self._plan.part_bytes)

    @property
    def _totals_offset(self) -> int:
        """Offset of the sums of a group of tiles."""
        return self._starts_offset + self._line

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory per thread."""
        return self._totals_offset + self._plan.span * self._line

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        plan, code = self._plan, self.code
        shapes = {each: (plan.tile_rows, LANES) for row in self._sums for each in row}
        shapes |= dict.fromkeys(self._inputs, (plan.tile_rows, plan.words))
        shapes |= dict.fromkeys(self._factors, (plan.words, LANES))
        code.globals.append(self._function())
        tile_registers.configure(code, shapes)
        with each_rectangle(code, plan.divisions) as (units, parts):
            panels = self._panels(parts)
            with (
                self._images(units) as (image, begin, end),
                code.loop(begin, end, step=plan.block, may_be_empty=True) as blocks,
            ):
                last = self._single.call("llvm.smin", "i64", total(code, blocks.index, str(plan.block)), end)
                self._write_block(image, blocks.index, last, panels)
        tile_registers.release(code)

    def _panels(self, parts: tuple[str, str]) -> tuple[str, str]:
        """Returns the panels of a range of a unit's parts."""
        plan, v = self._plan, self._single
        first, last = (
            v.binary("udiv", "i64", multiple(self.code, each, plan.panels), str(plan.divisions))
            if plan.divisions > 1
            else str(plan.panels * int(each))
            for each in parts
        )
        return first, last

    @contextmanager
    def _images(self, units: tuple[str, str]) -> Iterator[tuple[str, str, str]]:
        """Writes a loop over the images of a range of units; yields an image and its units."""
        plan, code, v = self._plan, self.code, self._single
        if plan.images == 1:
            yield "0", *units
            return
        count = str(plan.units)
        first = v.binary("udiv", "i64", units[0], count)
        last = v.binary("udiv", "i64", total(code, units[1], str(plan.units - 1)), count)
        with code.loop(first, last, may_be_empty=True) as images:
            before = multiple(code, images.index, plan.units)
            begin = v.call("llvm.smax", "i64", v.binary("sub", "i64", units[0], before), "0")
            end = v.call("llvm.smin", "i64", v.binary("sub", "i64", units[1], before), count)
            yield images.index, begin, end

    def _first_row(self, unit: str) -> str:
        """Returns the first row of a unit."""
        plan = self._plan
        row = multiple(self.code, unit, plan.unit)
        if plan.height % plan.unit:
            row = self._single.call("llvm.smin", "i64", row, str(plan.height - plan.unit))
        return row

    def _write_block(self, image: str, begin: str, end: str, panels: tuple[str, str]) -> None:
        """Writes all panels for some units of an image."""
        plan, code, v = self._plan, self.code, self._single
        first = self._first_row(begin)
        after = v.call("llvm.smin", "i64", multiple(code, end, plan.unit), str(plan.height))
        self._parts.write(image, first, after)
        starts, totals = (
            address(code, "%scratch", str(each)) for each in (self._starts_offset, self._totals_offset)
        )
        with code.loop(*panels, may_be_empty=True) as loop:
            channel = multiple(code, loop.index, plan.width_of_panel)
            if plan.product.channels % plan.width_of_panel:
                last = str(plan.product.channels - plan.width_of_panel)
                channel = v.call("llvm.smin", "i64", channel, last)
            panel = address(code, self._weights, multiple(code, loop.index, plan.panel_bytes))
            self._write_starts(starts, channel)
            with code.loop(begin, end, may_be_empty=True) as units:
                row = self._first_row(units.index)
                inner = v.binary("sub", "i64", row, first)
                top = total(code, multiple(code, image, plan.height), row)
                with code.loop("0", str(plan.row_tiles)) as tiles:
                    column = multiple(code, tiles.index, plan.pixels)
                    if plan.width % plan.pixels:
                        column = v.call("llvm.smin", "i64", column, str(plan.width - plan.pixels))
                    source = address(
                        code,
                        "%scratch",
                        multiple(code, inner, plan.row_bytes),
                        multiple(code, column, plan.columns.stride * plan.pixel * HALF_BYTES),
                    )
                    number = v.binary("sub", "i64", units.index, begin)
                    number = total(code, multiple(code, number, plan.row_tiles), tiles.index)
                    # The groups of a block together prefetch the whole next panel.
                    part = multiple(code, number, plan.chunks * self._ahead_bytes)
                    ahead = address(code, panel, str(plan.panel_bytes), part)
                    arguments = ", ".join(f"ptr {each}" for each in (source, panel, ahead, starts, totals))
                    code.effect(f"call void {_FUNCTION}({arguments})")
                    position = total(code, multiple(code, top, plan.width), column)
                    self._write_results(totals, position, channel)

    def _write_starts(self, starts: str, channel: str) -> None:
        """Stores the initial sums of a panel."""
        code, kind = self.code, self._vector.type("float")
        for number, offset in enumerate(self._plan.offsets()):
            bias = initial_sums(
                code,
                self._target,
                self._kernel,
                self._bias,
                total(code, channel, str(offset)),
                LANES,
                self._pointers,
            )
            at = address(code, starts, str(number * self._vector_bytes))
            code.effect(f"store {kind} {bias}, ptr {at}, align {self._vector_bytes}")

    def _write_results(self, totals: str, position: str, channel: str) -> None:
        """Writes the results of a group of tiles."""
        plan, code = self._plan, self.code
        with code.loop("0", str(plan.unit)) as rows:
            line = address(code, totals, multiple(code, rows.index, plan.pitch * self._line))
            first = total(code, position, multiple(code, rows.index, plan.width))

            def write(pixel: str, sums: Sequence[str]) -> None:
                for each, offset in zip(sums, plan.offsets(), strict=True):
                    self._epilogue.write(
                        each, (total(code, first, pixel), total(code, channel, str(offset))), LANES
                    )

            each_spilled_position(self._vector, "float", (plan.pixels, plan.vectors), line, write, together=1)

    def _function(self) -> str:
        """Returns the function that stores the sums of a group of tiles."""
        plan = self._plan
        code = Instructions(_PARAMETERS)
        source, panel, ahead, starts, totals = _PARAMETERS
        for row in self._sums:
            for number, each in enumerate(row):
                at = address(code, starts, str(number * self._vector_bytes))
                tile_registers.load_tile(code, each, at, 0)
        tile_bytes = plan.words * self._vector_bytes
        chunk_bytes = PARTS * plan.vectors * tile_bytes
        stride, dilation = plan.rows.stride, plan.rows.dilation
        with code.loop("0", str(plan.rows.taps)) as rows:
            distance = multiple(code, rows.index, dilation)
            if stride > 1:
                slot = Vector(code, self._target, 1).binary("urem", "i64", distance, str(stride))
                distance = total(
                    code,
                    Vector(code, self._target, 1).binary("udiv", "i64", distance, str(stride)),
                    multiple(code, slot, plan.row_slots),
                )
            line = address(code, source, multiple(code, distance, plan.row_bytes))
            panel_line = address(
                code, panel, multiple(code, rows.index, plan.runs * plan.steps * chunk_bytes)
            )
            ahead_line = address(
                code, ahead, multiple(code, rows.index, plan.runs * plan.steps * self._ahead_bytes)
            )
            with code.loop("0", str(plan.runs)) as runs:
                run = address(
                    code, line, multiple(code, runs.index, plan.columns.dilation * plan.pixel * HALF_BYTES)
                )
                panel_run = address(code, panel_line, multiple(code, runs.index, plan.steps * chunk_bytes))
                ahead_run = address(
                    code, ahead_line, multiple(code, runs.index, plan.steps * self._ahead_bytes)
                )
                with code.loop("0", str(plan.steps)) as steps:
                    lines = address(code, ahead_run, multiple(code, steps.index, self._ahead_bytes))
                    prefetch_lines(code, lines, self._ahead_bytes // LINE_BYTES)
                    self._add(
                        code,
                        address(code, run, multiple(code, steps.index, plan.words * WORD_BYTES)),
                        address(code, panel_run, multiple(code, steps.index, chunk_bytes)),
                        tile_bytes,
                    )
        for row, first in zip(self._sums, plan.first_positions, strict=True):
            for number, each in enumerate(row):
                at = address(code, totals, str(first * self._line + number * self._vector_bytes))
                tile_registers.store_tile(code, each, at, self._line)
        self.code.declarations |= code.declarations
        typed = ", ".join(f"ptr {each}" for each in _PARAMETERS)
        head = f"define internal void {_FUNCTION}({typed}) noinline nounwind {{"
        return "\n".join((head, *code.lines, "  ret void", "}"))

    def _add(self, code: Instructions, source: str, weights: str, tile_bytes: int) -> None:
        """Adds the products of a tile of words."""
        plan = self._plan
        distance = plan.columns.stride * plan.pixel * HALF_BYTES
        left = right = -1
        for input_part, weight_part in PRODUCTS:
            if input_part != left:
                for each, first in zip(self._inputs, plan.first_positions, strict=True):
                    at = address(code, source, str(input_part * plan.part_bytes + first * distance))
                    tile_registers.load_tile(code, each, at, distance)
            if weight_part != right:
                for number, each in enumerate(self._factors):
                    at = address(code, weights, str((weight_part * plan.vectors + number) * tile_bytes))
                    tile_registers.load_tile(code, each, at, self._vector_bytes)
            left, right = input_part, weight_part
            for inputs, sums in zip(self._inputs, self._sums, strict=True):
                for each, factors in zip(sums, self._factors, strict=True):
                    tile_registers.multiply_tiles(code, "tdpbf16ps", each, inputs, factors)
