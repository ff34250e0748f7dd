"""Kernels that reduce columns, along other axes than the last, contiguous one.

As many columns as registers hold are reduced row by row, so that memory is read in order. Narrow
rows are reduced in two sets of accumulators, which do not wait for each other.
"""

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
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes
from neurald.drivers.cpu.codegen.epilogue import arguments_of, finish, parameter_names, pointer_names
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.int64_narrowing import narrow_int64
from neurald.drivers.cpu.emit.math.rounding import float_to_half, half_to_float
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
        code = self._code
        with each_work_item(code, self.extents) as (position, _):
            *at, block = position
            names: dict[Expression, str] = dict(zip(self._outer, at, strict=True))
            starts = self._starts(block)
            identity = identity_text(self._v, self._fold)
            totals = self._reduced(self._fold.axes, names, starts, [identity] * self.registers)
            for start, each in zip(starts, totals, strict=True):
                self._finish({**names, self._along: start}, each)

    def _starts(self, block: str) -> list[str]:
        """Returns where a block's registers begin; the last ones begin early to stay in the row."""
        lanes, length = self._v.lanes, self._along.extent
        places = [number * lanes for number in range(self.registers)]
        if self.extents[-1] == 1:
            return [str(min(place, length - lanes)) for place in places]
        size = self.registers * lanes
        first = multiple(self._code, block, size)
        self._code.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
        first = self._code.value(f"call i64 @llvm.smin.i64(i64 {first}, i64 {length - size})")
        return [total(self._code, first, str(place)) for place in places]

    def _reduced(
        self,
        axes: Sequence[Axis],
        names: Mapping[Expression, str],
        starts: Sequence[str],
        totals: Sequence[str],
    ) -> list[str]:
        """Writes loops over axes, and returns the accumulators after them."""
        axis, *rest = axes
        kind = self._v.type(self._element)
        if rest:
            with self._code.loop("0", str(axis.extent), [(kind, each) for each in totals]) as loop:
                loop.results = self._reduced(rest, {**names, axis: loop.index}, starts, loop.carried)
            return loop.results
        sets = 2 if self.registers < _MIN_INDEPENDENT and axis.extent >= _MIN_ROWS else 1
        whole = axis.extent // sets * sets
        identity = identity_text(self._v, self._fold)
        carried = [*totals, *[identity] * (self.registers * (sets - 1))]
        body = self._fold.body
        with self._code.loop("0", str(whole), [(kind, each) for each in carried], step=sets) as loop:
            loop.results = [
                self._added(
                    {**names, axis: loop.index},
                    substitute(body, {axis: axis + number // self.registers})
                    if number >= self.registers
                    else body,
                    starts[number % self.registers],
                    each,
                )
                for number, each in enumerate(loop.carried)
            ]
        results = loop.results
        for place in range(whole, axis.extent):
            last = substitute(body, {axis: index(place)})
            results[: self.registers] = [
                self._added(names, last, start, each)
                for start, each in zip(starts, results[: self.registers], strict=True)
            ]
        if sets == 1:
            return results
        fold, ignores_nan = self._fold, is_number(body)
        halves = zip(results[: self.registers], results[self.registers :], strict=True)
        return [
            combine(self._v, fold.reduction, fold.type, self._element, *pair, ignores_nan=ignores_nan)
            for pair in halves
        ]

    def _added(self, names: Mapping[Expression, str], body: Expression, start: str, each: str) -> str:
        statements = self._statements({**names, self._along: start})
        return statements.reductions.accumulate(self._fold, body, each, self._element)

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
            lanes=self._v.lanes,
            along=self._along,
            varying=self._varying,
        )
