"""Estimates the cost of evaluating a kernel, to decide between recomputing and storing.

Costs are instructions per element, where an instruction handles a whole vector:

- An operation costs what `op_cost` says, and a load or a store 1.
- A load whose neighbours along the last axis are not adjacent costs more: little if the elements of
  a row stay close to each other, in an order that is the same for all rows, such as channels that
  are shuffled or every second pixel; much if it is a gather.
- Quotients and remainders that differ between neighbours cost something in long rows. In short ones
  they are known when code is generated. Conditions on single elements cost something, too.
- What is only needed where a condition on a range of indices holds, such as a part of a
  concatenation, costs nothing elsewhere.
"""

import math
from collections.abc import Iterator, Sequence

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Linear, Load, Reduce
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, is_one
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.kernel import Kernel, op_cost
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, walk

#: Cost of a load of adjacent elements, and of storing an element.
LOAD_COST, STORE_COST = 1.0, 1.0
#: Cost of starting a kernel, in instructions.
START_COST = 4000.0
#: Additional cost of a gathered load, and of one from close neighbours in another order.
_GATHER_COST, _PERMUTATION_COST = 3.0, 1.0
#: Additional cost of a quotient or remainder that differs between neighbours, and of a condition on
#: single elements.
_DIVISION_COST, _CONDITION_COST = 1.0, 1.0
#: Longest row in which the order of elements is known when code is generated.
_MAX_ROW_LENGTH = 2048
#: Close neighbours are within this many elements for each one of the row.
_MAX_SPREAD = 4
#: Typical number of elements of a vector.
_VECTOR_LENGTH = 16


def evaluation_cost(kernel: Kernel) -> float:
    """Returns the cost of all elements of a kernel, without that of its contraction."""
    count = estimate(math.prod(kernel.shape))
    return count * (STORE_COST + _Element(kernel).cost()) + START_COST


def memory_order(kernel: Kernel) -> tuple[Axis, ...] | None:
    """Returns a kernel's axes in the order of the memory that it loads.

    None if they are in this order, or if there is none.
    """
    moving = [each for each in kernel.axes if not is_one(each.extent)]
    if kernel.contraction is not None or kernel.output_offset is not None or len(moving) < 2:
        return None
    loads = [each for each in kernel.expressions if isinstance(each, Load) and each.value.constant is None]
    strides = max((_strides(each, moving) for each in loads), key=len, default={})
    if len(strides) < len(moving):
        return None
    inner = sorted(moving, key=lambda each: -strides[each])
    return None if inner == moving else (*(each for each in kernel.axes if is_one(each.extent)), *inner)


def _strides(load: Load, axes: Sequence[Axis]) -> dict[Axis, float]:
    """Returns the mean distance of neighbours along each axis that an offset depends on.

    Nothing is returned if it depends on several axes jointly.
    """
    offset = linearize(load.index, load.value.shape)
    terms = offset.terms if isinstance(offset, Linear) else ((offset, 1),)
    strides: dict[Axis, float] = {}
    for term, factor in terms:
        free = [each for each in free_axes(term) if each in axes]
        if len(free) > 1:
            return {}
        for along in free:
            # An axis that is not known to have one element may be estimated to have one.
            distance = _reach(term, factor) / max(1, estimate(along.extent) - 1)
            # Parts of an index add up.
            strides[along] = strides.get(along, 0.0) + distance
    return strides


def _reach(term: Expression, factor: int) -> int:
    """Returns the distance between the smallest and the largest multiple of an index."""
    return abs(estimate(factor)) * (estimate(term.high) - estimate(term.low))


class _Element:
    """The cost of one element, on average."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._last = last_axis(kernel)
        #: Whether each expression differs between neighbours along the last axis.
        self._varying: dict[Expression, bool] = {}
        for each in kernel.expressions:
            self._varying[each] = each is self._last or any(self._varying[part] for part in each.operands)

    def cost(self) -> float:
        """Returns the cost of an element without storing it."""
        # How often each expression is evaluated per element. Users come before their operands.
        times = dict.fromkeys(self._kernel.expressions, 0.0)
        for root in self._kernel.roots:
            times[root] = 1.0
        total = 0.0
        for each in reversed(self._kernel.expressions):
            total += self._own_cost(each, times[each])
            for operand, count in self._operand_times(each, times[each]):
                # An operand of several users is evaluated once.
                times[operand] = min(max(1.0, times[operand], count), times[operand] + count)
        return total

    def _own_cost(self, each: Expression, times: float) -> float:
        """Returns the cost of evaluating an expression this often, without its operands."""
        if isinstance(each, Load):
            fraction = 1.0 if each.guard is None else range_fraction(each.guard, self._last)
            if fraction is None:
                return times * (LOAD_COST + _CONDITION_COST + self._gather_cost(each))
            return _limited(times, fraction) * (LOAD_COST + self._gather_cost(each))
        if not isinstance(each, Apply) or each.type is Scalar.BOOL:
            return 0.0
        if each.type is Scalar.INDEX:
            is_division = each.op in (Op.FLOOR_DIVIDE, Op.MODULO)
            is_unknown = self._varying[each] and not self._is_known(each)
            return times * _DIVISION_COST if is_division and is_unknown else 0.0
        return times * op_cost(each.op)

    def _operand_times(self, each: Expression, times: float) -> Iterator[tuple[Expression, float]]:
        """Yields how often operands are evaluated if an expression is evaluated this often."""
        if isinstance(each, Reduce):
            yield each.body, times * math.prod(estimate(axis.extent) for axis in each.axes)
            return
        condition: Expression | None = None
        chosen: tuple[Expression, ...] = ()
        other: Expression | None = None
        if isinstance(each, Load):
            condition, chosen, other = each.guard, each.index, each.otherwise
        elif isinstance(each, Apply) and each.op is Op.SELECT:
            condition, first, other = each.arguments
            chosen = (first,)
        fraction = None if condition is None else range_fraction(condition, self._last)
        if condition is None or other is None or fraction is None:
            yield from ((operand, times) for operand in each.operands)
            return
        yield condition, times
        yield from ((operand, _limited(times, fraction)) for operand in chosen)
        yield other, _limited(times, 1.0 - (range_fraction(condition, None) or 0.0))

    def _gather_cost(self, load: Load) -> float:
        if not any(self._varying[each] for each in load.index):
            return 0.0
        offset = linearize(load.index, load.value.shape)
        terms = offset.terms if isinstance(offset, Linear) else ((offset, 1),)
        moving = [(term, factor) for term, factor in terms if self._differs(term)]
        if moving == [(self._last, 1)]:
            return 0.0
        spread = sum(_reach(term, factor) for term, factor in moving)
        is_close = self._last is not None and spread <= _MAX_SPREAD * estimate(self._last.extent)
        is_same = is_close and all(self._is_known(term) for term, _ in moving)
        return _PERMUTATION_COST if is_same else _GATHER_COST

    def _is_known(self, index: Expression) -> bool:
        """Returns True if an index only depends on the position in a short row."""
        if self._last is None or isinstance(self._last.extent, Extent):
            return False
        if self._last.extent > _MAX_ROW_LENGTH:
            return False
        return all(
            each is self._last if isinstance(each, Axis) else not isinstance(each, Load | Reduce)
            for each in walk(index)
        )

    def _differs(self, term: Expression) -> bool:
        # A linearised offset may contain terms that the kernel does not.
        if term not in self._varying:
            self._varying[term] = any(map(self._differs, term.operands))
        return self._varying[term]


def _limited(times: float, fraction: float) -> float:
    """Returns how often an expression is evaluated that only a fraction of indices needs."""
    return min(times, fraction * max(1.0, times))


def range_fraction(condition: Expression, last: Axis | None) -> float | None:
    """Returns for which fraction of the indices a condition on ranges of axes must be evaluated.

    None for other conditions.

    Args:
        condition: the condition.
        last: the axis along which vectors of elements are evaluated; a range counts
            whole vectors.
    """
    ranges: dict[Axis, tuple[int, int]] = {}
    for each in conjuncts(condition):
        if isinstance(each, Constant):
            if not each.value:
                return 0.0
            continue
        found = index_range(each)
        if found is None:
            return None
        along, low, high = found
        before = ranges.get(along, (0, estimate(along.extent) - 1))
        ranges[along] = max(before[0], estimate(low)), min(before[1], estimate(high))
    fraction = 1.0
    for along, (low, high) in ranges.items():
        length = max(0, high - low + 1)
        if along is last and length:
            length = min(estimate(along.extent), -(-length // _VECTOR_LENGTH) * _VECTOR_LENGTH)
        fraction *= length / max(1, estimate(along.extent))
    return fraction


def last_axis(kernel: Kernel) -> Axis | None:
    """Returns the innermost axis with several indices."""
    return next((each for each in reversed(kernel.axes) if not is_one(each.extent)), None)


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """Yields the conditions that must all hold."""
    pending = [condition]
    while pending:
        each = pending.pop()
        if isinstance(each, Apply) and each.op is Op.AND:
            pending.extend(reversed(each.arguments))
        else:
            yield each


def index_range(condition: Expression) -> tuple[Axis, int, int] | None:
    """Returns the axis on whose index alone a comparison depends, and the range where it holds.

    The first and the last index of the range may be outside of the axis. None for other conditions.
    """
    if not isinstance(condition, Apply) or condition.op not in (Op.LESS, Op.LESS_EQUAL):
        return None
    first, second = condition.arguments
    if first.type is not Scalar.INDEX:
        return None
    difference = first - second
    terms = difference.terms if isinstance(difference, Linear) else ((difference, 1),)
    (along, factor), *others = terms
    if others or not isinstance(along, Axis):
        return None
    # The comparison holds where factor × along is not above the limit.
    limit = -(difference.constant if isinstance(difference, Linear) else 0)
    limit -= 1 if condition.op is Op.LESS else 0
    if factor > 0:
        return along, 0, limit // factor
    return along, -(limit // -factor), along.extent - 1
