"""Instructions that reduce elements: loops around accumulators, in lanes or along their axis.

A reduction that differs between lanes is computed in each lane; all others are vectorised along one
of their own axes, and the lanes are reduced horizontally at the end.
"""

import math
from collections.abc import Callable, Sequence
from itertools import product

from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Axis,
    Expression,
    Reduce,
    index,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, may_be_zero
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.cpu.codegen.scope import Scope
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit import vector_memory
from neurald.drivers.cpu.emit.byte_sums import byte_sum_of
from neurald.drivers.cpu.emit.column_sums import MAX_ROWS, UNROLLED, ColumnSum, column_sum_of
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math.integers import resized
from neurald.drivers.cpu.emit.math.rounding import float_to_half, half_to_float
from neurald.drivers.cpu.emit.math.wide_floats import has_wide_floats
from neurald.drivers.cpu.emit.op_table import computed
from neurald.drivers.cpu.emit.reductions import (
    combine,
    identity_text,
    independent_totals,
    is_number,
    is_unrolled,
    reduce_lanes,
    reduction_axis,
    reduction_lanes,
)
from neurald.drivers.cpu.emit.vector import Vector, first_lanes
from neurald.drivers.cpu.schedule.lane_constants import LaneConstants, SteppedReduction, windows
from neurald.drivers.cpu.target.target import Target

_FLOAT_BYTES = 4


class Reductions:
    """Writes the reductions of `neurald.drivers.cpu.codegen.statements.Statements`.

    Args:
        code: receives the instructions.
        target: the target of the code.
        scope: the names and lanes at the present place, which loops change.
        row: constants of the lanes' axis if the name of the first lane's index is a number.
        value: returns an expression in every lane.
    """

    def __init__(
        self,
        code: Instructions,
        target: Target,
        scope: Scope,
        row: LaneConstants | None,
        value: Callable[[Expression], str],
    ) -> None:
        self._code = code
        self._target = target
        self._scope = scope
        self._row = row
        self._value = value
        self._single = Vector(code, target, 1)

    def value(self, expression: Reduce) -> str:
        """Returns a reduction; its loops are hoisted out of those that it does not depend on."""
        if any(not axis.extent for axis in expression.axes):
            v = self._scope.lanes.v if self._scope.lanes.varies(expression) else self._single
            return identity_text(v, expression)
        # Axes, accumulator references and other reductions that it depends on.
        leaves = [self._scope.names[each] for each in walk(expression) if each in self._scope.names]
        if self._scope.lanes.varies(expression):
            row = self._row
            found = row.row_reduction(expression) if row is not None else None
            if found is None or row is None or self._scope.lanes.along is not row.along:
                return self._reduce_per_lane(expression)
            return self._reduce_windows(expression, found)
        with self._code.outside(self._code.depth(*leaves)):
            along = reduction_axis(expression, self._target)
            if along is None:
                with self._scope.with_lanes(VectorLanes(self._single)):
                    return self._reduce_per_lane(expression)
            return self._reduce_along((expression,), along)[0]

    def _reduce_per_lane(self, expression: Reduce) -> str:
        """Reduces in each lane separately."""
        along = self._scope.lanes.along
        columns = None if along is None else column_sum_of(expression, along, self._scope.lanes.v.lanes)
        if columns is not None and self._scope.window is None and self._scope.lanes.mask is None:
            return self._sum_columns(columns, expression.axes)
        v, element = self._scope.lanes.v, computed(expression, self._scope.lanes.v.lanes)
        total = self._nested(expression, expression.axes, identity_text(v, expression), element)
        return self._as_result(v, expression, total)

    def _reduce_windows(self, expression: Reduce, found: SteppedReduction) -> str:
        """Reduces contiguous elements in lanes, and takes those of the row from the results."""
        lanes, v = self._scope.lanes, self._scope.lanes.v
        at = [int(each) for each in self._scope.of_lanes(found.offsets)]
        length, starts = windows(at, found.reach, v.lanes)
        if length == 1:
            return self._reduce_per_lane(expression)
        results = []
        for start in starts:
            whole = Vector(self._code, self._target, length)
            with self._scope.with_lanes(VectorLanes(whole, lanes.along, varying=lanes.varying)):
                self._scope.window = start
                results.append(self._reduce_per_lane(expression))
                self._scope.window = None
        return vector_memory.arranged(v, computed(expression, v.lanes), results, length, starts, at)

    def _sum_columns(self, columns: ColumnSum, axes: Sequence[Axis]) -> str:
        """Adds bytes in each lane, a block of rows after the other."""
        v = self._scope.lanes.v
        total = self._sum_blocks(columns, axes, v.number("i32", 0))
        return v.binary("sub", "i32", total, v.number("i32", columns.bias))

    def _sum_blocks(self, columns: ColumnSum, axes: Sequence[Axis], total: str) -> str:
        """Adds blocks of bytes, of which each has a short sum, to a total."""
        v, code = self._scope.lanes.v, self._code
        axis, *rest = axes
        rows = MAX_ROWS // math.prod(each.extent for each in rest)
        if not rows:
            with code.loop("0", str(axis.extent), [(v.type("i32"), total)]) as loop:
                self._scope.names[axis] = loop.index
                loop.results.append(self._sum_blocks(columns, rest, loop.carried[0]))
            del self._scope.names[axis]
            return loop.results[0]
        step = min(rows, axis.extent, UNROLLED) if not rest else 1
        whole = axis.extent // step * step
        block = min(whole, rows // step * step)
        with code.loop("0", str(whole), [(v.type("i32"), total)], step=block) as loop:
            last = self._single.binary("add", "i64", loop.index, str(block))
            if whole % block:
                code.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
                last = code.value(f"call i64 @llvm.smin.i64(i64 {last}, i64 {whole})")
            sums = self._sum_rows(columns, axes, columns.start(v), (loop.index, last), step)
            loop.results.append(v.binary("add", "i32", loop.carried[0], columns.widened(v, sums)))
        total = loop.results[0]
        if whole < axis.extent:
            within = str(whole), str(axis.extent)
            sums = self._sum_rows(columns, axes, columns.start(v), within, axis.extent - whole)
            total = v.binary("add", "i32", total, columns.widened(v, sums))
        return total

    def _sum_rows(
        self,
        columns: ColumnSum,
        axes: Sequence[Axis],
        sums: tuple[str, str],
        within: tuple[str, str],
        step: int,
    ) -> tuple[str, str]:
        """Adds the bytes of a block: a range of the first axis, and all of the others."""
        axis, *rest = axes
        kind = Vector(self._code, self._target, self._scope.lanes.v.lanes // 2).type("i16")
        with self._code.loop(*within, [(kind, each) for each in sums], step=step) as loop:
            self._scope.names[axis] = loop.index
            first, second = loop.carried
            for ahead in range(step):
                if rest:
                    inner = "0", str(rest[0].extent)
                    first, second = self._sum_rows(columns, rest, (first, second), inner, 1)
                else:
                    where: dict[Expression, Expression] = {axis: axis + ahead}
                    value = self._value(substitute(columns.source, where))
                    first, second = columns.added(self._scope.lanes.v, (first, second), value)
            loop.results.extend((first, second))
        del self._scope.names[axis]
        first, second = loop.results
        return first, second

    def _as_result(self, v: Vector, expression: Reduce, total: str) -> str:
        # FLOAT16 is accumulated as float.
        return half_to_float(v, float_to_half(v, total)) if expression.type is Scalar.FLOAT16 else total

    def _nested(self, expression: Reduce, axes: Sequence[Axis], total: str, element: str) -> str:
        """Writes loops over the given axes and returns the final accumulator."""
        if not axes:
            return self.accumulate(expression, expression.body, total, element)
        if is_unrolled(expression.body, axes):
            for position in product(*(range(axis.extent) for axis in axes)):
                where: dict[Expression, Expression] = dict(zip(axes, map(index, position), strict=True))
                total = self.accumulate(expression, substitute(expression.body, where), total, element)
            return total
        axis, *rest = axes
        if axis.extent == 1:
            self._scope.names[axis] = "0"
            return self._nested(expression, rest, total, element)
        if not rest and self._scope.lanes.v.lanes > 1:
            count = independent_totals(self._scope.lanes.v, expression, axis)
            if count > 1:
                return self._side_by_side(expression, axis, count, total, element)
        carried = [(self._scope.lanes.v.type(element), total)]
        with self._code.loop("0", str(axis.extent), carried, may_be_empty=may_be_zero(axis.extent)) as loop:
            self._scope.names[axis] = loop.index
            loop.results.append(self._nested(expression, rest, loop.carried[0], element))
        del self._scope.names[axis]
        return loop.results[0]

    def _side_by_side(self, expression: Reduce, axis: Axis, count: int, total: str, element: str) -> str:
        """Writes a loop over an axis with several accumulators, which are independent."""
        v, kind = self._scope.lanes.v, self._scope.lanes.v.type(element)
        start = identity_text(v, expression)
        carried = [(kind, total), *((kind, start) for _ in range(count - 1))]
        whole = axis.extent // count * count

        def added(part: str, place: Expression) -> str:
            return self.accumulate(expression, substitute(expression.body, {axis: place}), part, element)

        with self._code.loop("0", str(whole), carried, step=count) as loop:
            self._scope.names[axis] = loop.index
            loop.results = [added(part, axis + ahead) for ahead, part in enumerate(loop.carried)]
        del self._scope.names[axis]
        parts = loop.results
        for number, place in enumerate(range(whole, axis.extent)):
            parts[number] = added(parts[number], index(place))
        ignores_nan = is_number(expression.body)
        while len(parts) > 1:
            parts = [
                combine(
                    v,
                    expression.reduction,
                    expression.type,
                    element,
                    first,
                    second,
                    ignores_nan=ignores_nan,
                )
                for first, second in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def accumulate(
        self,
        expression: Reduce,
        body: Expression,
        total: str,
        element: str,
        *,
        ignores_nan: bool | None = None,
    ) -> str:
        """Combines one element with the accumulator, at constant indices or loop counters.

        Args:
            expression: the reduction.
            body: the element.
            total: the accumulator.
            element: the type of both.
            ignores_nan: see `combine`; None if the element decides.
        """
        v, mask = self._scope.lanes.v, self._scope.lanes.mask
        is_product = isinstance(body, Apply) and body.op is Op.MULTIPLY and body.type.is_float
        is_folding = self._scope.lanes.along is not None and self._scope.lanes.along in expression.axes
        if is_product and expression.reduction is ReductionOp.SUM and not (mask and is_folding):
            first, second = (self._value(each) for each in body.operands)
            return v.fma(element, first, second, total)
        value = self._lanes_of(expression, body, element)
        ignores_nan = is_number(body) if ignores_nan is None else ignores_nan
        return combine(
            v, expression.reduction, expression.type, element, total, value, ignores_nan=ignores_nan
        )

    def _lanes_of(self, expression: Reduce, body: Expression, element: str) -> str:
        """Returns an element of a reduction, and its identity in lanes that do not exist."""
        lanes, value = self._scope.lanes, self._value(body)
        if lanes.mask and lanes.along in expression.axes:
            return lanes.v.select(lanes.mask, element, value, identity_text(lanes.v, expression))
        return value

    def reduce_together(self, expressions: Sequence[Reduce]) -> None:
        """Computes reductions along the same axes in one loop; `value` then knows their results."""
        along = reduction_axis(expressions[0], self._target)
        assert along is not None  # noqa: S101 - the schedule vectorises them
        results = self._reduce_along(expressions, along)
        self._scope.scalars.update(zip(expressions, results, strict=True))

    def _reduce_along(self, expressions: Sequence[Reduce], along: Axis) -> list[str]:
        """Vectorises reductions along an axis; the lanes are reduced horizontally at the end."""
        addend = byte_sum_of(expressions[0], along, self._target) if len(expressions) == 1 else None
        count = addend.lanes if addend else reduction_lanes(along.extent, self._target, expressions)
        v = Vector(self._code, self._target, count)
        # A scalar accumulator reference is the same in all lanes.
        same: dict[Expression, bool] = {
            each: False for each in self._scope.names if isinstance(each, AccumulatorRef)
        }
        lanes = VectorLanes(v, along, varying=same)
        sums = v if addend is None else addend.sums(v)
        elements = [computed(each, count) for each in expressions]

        # Those of which numbers and NaN are accumulated separately.
        size = len(expressions)
        tested = [each for each in expressions if self._tests_pairs(v, each)]
        halves = Vector(self._code, self._target, max(1, count // 2))

        def accumulate(totals: Sequence[str]) -> list[str]:
            if addend is None:
                found = [
                    self.accumulate(each, each.body, total, element, ignores_nan=each in tested or None)
                    for each, total, element in zip(expressions, totals[:size], elements, strict=True)
                ]
                pairs = zip(tested, totals[size:], strict=True)
                return found + [halves.binary("or", "i1", known, self._nan_in(each)) for each, known in pairs]
            value = self._value(addend.source)
            present = v.select(lanes.mask, "i8", value, "zeroinitializer") if lanes.mask else value
            return [addend.added(v, totals[0], present)]

        with self._scope.with_lanes(lanes):
            others = [axis for axis in expressions[0].axes if axis is not along]
            starts = [
                (sums.type(element), identity_text(sums, each))
                for each, element in zip(expressions, elements, strict=True)
            ]
            starts += [(halves.type("i1"), halves.number("i1", 0)) for _ in tested]
            totals = self._reduce_rows(others, starts, accumulate)
        has_nan = dict(zip(tested, map(halves.any_lane, totals[size:]), strict=True))
        results = []
        for each, element, total in zip(expressions, elements, totals[:size], strict=True):
            ignores_nan = each in has_nan or is_number(each.body)
            result = reduce_lanes(sums, each, element, total, ignores_nan=ignores_nan)
            if each in has_nan:
                nan = self._single.number(element, math.nan)
                result = self._single.select(has_nan[each], element, nan, result)
            if addend is not None and addend.bias:
                result = self._single.binary(
                    "sub", element, result, self._single.number(element, addend.bias)
                )
            results.append(self._as_result(self._single, each, self._wide(each, element, result)))
        return results

    @staticmethod
    def _tests_pairs(v: Vector, expression: Reduce) -> bool:
        """Returns True if elements fill several registers, and one instruction tests two for NaN.

        Other processors than those with AVX-512 have no masks for the results.
        """
        is_extreme = expression.reduction in (ReductionOp.MINIMUM, ReductionOp.MAXIMUM)
        has_masks = has_wide_floats(v, computed(expression, v.lanes)) and v.lanes > v.target.lanes(
            _FLOAT_BYTES
        )
        return is_extreme and has_masks and not is_number(expression.body)

    def _nan_in(self, expression: Reduce) -> str:
        """Returns which pairs of elements have NaN, those that are half of all lanes apart."""
        v, element = self._scope.lanes.v, computed(expression, self._scope.lanes.v.lanes)
        value = self._lanes_of(expression, expression.body, element)
        first, second = v.parts(element, value, v.lanes // 2)
        return Vector(self._code, self._target, v.lanes // 2).compare("uno", element, first, second)

    def _wide(self, expression: Expression, element: str, name: str) -> str:
        return resized(self._single, (element, name), "i64") if expression.type is Scalar.INDEX else name

    def _reduce_rows(
        self,
        axes: Sequence[Axis],
        carried: Sequence[tuple[str, str]],
        accumulate: Callable[[Sequence[str]], list[str]],
    ) -> list[str]:
        """Writes loops over the axes and along the lanes' axis; returns the final accumulators.

        Args:
            axes: those that are left besides the lanes' axis.
            carried: types and initial values of the accumulators.
            accumulate: returns the accumulators after the elements at the indices in `_names`.
        """
        lanes = self._scope.lanes
        kinds, totals = [kind for kind, _ in carried], [total for _, total in carried]
        if axes:
            axis, *rest = axes
            if axis.extent == 1:
                self._scope.names[axis] = "0"
                return self._reduce_rows(rest, carried, accumulate)
            with self._code.loop(
                "0", str(axis.extent), carried, may_be_empty=may_be_zero(axis.extent)
            ) as loop:
                self._scope.names[axis] = loop.index
                inner = list(zip(kinds, loop.carried, strict=True))
                loop.results = self._reduce_rows(rest, inner, accumulate)
            del self._scope.names[axis]
            return loop.results
        along = lanes.along
        assert along is not None  # noqa: S101 - it is chosen before
        count = lanes.v.lanes
        whole, is_open = along.extent // count * count, isinstance(along.extent, Extent)
        if is_open or whole:
            with self._code.loop("0", str(whole), carried, step=count, may_be_empty=is_open) as loop:
                self._scope.names[along] = loop.index
                loop.results = accumulate(loop.carried)
            totals = loop.results
        left = along.extent % count
        if is_open or left:
            self._scope.names[along] = str(whole)
            lanes.mask = first_lanes(lanes.v, left)
            self._scope.forget_varying()
            totals = accumulate(totals)
            lanes.mask = None
        self._scope.forget_varying()
        del self._scope.names[along]
        return totals
