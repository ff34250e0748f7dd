"""Kernels with reductions of whole rows, such as softmax.

For each row, the reductions are computed first and its elements afterwards. An element often
contains the expression that was reduced last: the exponentials of a softmax are summed and then
divided by the sum. These values are kept: in registers for short rows, for others in the output if
its elements are floats, which replace them there, and otherwise in scratch memory.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Axis,
    Expression,
    Load,
    Reduce,
    accumulator,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.kernel import Kernel, op_cost
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, rewrite, substitute, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes
from neurald.drivers.cpu.codegen.epilogue import arguments_of, finish, parameter_names, pointer_names
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.int64_narrowing import narrow_int64
from neurald.drivers.cpu.emit.op_table import computed
from neurald.drivers.cpu.emit.reductions import combine, identity_text, is_number, reduce_lanes
from neurald.drivers.cpu.emit.vector import Vector, first_lanes
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.kernels.row_wise import short_rows
from neurald.drivers.cpu.kernels.row_wise.tiny_weights import without_tiny_weights
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Longer rows are better shared among threads, and exceed the second-level cache.
_MAX_ROW_LENGTH = 1 << 17
#: Number of unrolled vectors of a row.
_MAX_UNROLLED_VECTORS = 4
#: With at most this many registers, functions of at least this cost are computed one vector at a
#: time; processors overlap several.
_FEW_REGISTERS, _MIN_COSTLY = 16, 8.0
#: Size of a lane.
_LANE_BYTES = 4
#: Cycles of a horizontal reduction, and per row.
_HORIZONTAL_CYCLES, _ROW_CYCLES = 10.0, 10.0

#: Operations whose result is NaN if an operand is.
_NAN_IF_OPERAND_IS = frozenset((Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE, Op.NEGATE, Op.EXP))

#: Writes a vector of a row, given loop-carried values and its start; returns the carried values.
#: The last vector may start earlier to stay in the row, and gets a mask of the elements not in
#: vectors before.
_Part: TypeAlias = Callable[[Sequence[str], str, str | None], list[str]]


class RowWiseKernel(Struct, frozen=True, kw_only=True):
    """A kernel as rows of elements.

    Attributes:
        kernel: its last axis is along the row.
        reductions: reductions of the row, each along one axis, in dependency order.
        kept: the reduction whose elements are kept; `kernel.body` has `AccumulatorRef` in their
            place. None if there is none.
    """

    kernel: Kernel
    reductions: tuple[Reduce, ...]
    kept: Reduce | None

    @property
    def length(self) -> int:
        """Length of a row."""
        return self.kernel.axes[-1].extent


#: Results of a softmax with smaller exponents, below 1e-33, would be denormal if their sum is
#: large.
_MIN_EXPONENT = -76.0


def is_row_by_row(kernel: Kernel) -> bool:
    """Returns True if a kernel is generated row by row."""
    return _is_candidate(kernel) and _reductions_of(simplify_axes(kernel)) is not None


def routine(kernel: Kernel, target: Target) -> Routine | None:
    """Returns the routine of a kernel without a contraction, if it is computed by rows."""
    arranged = _arranged(kernel)
    if arranged is None:
        return None
    rows = _with_kept(*arranged)
    side_by_side = short_rows.routine(*arranged, target, steps=steps_of(rows))
    if side_by_side is not None:
        return side_by_side
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    output, offset = (
        pointer_names(arguments)[rows.kernel.output],
        linearize(rows.kernel.axes, rows.kernel.shape),
    )
    # Elements that replace the kept ones need less space in caches.
    is_in_place = rows.kernel.output.type is Scalar.FLOAT32 and not isinstance(rows.length, Extent)
    writer = RowWriter(
        rows, target, code, pointer_names(arguments), kept_in=(output, offset) if is_in_place else None
    )
    outer = rows.kernel.axes[:-1]
    with each_work_item(code, [*(axis.extent for axis in outer), 1]) as (position, _):
        writer.write(
            dict(zip(outer, position[:-1], strict=True)),
            lambda statements: finish(statements, rows.kernel, output, offset),
        )
    count = math.prod(rows.kernel.shape[:-1])
    vectors = -(-rows.length // target.lanes(_LANE_BYTES))
    steps = vectors * steps_of(rows) + len(rows.reductions) * _HORIZONTAL_CYCLES + _ROW_CYCLES
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=count,
        cost_ns=cost_ns(count * steps, arguments),
        declarations=frozenset(code.declarations),
        scratch_bytes=writer.scratch_bytes,
        label=f"rows of {rows.length}, {writer.lanes} elements at once",
        operations=kernel.operations,
    )


def steps_of(rows: RowWiseKernel) -> float:
    """Returns the approximate number of instructions per element."""
    roots = (rows.kernel.body, *(reduction.body for reduction in rows.reductions))
    return sum(op_cost(each.op) if isinstance(each, Apply) else 0.5 for each in walk(*roots))


def _is_candidate(kernel: Kernel) -> bool:
    """Checks the cheap conditions for a kernel of rows."""
    return kernel.row_axes is not None and not kernel.requirements and kernel.output_offset is None


def _arranged(kernel: Kernel) -> tuple[Kernel, tuple[Reduce, ...]] | None:
    """Returns a kernel with rows along its last axis and their reductions; otherwise None."""
    if not _is_candidate(kernel):
        return None
    kernel = simplify_axes(narrow_int64(kernel))
    kernel = replace(kernel, body=without_tiny_weights(kernel.body, _MIN_EXPONENT))
    reductions = _reductions_of(kernel)
    return None if reductions is None else (kernel, reductions)


def rows_along(kernel: Kernel) -> RowWiseKernel | None:
    """Returns a kernel as rows along its last axis as it is, or None if it has another form."""
    reductions = _reductions_along(kernel.body, kernel.axes[-1])
    return _with_kept(kernel, reductions) if reductions else None


def _with_kept(kernel: Kernel, reductions: tuple[Reduce, ...]) -> RowWiseKernel:
    """Returns the rows with the expensive elements that are kept."""
    kept = next(
        (reduction for reduction in reversed(reductions) if _is_worth_keeping(reduction, kernel)), None
    )
    if kept is not None:
        element = _reduced_element(kept, kernel)
        found = accumulator(element.type)
        kernel = replace(kernel, body=rewrite(kernel.body, {element: found}.get, {}))
    return RowWiseKernel(kernel=kernel, reductions=reductions, kept=kept)


def _reductions_of(kernel: Kernel) -> tuple[Reduce, ...] | None:
    """Returns the reductions of an arranged kernel, if all are of rows along its last axis."""
    if kernel.row_axes != len(kernel.axes) - 1:
        return None
    return _reductions_along(kernel.body, kernel.axes[-1]) or None


def _reductions_along(body: Expression, along: Axis) -> tuple[Reduce, ...]:
    """Returns the reductions of an element, if all are of rows along an axis; else none."""
    reductions = tuple(each for each in walk(body) if isinstance(each, Reduce))
    if along.extent > _MAX_ROW_LENGTH or not _is_side_by_side(body, along):
        return ()
    for reduction in reductions:
        if len(reduction.axes) != 1 or reduction.axes[0].extent != along.extent or not _is_plain(reduction):
            return ()
        if not _is_side_by_side(reduction.body, reduction.axes[0]):
            return ()
        if any(
            isinstance(each, Reduce) and free_axes(each) & set(reduction.axes)
            for each in walk(reduction.body)
        ):
            return ()
    return reductions


def _is_side_by_side(element: Expression, along: Axis) -> bool:
    """Returns True if loads along an axis are contiguous; tables are exempt.

    Otherwise it is better to compute several rows side by side.
    """
    loads = (each for each in walk(element) if isinstance(each, Load) and each.value.constant is None)
    return all(stride_along(offset_of(each), along) in (0, 1) for each in loads)


def _is_plain(reduction: Reduce) -> bool:
    """Returns True if the reduction accumulates in its own 32-bit or narrower type."""
    return reduction.type not in (Scalar.FLOAT16, Scalar.INDEX) and reduction.type.size_bytes <= _LANE_BYTES


def _reduced_element(reduction: Reduce, kernel: Kernel) -> Expression:
    """Returns the reduced element at the index of the kernel's element."""
    return substitute(reduction.body, {reduction.axes[0]: kernel.axes[-1]})


def _is_worth_keeping(reduction: Reduce, kernel: Kernel) -> bool:
    """Returns True if the kernel's element contains the reduced one, which is expensive.

    Expressions that are constant along the row are not kept, since they also occur inside the
    reduction.
    """
    if not free_axes(reduction.body) & set(reduction.axes):
        return False
    element = _reduced_element(reduction, kernel)
    is_costly = isinstance(element, Apply) and op_cost(element.op) > 1 and element.type is Scalar.FLOAT32
    return is_costly and any(each is element for each in kernel.expressions)


def _is_costly(body: Expression) -> bool:
    """Returns True if an element has expensive functions besides those in its reductions."""
    pending, seen = [body], {body}
    while pending:
        each = pending.pop()
        if isinstance(each, Apply) and op_cost(each.op) >= _MIN_COSTLY:
            return True
        if not isinstance(each, Reduce):
            operands = set(each.operands) - seen
            seen |= operands
            pending += operands
    return False


def _passes_nan_on(reduction: Reduce, rows: RowWiseKernel) -> bool:
    """Returns True if a row with NaN becomes NaN, whatever the result of a maximum or minimum is.

    In a softmax, a sum of exponentials is NaN then, and with it every element.
    """
    (along,) = reduction.axes
    for each in rows.reductions:
        if each.reduction is not ReductionOp.SUM or each is reduction:
            continue
        reduced = substitute(reduction.body, {along: each.axes[0]})
        if _is_nan_with(each.body, reduced) and _is_nan_with(rows.kernel.body, each):
            return True
    return False


def _is_nan_with(expression: Expression, part: Expression) -> bool:
    """Returns True if an expression is NaN if this part of it is."""
    pending, seen = [expression], {expression}
    while pending:
        each = pending.pop()
        if each is part:
            return True
        if isinstance(each, Apply) and each.op in _NAN_IF_OPERAND_IS:
            operands = set(each.arguments) - seen
            seen |= operands
            pending += operands
        elif isinstance(each, Apply) and each.op is Op.SELECT:
            condition, _, other = each.arguments
            # NaN is not less than anything.
            if isinstance(condition, Apply) and condition.op is Op.LESS and condition.arguments[0] is other:
                pending.append(other)
    return False


class RowWriter:
    """Writes the instructions for a row.

    Args:
        rows: the rows.
        target: the target of the code.
        code: receives the instructions.
        pointers: names of the memory of the values that they load.
        scratch: address of `scratch_bytes` for kept elements.
        kept_in: name of the output, whose elements are floats that replace the kept ones, and the
            offset of an element in it. The length must be known. None keeps them in scratch memory.
        replaced_by: if not 0, the kept elements times this number replace what the last reduction
            reads, from `scratch` on. The length must be known.
    """

    def __init__(
        self,
        rows: RowWiseKernel,
        target: Target,
        code: Instructions,
        pointers: Mapping[Value, str],
        scratch: str = "%scratch",
        *,
        kept_in: tuple[str, Expression] | None = None,
        replaced_by: float = 0.0,
    ) -> None:
        self._rows, self._target, self._code = rows, target, code
        self._kept_in = kept_in
        self._replaced_by = replaced_by
        self._pointers, self._scratch = pointers, scratch
        native, length = target.lanes(_LANE_BYTES), rows.length
        self._is_open = isinstance(length, Extent)
        self._is_written_out = not self._is_open and length <= _MAX_UNROLLED_VECTORS * native
        #: Number of elements computed at once, and of elements with expensive functions, whose
        #: numbers need most of few registers.
        if self._is_written_out:
            self.lanes = min(native, 1 << (length.bit_length() - 1))
        else:
            # Balances idle lanes at the end of a row against fewer, wider iterations.
            self.lanes = min(
                (native * count for count in (4, 2, 1)),
                key=lambda lanes: -(-estimate(length) // lanes) * (lanes / native + 0.5),
            )
        self._costly_lanes = min(self.lanes, native) if target.registers <= _FEW_REGISTERS else self.lanes
        #: Kept vectors by their start in the row.
        self._parts: dict[str, str] = {}

    @property
    def scratch_bytes(self) -> int:
        """Size of the kept elements."""
        if self._rows.kept is None or self._is_written_out or self._kept_in is not None:
            return 0
        if self._is_open:
            # There is a last vector also if it is empty.
            return (self._rows.length // self.lanes + 1) * self.lanes * _LANE_BYTES
        return -(-self._rows.length // self.lanes) * self.lanes * _LANE_BYTES

    def write(self, names: Mapping[Expression, str], store: Callable[[Statements], None]) -> None:
        """Writes the instructions.

        Args:
            names: names of the axes that identify the row.
            store: writes the storing of a vector of elements, whose `RowWiseKernel.kernel.body`
                the statements compute.
        """
        known = self.reduced(names)
        lanes, length = self._lanes_for(self._rows.kernel.body), self._rows.length
        last: str | None = None
        if (
            self._kept_in is not None
            and self._rows.kept is not None
            and not self._is_written_out
            and length % lanes
        ):
            # It overlaps the vector before, whose elements replace the kept ones.
            last = self._kept(names, str(length - lanes), lanes)

        def part(_: Sequence[str], begin: str, is_new: str | None) -> list[str]:
            store(self._finishing(known, begin, is_new, lanes, None if is_new is None else last))
            return []

        self._over_parts(lanes, [], part)

    def reduced(self, names: Mapping[Expression, str]) -> dict[Expression, str]:
        """Writes the instructions of the reductions.

        Args:
            names: see `write`.

        Returns:
            The names, with those of the reductions.
        """
        known = dict(names)
        for reduction in self._rows.reductions:
            known[reduction] = self._reduced(reduction, known)
        return known

    def _lanes_for(self, body: Expression) -> int:
        """Returns the number of elements that are computed at once."""
        return self._costly_lanes if _is_costly(body) else self.lanes

    def _over_parts(self, lanes: int, carried: Sequence[tuple[str, str]], write: _Part) -> list[str]:
        """Writes instructions for each vector of a row.

        Args:
            lanes: number of elements of a vector.
            carried: types and initial values.
            write: writes a vector.

        Returns:
            The carried values after the last vector.
        """
        state, length = [start for _, start in carried], self._rows.length
        v = Vector(self._code, self._target, lanes)
        whole = length // lanes * lanes
        if self._is_written_out:
            for begin in range(0, whole, lanes):
                state = write(state, str(begin), None)
        else:
            with self._code.loop("0", str(whole), carried, step=lanes, may_be_empty=self._is_open) as loop:
                loop.results = write(loop.carried, loop.index, None)
            state = loop.results
        if self._is_open:
            return write(state, str(whole), first_lanes(v, length % lanes))
        if whole < length:
            first = length - lanes
            is_new = v.numbers("i1", [first + lane >= whole for lane in range(lanes)])
            state = write(state, str(first), is_new)
        return state

    def _statements(
        self, names: Mapping[Expression, str], along: Axis, begin: str, is_new: str | None, lanes: int
    ) -> Statements:
        return Statements(
            self._code,
            self._target,
            self._pointers,
            {**names, along: begin},
            lanes=VectorLanes.across(
                Vector(self._code, self._target, lanes),
                along,
                # The last vector of a row of open length does not overlap the one before.
                is_new if self._is_open else None,
            ),
        )

    def _reduced(self, reduction: Reduce, names: Mapping[Expression, str]) -> str:
        """Reduces the row and returns the result."""
        (along,), lanes = reduction.axes, self._lanes_for(reduction.body)
        v = Vector(self._code, self._target, lanes)
        element, start = computed(reduction, lanes), identity_text(v, reduction)
        ignores_nan = is_number(reduction.body) or _passes_nan_on(reduction, self._rows)
        last: str | None = None
        if self._replaced_by and reduction is self._rows.kept and self._rows.length % lanes:
            # It overlaps the vector before, which replaces what it reads.
            first = str(self._rows.length - lanes)
            last = self._statements(names, along, first, None, lanes).value(reduction.body)

        def part(totals: Sequence[str], begin: str, is_new: str | None) -> list[str]:
            if is_new is not None and last is not None:
                value = last
            else:
                value = self._statements(names, along, begin, is_new, lanes).value(reduction.body)
            if reduction is self._rows.kept:
                self._keep(v, names, begin, value)
            if is_new is not None:
                value = v.select(is_new, element, value, start)
            kind, how = reduction.type, reduction.reduction
            return [combine(v, how, kind, element, totals[0], value, ignores_nan=ignores_nan)]

        (total,) = self._over_parts(lanes, [(v.type(element), start)], part)
        return reduce_lanes(v, reduction, element, total, ignores_nan=ignores_nan)

    def _keep(self, v: Vector, names: Mapping[Expression, str], begin: str, value: str) -> None:
        """Keeps the elements of a vector."""
        if self._is_written_out and not self._replaced_by:
            self._parts[begin] = value
            return
        if self._replaced_by:
            value = v.binary("fmul", "float", value, v.number("float", self._replaced_by))
        at = self._kept_at(names, begin)
        self._code.effect(f"store {v.type('float')} {value}, ptr {at}, align {_LANE_BYTES}")

    def _kept(self, names: Mapping[Expression, str], begin: str, lanes: int) -> str:
        """Returns the kept elements of a vector."""
        if self._is_written_out:
            return self._parts[begin]
        at = self._kept_at(names, begin)
        return self._code.fresh(f"load <{lanes} x float>, ptr {at}, align {_LANE_BYTES}")

    def _kept_at(self, names: Mapping[Expression, str], begin: str) -> str:
        """Returns the address of kept elements."""
        if self._kept_in is None:
            return address(self._code, self._scratch, multiple(self._code, begin, _LANE_BYTES))
        output, offset = self._kept_in
        known = dict(names)
        known[self._rows.kernel.axes[-1]] = begin
        place = Statements(self._code, self._target, self._pointers, known).value(offset)
        return address(self._code, output, multiple(self._code, place, _LANE_BYTES))

    def _finishing(
        self,
        names: Mapping[Expression, str],
        begin: str,
        is_new: str | None,
        lanes: int,
        kept: str | None = None,
    ) -> Statements:
        """Returns statements that compute the elements of a vector of the row.

        Args:
            names: the names of the row's axes and reductions.
            begin: the first element.
            is_new: see `_Part`.
            lanes: the number of elements.
            kept: the kept elements, if they are loaded.
        """
        kernel = self._rows.kernel
        known = dict(names)
        for each in walk(kernel.body):
            if isinstance(each, AccumulatorRef):
                known[each] = self._kept(names, begin, lanes) if kept is None else kept
        return self._statements(known, kernel.axes[-1], begin, is_new, lanes)
