"""Code for reductions: the combining instruction, vector axes and horizontal reduction."""

import math
from collections.abc import Sequence

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Load, Reduce
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import EXTREMES, Op, ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.cpu.emit.op_table import computed, extreme
from neurald.drivers.cpu.emit.vector import Vector, vector_type
from neurald.drivers.cpu.target.target import Target

#: Number of independent accumulators, which hides the latency of an addition.
_REGISTERS = 4
#: Turns of a loop from which on it is worth combining several accumulators after it.
_MIN_TURNS = 4
#: Turns from which on each loads several registers of BOOLs. What is behind the last one may be
#: loaded one by one.
_MIN_BOOL_TURNS = 16
#: Shorter axes are not vectorised.
_MIN_VECTORISED_EXTENT = 4
#: Cost of a gathered element, in vector loads.
_GATHER_COST = 1.0
#: Limits on reductions that are unrolled completely: elements, and expressions in total.
_MAX_UNROLLED_ELEMENTS, _MAX_UNROLLED_EXPRESSIONS = 9, 100
#: Assumed size of a lane when choosing the number of lanes, in bytes.
_LANE_BYTES = 4


def is_unrolled(body: Expression, axes: Sequence[Axis]) -> bool:
    """Returns True if a reduction over these axes is unrolled instead of looped."""
    count = math.prod(axis.extent for axis in axes)
    if isinstance(count, Extent):
        return False
    return count <= _MAX_UNROLLED_ELEMENTS and count * sum(1 for _ in walk(body)) <= _MAX_UNROLLED_EXPRESSIONS


def independent_totals(v: Vector, expression: Reduce, axis: Axis) -> int:
    """Returns the number of accumulators to which an axis is reduced in turn: a power of two.

    Several hide the latency of an addition, as the registers of a long vector do on their own.
    """
    registers = max(1, v.lanes * expression.type.size_bytes // v.target.vector_bytes)
    count, size = _REGISTERS, sum(1 for _ in walk(expression.body))
    while count > 1 and (count * registers > _REGISTERS or count * size > _MAX_UNROLLED_EXPRESSIONS):
        count //= 2
    is_long = not isinstance(axis.extent, Extent) and axis.extent >= _MIN_TURNS * count
    return count if is_long else 1


def combine(
    v: Vector,
    fold: ReductionOp,
    kind: Scalar,
    element: str,
    total: str,
    value: str,
    *,
    ignores_nan: bool = False,
) -> str:
    """Combines a value with the accumulator of a reduction.

    Args:
        v: receives the instructions.
        fold: the reduction.
        kind, element: the type of both.
        total: the accumulator.
        value: the value.
        ignores_nan: True if the value is not NaN, or need not affect a minimum or maximum if it is.
    """
    if fold in EXTREMES:
        # Without a test for NaN, the accumulator remains.
        ignores_nan = ignores_nan or fold is ReductionOp.MAXIMUM_NUMBER
        is_minimum = fold is ReductionOp.MINIMUM
        return extreme(v, kind, element, total, value, is_minimum=is_minimum, second_is_number=ignores_nan)
    if kind is Scalar.BOOL:
        return v.binary("or" if fold in (ReductionOp.SUM, ReductionOp.ANY) else "and", element, total, value)
    operation = "add" if fold is ReductionOp.SUM else "mul"
    return v.binary(f"f{operation}" if kind.is_float else operation, element, total, value)


def is_number(expression: Expression) -> bool:
    """Returns True if an expression is obviously not NaN."""
    pending = [expression]
    while pending:
        each = pending.pop()
        if not each.type.is_float or (isinstance(each, Constant) and each.value == each.value):
            continue
        if not isinstance(each, Apply):
            return False
        if each.op in (Op.NEGATE, Op.ABSOLUTE):
            pending += each.arguments
        elif each.op is Op.SELECT:
            condition, first, second = each.arguments
            is_test = isinstance(condition, Apply) and condition.op is Op.IS_NAN
            is_replaced = is_test and condition.operands == (second,)
            pending += (first,) if is_replaced else (first, second)
        else:
            return False
    return True


def identity_text(v: Vector, expression: Reduce) -> str:
    """Returns the identity of a reduction in every lane."""
    element, start = computed(expression, v.lanes), reduction_identity(expression.reduction, expression.type)
    if expression.type is Scalar.INDEX and element == "i32":
        # No index exceeds this range.
        start = max(-(2**31), min(2**31 - 1, int(start)))
    return v.number(element, start)


def reduction_axis(expression: Reduce, target: Target) -> Axis | None:
    """Returns the best axis to vectorise a reduction along; None if none is worthwhile."""
    best, best_cost = None, float("inf")
    found = [each for each in walk(expression.body) if isinstance(each, Load)]
    for axis in expression.axes:
        if estimate(axis.extent) < _MIN_VECTORISED_EXTENT:
            continue
        strides = [stride_along(offset_of(each), axis) for each in found]
        lanes = reduction_lanes(axis.extent, target)
        registers = max(1, lanes // target.lanes(_LANE_BYTES))
        cost = registers + sum(registers if stride in (0, 1) else lanes * _GATHER_COST for stride in strides)
        cost *= -(-axis.extent // lanes) / axis.extent
        if cost < best_cost:
            best, best_cost = axis, cost
    return best


def reduction_lanes(extent: int, target: Target, expressions: Sequence[Reduce] = ()) -> int:
    """Returns the number of lanes of reductions along an axis of this length.

    Args:
        extent: the length.
        target: the target of the code.
        expressions: the reductions; without them, the usual number is returned.
    """
    lanes = target.lanes(_LANE_BYTES) * _REGISTERS
    # Instructions that test bytes under a mask wait for the one before.
    of_bools = target.lanes(Scalar.BOOL.size_bytes) * _REGISTERS
    if expressions and estimate(extent) >= _MIN_BOOL_TURNS * of_bools and all(map(_has_bools, expressions)):
        return of_bools
    while lanes > _MIN_VECTORISED_EXTENT and lanes // 2 >= estimate(extent):
        lanes //= 2
    return lanes


def _has_bools(expression: Reduce) -> bool:
    """Returns True if a reduction is one of BOOLs that are in memory."""
    body = expression.body
    return isinstance(body, Load) and body.type is Scalar.BOOL and body.guard is None


def reduce_lanes(
    v: Vector, expression: Reduce, element: str, total: str, *, ignores_nan: bool = False
) -> str:
    """Reduces the lanes of an accumulator horizontally, halving repeatedly; see `combine`."""
    is_extreme = expression.reduction in (ReductionOp.MINIMUM, ReductionOp.MAXIMUM)
    if is_extreme and expression.type.is_float and not ignores_nan and v.lanes > 1:
        # One test of all lanes takes less than one for each pair.
        has_nan = v.any_lane(v.compare("uno", element, total, total))
        number = reduce_lanes(v, expression, element, total, ignores_nan=True)
        single = Vector(v.code, v.target, 1)
        return single.select(has_nan, element, single.number(element, math.nan), number)
    count = v.lanes
    while count > 1:
        whole, half = vector_type(element, count), count // 2
        parts = []
        for first in (0, half):
            if half == 1:
                text = f"extractelement {whole} {total}, i64 {first}"
            else:
                order = ", ".join(f"i32 {first + lane}" for lane in range(half))
                text = f"shufflevector {whole} {total}, {whole} poison, <{half} x i32> <{order}>"
            parts.append(v.code.value(text))
        narrow = Vector(v.code, v.target, half)
        total = combine(
            narrow,
            expression.reduction,
            expression.type,
            element,
            parts[0],
            parts[1],
            ignores_nan=ignores_nan,
        )
        count = half
    return total
