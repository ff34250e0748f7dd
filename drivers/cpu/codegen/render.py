"""Generates LLVM IR for any kernel, with contractions expanded to reductions.

The text of a kernel is the same in every process.
"""

import math
from collections.abc import Mapping, Sequence

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Load, Reduce, index
from neurald.drivers.compiler.ir.extents.extent import Extent, at_least, estimate, surely_lowest
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes
from neurald.drivers.compiler.passes.contraction.contraction_expansion import expand_contraction
from neurald.drivers.cpu.codegen.epilogue import (
    arguments_of,
    finish,
    parameter_names,
    parameters,
    pointer_names,
)
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit.block_moves import MIN_BLOCK_BYTES, copy_block, fill_block, has_block_moves
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.int64_narrowing import narrow_int64
from neurald.drivers.cpu.emit.op_table import stored, to_stored
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.schedule.axis_splitting import split_into_sections
from neurald.drivers.cpu.schedule.vectorization import LoopSchedule, schedule_loops
from neurald.drivers.cpu.target.routine import NAME, Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Functions that take so long that hardware prefetchers are too late for the next elements, which
#: are therefore prefetched. Prefetching for cheap ones takes up to a fifth of their time.
_LONG = frozenset((Op.SIN, Op.COS, Op.TAN))


def render(kernel: Kernel, target: Target) -> Routine:
    """Generates the routine of any kernel.

    Args:
        kernel: the kernel.
        target: the target of the code.
    """
    kernel = expand_contraction(kernel)
    values = arguments_of(kernel)
    code = Instructions(parameter_names(values))
    work_items, cost_ns, label = 0, 0.0, "nothing"
    if math.prod(kernel.shape):
        layouts = [
            each
            for section in split_into_sections(narrow_int64(kernel), target)
            for each in _schedules(simplify_axes(section), target)
        ]
        end = _limited_end(kernel, [layout for layout, _ in layouts], code, pointer_names(values))
        for layout, share in layouts:
            _Loops(layout, code, target, pointer_names(values), (work_items, share), end).write()
            work_items += layout.work_items * share
            cost_ns += layout.cost_ns * estimate(share)
        lanes = max(layout.lanes for layout, _ in layouts)
        count = len({id(layout.kernel) for layout, _ in layouts})
        label = f"{lanes} elements at once" if lanes > 1 else "element by element"
        label += ", reduced together" if any(layout.is_together for layout, _ in layouts) else ""
        label += ", rows written out" if any(layout.row is not None for layout, _ in layouts) else ""
        label += f", in {count} sections" if count > 1 else ""
    lines = [
        *code.globals,
        f"define void @{NAME}({parameters(values)}) nounwind {{",
        *code.lines,
        "  ret void",
        "}",
        "",
    ]
    return Routine(
        text="\n".join(lines),
        arguments=values,
        work_items=work_items,
        cost_ns=cost_ns,
        declarations=frozenset(code.declarations),
        label=label,
        operations=kernel.operations,
        may_reduce_nothing=True,
    )


def _schedules(kernel: Kernel, target: Target) -> list[tuple[LoopSchedule, int]]:
    """Returns the schedules of a kernel, each with 1 if it computes the elements, or else 0.

    There are two if it is not known whether a row fills a vector.
    """
    layout = schedule_loops(kernel, target)
    length = layout.kernel.axes[-1].extent
    if layout.lanes == 1 or not isinstance(length, Extent) or surely_lowest(length) >= layout.lanes:
        return [(layout, 1)]
    is_long = at_least(length, layout.lanes)
    single = schedule_loops(layout.kernel, target, is_single=True)
    return [(layout, is_long), (single, 1 - is_long)]


def _limited_end(
    kernel: Kernel, layouts: Sequence[LoopSchedule], code: Instructions, pointers: Mapping[Value, str]
) -> str:
    """Returns the end of the work items, of which only those of needed rows are computed."""
    limit = kernel.limit
    if limit is None or len(layouts) > 1 or kernel.output_offset is not None:
        return "%end"
    (layout,) = layouts
    if layout.order != layout.kernel.axes:
        return "%end"
    # Work items are parts of the elements in row-major order. None is larger than an earlier one.
    count = code.value(f"sext i32 {code.load(f'load i32, ptr {pointers[limit.count]}, align 4')} to i64")
    needed = code.value(f"mul i64 {count}, {layout.work_items}")
    rounded = code.value(f"add i64 {needed}, {limit.bound - 1}")
    code.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
    return code.value(
        f"call i64 @llvm.smin.i64(i64 %end, i64 {code.value(f'sdiv i64 {rounded}, {limit.bound}')})"
    )


def _moves_blocks(layout: LoopSchedule, target: Target) -> bool:
    """Returns True if the innermost loop copies a long block, or fills it with one element."""
    kernel, along = layout.kernel, layout.kernel.axes[-1]
    if not has_block_moves(target) or layout.order[-1] is not along:
        return False
    if layout.lanes == 1 or layout.row is not None or isinstance(along.extent, Extent):
        return False
    least = layout.block * layout.lanes if layout.blocks > 1 else along.extent
    if least * kernel.output.type.size_bytes < MIN_BLOCK_BYTES:
        return False
    if any(each is along for condition, _ in kernel.requirements for each in walk(condition)):
        return False
    body = kernel.body
    if stride_along(kernel.stored_at, along) != 1:
        return False
    if not isinstance(body, Load):
        return isinstance(body, Constant)
    # What is loaded as a BOOL is stored as 0 or 1, and not copied.
    strides = (0,) if body.type is Scalar.BOOL else (0, 1)
    return body.guard is None and stride_along(offset_of(body), along) in strides


class _Loops:
    """Writes the loops of a schedule: over units, then over the remaining axes.

    Args:
        layout: the schedule of a kernel or a section.
        code: receives the instructions.
        target: the target of the code.
        pointers: names of the values' memory.
        own: number of its first work item in the function, and 1 if it has any work items, or else
            0.
        end: name of the end of the function's work items.
    """

    def __init__(
        self,
        layout: LoopSchedule,
        code: Instructions,
        target: Target,
        pointers: Mapping[Value, str],
        own: tuple[int, int],
        end: str,
    ) -> None:
        self._layout = layout
        self._first, self._share = own
        self._end = end
        self._code = code
        self._target = target
        self._pointers = pointers
        #: Names of the loop counters.
        self._counters: dict[Expression, str] = {}
        self._moves_blocks = _moves_blocks(layout, target)
        self._prefetches = not layout.kernel.has_reduction and any(
            isinstance(each, Apply) and each.op in _LONG for each in walk(*layout.kernel.roots)
        )

    def write(self) -> None:
        layout, code = self._layout, self._code
        first = code.value(f"mul i64 {self._own('%begin')}, {layout.units_per_work_item}")
        last = self._least(
            code.value(f"mul i64 {self._own(self._end)}, {layout.units_per_work_item}"),
            layout.units * self._share,
        )
        with code.loop(first, last, may_be_empty=True) as unit:
            rest = unit.index
            iterations = layout.iterations(layout.order[-1])
            begin, end = "0", str(iterations)
            if isinstance(layout.blocks, Extent) or layout.blocks > 1:
                part, rest = self._split(rest, layout.blocks)
                begin = code.value(f"mul i64 {part}, {layout.block}")
                end = self._least(code.value(f"add i64 {begin}, {layout.block}"), iterations)
            for axis in reversed(layout.order[1 : layout.outer]):
                self._counters[axis], rest = self._split(rest, layout.iterations(axis))
            if layout.outer:
                self._counters[layout.order[0]] = rest
            self._nest(layout.order[layout.outer :], begin, end)

    def _own(self, work_item: str) -> str:
        """Converts a work item of the function to one of this schedule; 0 for earlier ones."""
        if not isinstance(self._first, Extent) and not self._first:
            return work_item
        self._code.declarations.add("declare i64 @llvm.smax.i64(i64, i64)")
        counted = self._code.value(f"sub i64 {work_item}, {self._first}")
        return self._code.value(f"call i64 @llvm.smax.i64(i64 {counted}, i64 0)")

    def _least(self, value: str, limit: int) -> str:
        self._code.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
        return self._code.value(f"call i64 @llvm.smin.i64(i64 {value}, i64 {limit})")

    def _split(self, value: str, count: int) -> tuple[str, str]:
        """Returns the remainder and the quotient."""
        return self._code.value(f"urem i64 {value}, {count}"), self._code.value(f"udiv i64 {value}, {count}")

    def _nest(self, axes: Sequence[Axis], begin: str, end: str) -> None:
        """Writes a loop for each axis; the last one runs from `begin` to `end`."""
        if not axes:
            self._elements()
            return
        axis, *others = axes
        if not others and self._moves_blocks:
            self._block(begin, end)
            return
        first, last = ("0", str(self._layout.iterations(axis))) if others else (begin, end)
        with self._code.loop(first, last) as loop:
            self._counters[axis] = loop.index
            self._nest(others, begin, end)

    def _elements(self) -> None:
        """Writes the elements of an iteration of the innermost loop."""
        along, lanes = self._layout.kernel.axes[-1], self._layout.lanes
        if self._layout.is_together:
            self._together()
            return
        if self._layout.row is None:
            self._vector(dict(self._counters))
            return
        for begin in range(0, along.extent, lanes):
            self._vector({**self._counters, along: str(min(begin, along.extent - lanes))})

    def _block(self, begin: str, end: str) -> None:
        """Copies or fills the elements of some iterations of the innermost loop."""
        kernel, code, lanes = self._layout.kernel, self._code, self._layout.lanes
        kind, along = kernel.output.type, kernel.axes[-1]
        first = code.value(f"mul i64 {begin}, {lanes}")
        last = self._least(code.value(f"mul i64 {end}, {lanes}"), along.extent)
        names = {**self._counters, along: first}
        statements = Statements(code, self._target, self._pointers, names)
        for number, (condition, _) in enumerate(kernel.requirements, start=1):
            statements.require(condition, number)
        size = code.value(f"mul i64 {code.value(f'sub i64 {last}, {first}')}, {kind.size_bytes}")
        to = self._address(statements, kernel.output, kernel.stored_at)
        body = kernel.body
        if isinstance(body, Load) and stride_along(offset_of(body), along) == 1:
            copy_block(code, self._address(statements, body.value, offset_of(body)), to, size)
            return
        single = Vector(code, self._target, 1)
        value = to_stored(single, kind, statements.value(body))
        integer = f"i{8 * kind.size_bytes}"
        if stored(kind) != integer:
            value = code.value(f"bitcast {stored(kind)} {value} to {integer}")
        fill_block(code, value, kind.size_bytes, to, size)

    def _address(self, statements: Statements, value: Value, offset: Expression) -> str:
        """Returns the address of an element."""
        at = self._code.value(f"mul i64 {statements.value(offset)}, {value.type.size_bytes}")
        return self._code.value(f"getelementptr i8, ptr {self._pointers[value]}, i64 {at}")

    def _together(self) -> None:
        """Writes all elements along the last axis, whose reductions share a loop."""
        kernel = self._layout.kernel
        names = {axis: name for axis, name in self._counters.items() if axis is not kernel.axes[-1]}
        statements = Statements(self._code, self._target, self._pointers, names)
        places: list[dict[Expression, Expression]] = [
            {kernel.axes[-1]: index(number)} for number in range(kernel.axes[-1].extent)
        ]
        bodies = [substitute(kernel.body, place) for place in places]
        statements.reductions.reduce_together(
            [each for body in bodies for each in walk(body) if isinstance(each, Reduce)]
        )
        for place, body in zip(places, bodies, strict=True):
            offset = substitute(kernel.stored_at, place)
            finish(statements, replace(kernel, body=body), self._pointers[kernel.output], offset)

    def _vector(self, names: dict[Expression, str]) -> None:
        """Writes the elements that are computed together, beginning at an index."""
        kernel, lanes, row = self._layout.kernel, self._layout.lanes, self._layout.row
        along = kernel.axes[-1]
        if lanes > 1 and row is None:
            offset = self._code.value(f"mul i64 {names[along]}, {lanes}")
            # If the last vector is incomplete, it starts earlier and computes some elements again.
            rest = along.extent % lanes
            is_overlapping = isinstance(rest, Extent) or rest
            names[along] = self._least(offset, along.extent - lanes) if is_overlapping else offset
        statements = Statements(
            self._code,
            self._target,
            self._pointers,
            names,
            lanes=VectorLanes.across(Vector(self._code, self._target, lanes), along),
            is_streaming=self._prefetches,
            row=row,
        )
        finish(statements, kernel, self._pointers[kernel.output], kernel.stored_at)
