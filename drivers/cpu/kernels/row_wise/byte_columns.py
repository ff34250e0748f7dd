"""Kernels that add bytes in few columns, along other axes than the last, contiguous one.

Rows whose length is not a multiple of a register's are read as one sequence of bytes. A byte has
the same column as those one *period* before and after it, a number of whole registers and of whole
rows. So each register of a period has sums of its own, which are added by columns at last, with the
rows behind the last whole period.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from neurald.drivers.compiler.ir.expression import Axis, Expression, Linear, Reduce, accumulator
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.offsets import offset_of
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes
from neurald.drivers.cpu.codegen.epilogue import arguments_of, finish, parameter_names, pointer_names
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit.column_sums import MAX_ROWS, SIGN, ColumnSum, column_sum_of
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.int64_narrowing import narrow_int64
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.kernels.row_wise.columns import reduction_of
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

_SUM_BYTES: Final = 4
#: Fewer periods are not worth adding their sums by columns.
_MIN_PERIODS: Final = 16
#: Each register of a period needs two accumulators, and about one for what is added to them.
_REGISTERS_EACH: Final = 3
#: Largest number of columns that are added at once at last.
_MAX_LANES: Final = 16
#: Cycles for a register of bytes, and for one of sums.
_REGISTER_CYCLES, _SUM_CYCLES = 2.0, 2.0


def routine(kernel: Kernel, target: Target) -> Routine | None:
    """Returns the routine of a kernel that adds bytes in columns of rows that fill no register."""
    if kernel.requirements or kernel.limit is not None or reduction_of(kernel) is None:
        return None
    kernel = simplify_axes(narrow_int64(kernel))
    fold, along = reduction_of(kernel), kernel.axes[-1]
    if fold is None or len(fold.axes) != 1:
        return None
    sums, register = column_sum_of(fold, along, target.vector_bytes), target.vector_bytes
    if sums is None or along.extent % register == 0 or not _is_sequence(sums, fold.axes[0], kernel.axes):
        return None
    period = math.lcm(along.extent, register)
    rows = fold.axes[0].extent
    if period // register > target.registers // _REGISTERS_EACH:
        return None
    if rows * along.extent < _MIN_PERIODS * period:
        return None
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    writer = _ByteColumns(kernel, fold, sums, target, code)
    writer.write()
    items = math.prod(writer.extents)
    cycles = rows * along.extent / register * _REGISTER_CYCLES + period / _MAX_LANES * _SUM_CYCLES
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=items,
        cost_ns=cost_ns(items * cycles, arguments),
        declarations=frozenset(code.declarations),
        scratch_bytes=period * _SUM_BYTES,
        label=f"sums of bytes in {along.extent} columns, {period} bytes at once",
        operations=kernel.operations,
    )


def _is_sequence(sums: ColumnSum, rows: Axis, axes: Sequence[Axis]) -> bool:
    """Returns True if the rows of a sum follow each other in memory."""
    offset = offset_of(sums.source)
    terms = dict(offset.terms) if isinstance(offset, Linear) else {offset: 1}
    known: set[Expression] = {rows, *axes}
    return terms.get(rows) == axes[-1].extent and terms.keys() <= known


class _ByteColumns:
    """Writes the function of a sum of bytes in columns; a work item is an index of the other axes.

    Attributes:
        extents: the dimensions of the work items.
    """

    def __init__(
        self, kernel: Kernel, fold: Reduce, sums: ColumnSum, target: Target, code: Instructions
    ) -> None:
        self._kernel, self._fold, self._sums, self._target, self._code = kernel, fold, sums, target, code
        self._pointers = pointer_names(arguments_of(kernel))
        *self._outer, self._along = kernel.axes
        self.extents = [each.extent for each in self._outer] or [1]
        self._period = math.lcm(self._along.extent, target.vector_bytes)
        (self._rows,) = fold.axes

    def write(self) -> None:
        """Writes the instructions."""
        code, width = self._code, self._along.extent
        offset = offset_of(self._sums.source)
        terms = dict(offset.terms) if isinstance(offset, Linear) else {offset: 1}
        first = offset.constant if isinstance(offset, Linear) else 0
        periods = self._rows.extent * width // self._period
        with each_work_item(code, self.extents) as (position, _):
            outer: dict[Expression, str] = dict(zip(self._outer, position, strict=False))
            begins = [multiple(code, at, terms.get(each, 0)) for each, at in outer.items()]
            source = address(code, self._pointers[self._sums.source.value], *begins, str(first))
            self._add_periods(source, periods)
            behind = address(code, source, str(periods * self._period))
            lanes = min(_MAX_LANES, 1 << (width.bit_length() - 1))
            for start in range(0, width, lanes):
                self._finish(outer, behind, min(start, width - lanes), lanes)

    def _add_periods(self, source: str, periods: int) -> None:
        """Adds the bytes of whole periods, and stores their sums."""
        code, register = self._code, self._target.vector_bytes
        v = Vector(code, self._target, register)
        starts = range(0, self._period, register)
        for start in starts:
            self._store(v, start, v.number("i32", 0))
        pairs = Vector(code, self._target, register // 2).type("i16")
        with code.loop("0", str(periods), step=MAX_ROWS) as block:
            code.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
            last = code.value(f"add i64 {block.index}, {MAX_ROWS}")
            last = code.value(f"call i64 @llvm.smin.i64(i64 {last}, i64 {periods})")
            carried = [(pairs, each) for _ in starts for each in self._sums.start(v)]
            with code.loop(block.index, last, carried) as loop:
                place = address(code, source, multiple(code, loop.index, self._period))
                loop.results = [
                    each
                    for number, start in enumerate(starts)
                    for each in self._sums.added(
                        v,
                        (loop.carried[2 * number], loop.carried[2 * number + 1]),
                        code.fresh(f"load {v.type('i8')}, ptr {address(code, place, str(start))}, align 1"),
                    )
                ]
            for number, start in enumerate(starts):
                found = self._sums.widened(v, (loop.results[2 * number], loop.results[2 * number + 1]))
                at = address(code, "%scratch", str(start * _SUM_BYTES))
                before = code.fresh(f"load {v.type('i32')}, ptr {at}, align {_SUM_BYTES}")
                self._store(v, start, v.binary("add", "i32", before, found))

    def _store(self, v: Vector, start: int, value: str) -> None:
        at = address(self._code, "%scratch", str(start * _SUM_BYTES))
        self._code.effect(f"store {v.type('i32')} {value}, ptr {at}, align {_SUM_BYTES}")

    def _finish(self, outer: Mapping[Expression, str], behind: str, start: int, lanes: int) -> None:
        """Stores elements of some columns.

        Args:
            outer: the index of each other axis.
            behind: the address of the rows behind the last whole period.
            start: the first column.
            lanes: number of columns.
        """
        code, width = self._code, self._along.extent
        v = Vector(code, self._target, lanes)
        result = v.number("i32", -self._sums.bias)
        for row in range(self._period // width):
            at = address(code, "%scratch", str((row * width + start) * _SUM_BYTES))
            sums = code.fresh(f"load {v.type('i32')}, ptr {at}, align {_SUM_BYTES}")
            result = v.binary("add", "i32", result, sums)
        left = self._rows.extent - self._rows.extent * width // self._period * (self._period // width)
        if left:
            with code.loop("0", str(left), [(v.type("i32"), result)]) as loop:
                at = address(code, behind, total(code, multiple(code, loop.index, width), str(start)))
                value = code.fresh(f"load {v.type('i8')}, ptr {at}, align 1")
                if self._sums.source.type is Scalar.INT8:
                    value = v.binary("xor", "i8", value, v.number("i8", SIGN))
                loop.results = [v.binary("add", "i32", loop.carried[0], v.cast("zext", "i8", value, "i32"))]
            (result,) = loop.results
        found = accumulator(self._fold.type)
        kernel = replace(self._kernel, body=substitute(self._kernel.body, {self._fold: found}))
        names = {**outer, found: result, self._along: str(start)}
        lane_axis = VectorLanes.across(v, self._along)
        statements = Statements(code, self._target, self._pointers, names, lanes=lane_axis)
        finish(statements, kernel, self._pointers[kernel.output], kernel.stored_at)
