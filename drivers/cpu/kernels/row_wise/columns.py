"""Kernels that reduce columns, along other axes than the last, contiguous one.

As many columns as registers hold are reduced row by row, so that memory is read in order. Narrow
rows are reduced in two sets of accumulators, which do not wait for each other.

A minimum or maximum is NaN if an element is. With masks (AVX-512), a block is reduced as if there
were none, and one instruction tests two registers of elements. Blocks that have NaN are reduced
again, with a test of each element.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Final

from neurald.drivers.compiler.ir.expression import (
    Axis,
    Expression,
    Load,
    Reduce,
    accumulator,
    index,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes
from neurald.drivers.cpu.codegen.epilogue import arguments_of, finish, parameter_names, pointer_names
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.int64_narrowing import narrow_int64
from neurald.drivers.cpu.emit.math.rounding import float_to_half, half_to_float
from neurald.drivers.cpu.emit.math.wide_floats import has_wide_floats
from neurald.drivers.cpu.emit.op_table import computed
from neurald.drivers.cpu.emit.reductions import combine, identity_text, is_number
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import multiple, total
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Types of what is reduced, and those that the accumulators have.
_LOADED, _COMPUTED = (Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT32), ("float", "i32")
_LANE_BYTES: Final = 4
#: Reductions of fewer rows are not worth several registers, and costlier functions need them.
_MIN_ROWS, _MAX_EXPRESSIONS = 16, 16
#: Three quarters of the registers are accumulators. Fewer than four wait for each other.
_MIN_INDEPENDENT = 4
#: Bytes from which on threads share the columns, if there are fewer indices of other axes, in
#: blocks of this many registers.
_MIN_SHARED_BYTES, _FEW_INDICES, _SHARED_REGISTERS = 8 << 20, 8, 4
#: Cycles for a row of a register.
_ROW_CYCLES = 1.0
#: Masks that remember NaN in turn, since each waits for the one before.
_MASKS: Final = 2


def routine(kernel: Kernel, target: Target) -> Routine | None:
    """Returns the routine of a kernel that only reduces columns of several registers."""
    if kernel.requirements or kernel.limit is not None or reduction_of(kernel) is None:
        return None
    kernel = simplify_axes(narrow_int64(kernel))
    fold = reduction_of(kernel)
    lanes = target.lanes(_LANE_BYTES)
    if fold is None or not _is_column_wise(fold, kernel.axes[-1], lanes):
        return None
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    writer = _Columns(kernel, fold, target, code)
    writer.write()
    rows = math.prod(each.extent for each in (*kernel.axes[:-1], *fold.axes))
    vectors = -(-kernel.axes[-1].extent // lanes)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=math.prod(writer.extents),
        cost_ns=cost_ns(rows * vectors * _ROW_CYCLES, arguments),
        declarations=frozenset(code.declarations),
        label=f"columns, {writer.registers * lanes} at once",
        operations=kernel.operations,
    )


def reduction_of(kernel: Kernel) -> Reduce | None:
    """Returns the only reduction of a kernel."""
    found = [each for each in walk(kernel.body) if isinstance(each, Reduce)]
    return found[0] if len(found) == 1 else None


def _is_column_wise(fold: Reduce, along: Axis, lanes: int) -> bool:
    """Returns True if a reduction reads several registers of contiguous elements along an axis."""
    rows = math.prod(each.extent for each in fold.axes)
    if rows < _MIN_ROWS or along.extent <= lanes or computed(fold, lanes) not in _COMPUTED:
        return False
    parts = list(walk(fold.body))
    loads = [each for each in parts if isinstance(each, Load)]
    if len(parts) > _MAX_EXPRESSIONS or any(
        each.guard is not None or each.type not in _LOADED for each in loads
    ):
        return False
    strides = {stride_along(offset_of(each), along) for each in loads}
    return 1 in strides and strides <= {0, 1}


class _Columns:
    """Writes the function of a reduction of columns.

    A work item is a block of columns, for an index of each other axis.

    Attributes:
        registers: number of registers of a block.
        extents: the dimensions of the work items.
    """

    def __init__(self, kernel: Kernel, fold: Reduce, target: Target, code: Instructions) -> None:
        self._kernel, self._fold, self._target, self._code = kernel, fold, target, code
        self._pointers = pointer_names(arguments_of(kernel))
        self._v = Vector(code, target, target.lanes(_LANE_BYTES))
        self._element = computed(fold, self._v.lanes)
        self._varying: dict[Expression, bool] = {}
        *self._outer, self._along = kernel.axes
        vectors = -(-self._along.extent // self._v.lanes)
        count = math.prod(each.extent for each in self._outer)
        read = sum(value.size_bytes for value in kernel.inputs)
        is_shared = read >= _MIN_SHARED_BYTES and count < _FEW_INDICES
        blocks = -(-vectors // (_SHARED_REGISTERS if is_shared else target.registers * 3 // 4))
        self.registers = -(-vectors // blocks)
        self.extents = [*(each.extent for each in self._outer), blocks]

    def write(self) -> None:
        with each_work_item(self._code, self.extents) as (position, _):
            *at, block = position
            names: dict[Expression, str] = dict(zip(self._outer, at, strict=True))
            first = self._first(block)
            places = (total(self._code, first, str(n * self._v.lanes)) for n in range(self.registers))
            starts = [self._within_row(each) for each in places]
            if self._tests_pairs():
                self._write_block_of_numbers(names, first, starts)
            else:
                self._write_block(names, starts)

    def _write_block(self, names: Mapping[Expression, str], starts: Sequence[str]) -> None:
        """Reduces registers of columns, and stores the results."""
        self._finish_all(
            names, starts, self._reduced(self._fold.axes, names, starts, self._identities(starts))
        )

    def _write_block_of_numbers(
        self, names: Mapping[Expression, str], first: str, starts: Sequence[str]
    ) -> None:
        """Does the same as if no element were NaN, and again register by register if one is."""
        code, v = self._code, self._v
        masks = [v.number("i1", 0)] * _MASKS
        found = self._reduced(self._fold.axes, names, starts, self._identities(starts), masks)
        totals, masks = found[: self.registers], found[self.registers :]
        has_nan = v.any_lane(functools.reduce(functools.partial(v.binary, "or", "i1"), masks))
        single = Vector(code, self._target, 1)
        with code.when(single.binary("xor", "i1", has_nan, "true")):
            self._finish_all(names, starts, totals)
        with code.when(has_nan), code.loop("0", str(self.registers)) as loop:
            place = total(code, first, multiple(code, loop.index, v.lanes))
            self._write_block(names, [self._within_row(place)])

    def _tests_pairs(self) -> bool:
        """Returns True if pairs of registers are tested for NaN instead of each element."""
        is_extreme = self._fold.reduction in (ReductionOp.MINIMUM, ReductionOp.MAXIMUM)
        return is_extreme and has_wide_floats(self._v, self._element) and not is_number(self._fold.body)

    def _first(self, block: str) -> str:
        """Returns the first column of a block; the last block begins early to stay in the row."""
        if self.extents[-1] == 1:
            return "0"
        size = self.registers * self._v.lanes
        return self._at_most(multiple(self._code, block, size), self._along.extent - size)

    def _within_row(self, start: str) -> str:
        """Returns where a register begins; the last one begins early to stay in the row."""
        return self._at_most(start, self._along.extent - self._v.lanes)

    def _at_most(self, name: str, limit: int) -> str:
        if name.isdecimal():
            return str(min(int(name), limit))
        self._code.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
        return self._code.value(f"call i64 @llvm.smin.i64(i64 {name}, i64 {limit})")

    def _identities(self, starts: Sequence[str]) -> list[str]:
        return [identity_text(self._v, self._fold)] * len(starts)

    def _reduced(
        self,
        axes: Sequence[Axis],
        names: Mapping[Expression, str],
        starts: Sequence[str],
        totals: Sequence[str],
        masks: Sequence[str] = (),
    ) -> list[str]:
        """Writes loops over axes, and returns the accumulators after them.

        Args:
            axes: those that are left.
            names: the indices of the others.
            starts: where each register begins.
            totals: an accumulator for each register.
            masks: lanes that have had NaN, which accumulators then ignore; none to test each
                element. They follow the accumulators that are returned.
        """
        axis, *rest = axes
        size = len(starts)
        kind, of_mask = self._v.type(self._element), self._v.type("i1")
        if rest:
            carried = [*((kind, each) for each in totals), *((of_mask, each) for each in masks)]
            with self._code.loop("0", str(axis.extent), carried) as loop:
                inner = {**names, axis: loop.index}
                loop.results = self._reduced(rest, inner, starts, loop.carried[:size], loop.carried[size:])
            return loop.results
        sets = 2 if size < _MIN_INDEPENDENT and axis.extent >= _MIN_ROWS else 1
        whole = axis.extent // sets * sets
        accumulators = [*totals, *self._identities(starts) * (sets - 1)]
        carried = [*((kind, each) for each in accumulators), *((of_mask, each) for each in masks)]
        body = self._fold.body
        with self._code.loop("0", str(whole), carried, step=sets) as loop:
            bodies = [substitute(body, {axis: axis + ahead}) if ahead else body for ahead in range(sets)]
            at = {**names, axis: loop.index}
            loop.results = self._added(at, bodies, starts, loop.carried)
        results = loop.results
        for place in range(whole, axis.extent):
            last = substitute(body, {axis: index(place)})
            kept = [*results[:size], *results[size * sets :]]
            added = self._added(names, [last], starts, kept)
            results = [*added[:size], *results[size : size * sets], *added[size:]]
        if sets == 1:
            return results
        fold, ignores_nan = self._fold, bool(masks) or is_number(body)
        halves = zip(results[:size], results[size : size * sets], strict=True)
        joined = [
            combine(self._v, fold.reduction, fold.type, self._element, *pair, ignores_nan=ignores_nan)
            for pair in halves
        ]
        return [*joined, *results[size * sets :]]

    def _added(
        self,
        names: Mapping[Expression, str],
        bodies: Sequence[Expression],
        starts: Sequence[str],
        carried: Sequence[str],
    ) -> list[str]:
        """Adds elements of rows to accumulators, of which each row has its own, and to masks."""
        places = [(body, start) for body in bodies for start in starts]
        totals, masks = carried[: len(places)], list(carried[len(places) :])
        added, values = [], []
        for (body, start), each in zip(places, totals, strict=True):
            statements = self._statements({**names, self._along: start})
            added.append(
                statements.reductions.accumulate(
                    self._fold, body, each, self._element, ignores_nan=True if masks else None
                )
            )
            if masks:
                values.append(statements.value(body))
        for number, first in enumerate(values[::2]):
            second = values[min(2 * number + 1, len(values) - 1)]
            has_nan = self._v.compare("uno", self._element, first, second)
            masks[number % _MASKS] = self._v.binary("or", "i1", masks[number % _MASKS], has_nan)
        return [*added, *masks]

    def _finish_all(
        self, names: Mapping[Expression, str], starts: Sequence[str], totals: Sequence[str]
    ) -> None:
        for start, each in zip(starts, totals, strict=True):
            self._finish({**names, self._along: start}, each)

    def _finish(self, names: Mapping[Expression, str], each: str) -> None:
        """Stores elements that follow from results."""
        result = accumulator(self._fold.type)
        if self._fold.type is Scalar.FLOAT16:
            each = half_to_float(self._v, float_to_half(self._v, each))
        kernel = replace(self._kernel, body=substitute(self._kernel.body, {self._fold: result}))
        statements = self._statements({**names, result: each})
        finish(statements, kernel, self._pointers[kernel.output], kernel.stored_at)

    def _statements(self, names: Mapping[Expression, str]) -> Statements:
        return Statements(
            self._code,
            self._target,
            self._pointers,
            names,
            lanes=VectorLanes.across(self._v, self._along, varying=self._varying),
        )
