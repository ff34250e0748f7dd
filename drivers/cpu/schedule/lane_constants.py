"""Expressions that are known for every index of one axis, when its loop is written out.

The channels of a shuffle, the parts of a concatenation or every second pixel are read from
addresses that follow no stride. If the loop over the elements of a row is written out, their
positions relative to the row are constants, and loads become a few contiguous vectors whose lanes
are permuted by constants.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array, evaluate_node
from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Axis,
    Expression,
    Linear,
    Load,
    Reduce,
    sum_of,
)
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.offsets import offset_of
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import has_own_extents, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.evaluation_cost import conjuncts

#: Size of constants that are read at constant indices.
_MAX_TABLE_BYTES = 1 << 16


class RowLoad(Struct, frozen=True, eq=False):
    """A load of elements of a row, relative to the row.

    Attributes:
        base: the offset of the row in the loaded value, in elements.
        offsets: the offset of each element relative to the base.
        condition: what must hold for all elements; None if there is no such condition.
        mask: the elements that are loaded if the condition holds.
    """

    base: Expression
    offsets: Array
    condition: Expression | None
    mask: Array

    def reach(self, load: Load) -> tuple[int, int]:
        """Returns the lowest and the highest relative offset that is inside the value for any row.

        Empty memory between loaded elements may be read; memory beyond them only if all rows have
        it.
        """
        used = self.offsets[self.mask]
        low, high = int(used.min()), int(used.max())
        is_open = any(isinstance(each, Extent) for each in (load.value.count, self.base.low, self.base.high))
        if self.condition is not None or is_open:
            return low, high
        return min(low, -self.base.low), max(high, load.value.count - 1 - self.base.high)


class SteppedReduction(Struct, frozen=True, eq=False):
    """A reduction of each element of a row, of loads that all step from element to element alike.

    It can be computed for contiguous elements, of which those of the row are taken afterwards.

    Attributes:
        offsets: the offset of each element relative to the first one, the same for every load.
        reach: the lowest and the highest relative offset that is inside every loaded value.
    """

    offsets: Array
    reach: tuple[int, int]


class LaneConstants:
    """The values of expressions at all indices of an axis.

    Args:
        along: the axis.

    Attributes:
        along: the axis.
    """

    def __init__(self, along: Axis) -> None:
        self.along = along
        self._loads: dict[Load, RowLoad | None] = {}
        self._reductions: dict[Reduce, SteppedReduction | None] = {}
        self._known: dict[Expression, bool] = {}
        self._varying: dict[Expression, bool] = {}
        self._values: dict[Expression, Array] = {}

    def varies(self, expression: Expression) -> bool:
        """Returns True if an expression depends on the axis, or on the result of a contraction."""
        if expression not in self._varying:
            for each in walk(expression):
                if each not in self._varying:
                    self._varying[each] = (
                        each is self.along
                        or isinstance(each, AccumulatorRef)
                        or any(self._varying[operand] for operand in each.operands)
                    )
        return self._varying[expression]

    def is_known(self, expression: Expression) -> bool:
        """Returns True if an expression depends on no other axis and on no data."""
        if expression not in self._known:
            for each in walk(expression):
                if each not in self._known:
                    self._known[each] = self._is_own(each) and all(
                        self._known[operand] for operand in each.operands
                    )
        return self._known[expression]

    def _is_own(self, expression: Expression) -> bool:
        if isinstance(expression, Axis):
            return expression is self.along
        if isinstance(expression, Load):
            return expression.value.constant is not None and expression.value.size_bytes <= _MAX_TABLE_BYTES
        return not isinstance(expression, AccumulatorRef | Reduce) and not has_own_extents(expression)

    def of(self, expression: Expression) -> Array:
        """Returns the value of a known expression at each index."""
        if expression not in self._values:
            kind = Scalar.INT64 if expression.type is Scalar.INDEX else expression.type
            node = Compute(output=Value((self.along.extent,), kind), axes=(self.along,), body=expression)
            arrays = {value: value.constant for value in node.inputs if value.constant is not None}
            self._values[expression] = evaluate_node(node, arrays)
        return self._values[expression]

    def row_load(self, load: Load) -> RowLoad | None:
        """Returns the load of a row's elements, or None if their positions are not known."""
        if load not in self._loads:
            self._loads[load] = self._new_row_load(load)
        return self._loads[load]

    def row_reduction(self, reduction: Reduce) -> SteppedReduction | None:
        """Returns a reduction of a row's elements, or None if it cannot be made beside others."""
        if reduction not in self._reductions:
            self._reductions[reduction] = self._new_row_reduction(reduction)
        return self._reductions[reduction]

    def _new_row_reduction(self, reduction: Reduce) -> SteppedReduction | None:
        offsets: Array | None = None
        low, high = -(1 << 62), 1 << 62
        pending: list[Expression] = [reduction.body]
        while pending:
            each = pending.pop()
            if not self.varies(each):
                continue
            if not isinstance(each, Load):
                if each is self.along or isinstance(each, AccumulatorRef | Reduce):
                    return None
                pending += each.operands
                continue
            found = self.row_load(each)
            is_whole = each.guard is None or not self.varies(each.guard)
            if found is None or not is_whole or (each.otherwise is not None and self.varies(each.otherwise)):
                return None
            steps, first = found.offsets - found.offsets[0], int(found.offsets[0])
            if offsets is not None and not np.array_equal(offsets, steps):
                return None
            offsets = steps
            lowest, highest = found.reach(each)
            low, high = max(low, lowest - first), min(high, highest - first)
        return None if offsets is None else SteppedReduction(offsets, (low, high))

    def _new_row_load(self, load: Load) -> RowLoad | None:
        parts = self._split_offset(offset_of(load))
        if parts is None:
            return None
        base, offsets = parts
        condition: Expression | None = None
        mask = np.ones(self.along.extent, bool)
        if load.guard is not None:
            for each in conjuncts(load.guard):
                if not self.varies(each):
                    condition = each if condition is None else condition & each
                elif self.is_known(each):
                    mask &= self.of(each)
                else:
                    return None
        found = RowLoad(base=base, offsets=offsets, condition=condition, mask=mask)
        if not mask.any():
            return found
        low, high = found.reach(load)
        if isinstance(load.value.count, Extent):
            # All of it is in the value if the elements always are.
            return found if found.condition is None else None
        return found if high - low < load.value.count else None

    def _split_offset(self, offset: Expression) -> tuple[Expression, Array] | None:
        """Splits an offset into that of the row and those of its elements."""
        terms = offset.terms if isinstance(offset, Linear) else ((offset, 1),)
        moving = {term: factor for term, factor in terms if self.varies(term)}
        if not all(map(self.is_known, moving)) or any(isinstance(each, Extent) for each in moving.values()):
            return None
        offsets = np.zeros(self.along.extent, np.int64)
        for term, factor in moving.items():
            offsets = offsets + factor * self.of(term)
        rest = offset.constant if isinstance(offset, Linear) else 0
        base = sum_of({term: factor for term, factor in terms if term not in moving}, rest)
        return base, offsets


def windows(offsets: Sequence[int], reach: tuple[int, int], most: int) -> tuple[int, list[int]]:
    """Returns the length and the starts of contiguous vectors that contain elements.

    Args:
        offsets: offsets of the elements, not empty.
        reach: lowest and highest offset that may be read.
        most: the greatest length, a power of two.
    """
    wanted = sorted(set(offsets))
    span, room = wanted[-1] - wanted[0] + 1, reach[1] - reach[0] + 1
    length = min(most, 1 << (span - 1).bit_length(), 1 << (room.bit_length() - 1))
    starts: list[int] = []
    for each in wanted:
        if not starts or each >= starts[-1] + length:
            starts.append(max(reach[0], min(each, reach[1] + 1 - length)))
    return length, starts
