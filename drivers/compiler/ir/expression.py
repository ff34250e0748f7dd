"""Expressions for one element of a result, over indices, elements of other values, and numbers.

Expressions are interned: equal expressions are the same object, so a compiler computes each one
once and compares by identity. Build them with Python's operators and the functions of this module,
never by calling the classes. INDEX expressions are simplified as they are built (see
`index_arithmetic`), so reshapes and transpositions leave little index arithmetic behind.

Rules for every compiler:

- Both operands of an arithmetic operation have the type of the result; both operands of a
  comparison have one type. Integers wrap around.
- `Load` reads an element of a value. Its index is inside the value's shape wherever its guard holds
  (everywhere if it has no guard). Where the guard does not hold, nothing is read and the load
  yields `otherwise`.
- SELECT may evaluate both sides, so a load that must not execute needs its own guard.
- Float operations follow IEEE 754 in the type of the result; functions such as EXP are within the
  compiler's stated error.
- Conversion of a float to an integer truncates and saturates; NaN becomes 0. Conversion to a
  narrower integer is modulo 2^bits. Conversion to BOOL is `x != 0`.
"""

import math
from functools import cache

from neurald.drivers.compiler.ir.expression_nodes import (
    INDEX_BOUNDS,
    AccumulatorRef,
    Apply,
    Axis,
    Constant,
    Expression,
    ExpressionLike,
    Linear,
    Load,
    Reduce,
    apply,
    as_expression,
    constant,
    index,
    interned,
)
from neurald.drivers.compiler.ir.extents.extent import (
    Extent,
    highest,
    larger,
    least,
    most,
    smaller,
    surely_lowest,
)
from neurald.drivers.compiler.ir.index_arithmetic import has_one_value, sum_of
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

__all__ = (
    "AccumulatorRef",
    "Apply",
    "Axis",
    "Constant",
    "Expression",
    "ExpressionLike",
    "Linear",
    "Load",
    "Reduce",
    "accumulator",
    "apply",
    "axis",
    "clamp",
    "constant",
    "index",
    "length",
    "load",
    "maximum",
    "minimum",
    "reduce",
    "select",
    "sum_of",
)


def axis(extent: int, name: str = "i") -> Axis:
    """Creates an axis."""
    return Axis(type=Scalar.INDEX, low=0, high=extent - 1, extent=extent, name=name)


def length(count: int, type: Scalar) -> Expression:  # noqa: A002 - the field's name
    """Returns a number of elements as a number of a float type."""
    return index(count).to(type) if isinstance(count, Extent) else constant(float(count), type)


def load(
    value: Value,
    indices: tuple[Expression, ...],
    guard: Expression | None = None,
    otherwise: ExpressionLike | None = None,
) -> Expression:
    """Loads an element of a value; where `guard` is false, yields `otherwise` (default 0)."""
    indices = tuple(
        index(coordinate.low) if has_one_value(coordinate) else coordinate for coordinate in indices
    )
    if guard is None or (isinstance(guard, Constant) and guard.value):
        return interned(
            ("load", value, indices),
            lambda: Load(type=value.type, value=value, index=indices, operands=indices),
        )
    other = as_expression(0 if otherwise is None else otherwise, value.type)
    if isinstance(guard, Constant):
        return other
    return interned(
        ("load", value, indices, guard, other),
        lambda: Load(
            type=value.type,
            value=value,
            index=indices,
            guard=guard,
            otherwise=other,
            operands=(*indices, guard, other),
        ),
    )


def reduce(reduction: ReductionOp, axes: tuple[Axis, ...], body: Expression) -> Expression:
    """Reduces `body` over `axes`; returns the body itself if there are none."""
    if not axes:
        return body
    low, high = _reduced_bounds(reduction, axes, body) if body.type is Scalar.INDEX else (0, 0)
    return interned(
        ("reduce", reduction, axes, body),
        lambda: Reduce(
            type=body.type,
            reduction=reduction,
            axes=axes,
            body=body,
            operands=(body,),
            low=low,
            high=high,
        ),
    )


def _reduced_bounds(reduction: ReductionOp, axes: tuple[Axis, ...], body: Expression) -> tuple[int, int]:
    count = math.prod(each.extent for each in axes)
    if reduction is ReductionOp.SUM:
        return count * body.low, count * body.high
    is_one_of_them = count and reduction in (ReductionOp.MINIMUM, ReductionOp.MAXIMUM)
    return (body.low, body.high) if is_one_of_them else INDEX_BOUNDS


@cache
def accumulator(type: Scalar) -> AccumulatorRef:  # noqa: A002 - the field's name
    """Returns the reference to the contraction's result, FLOAT32 or INT32."""
    return AccumulatorRef(type=type)


def select(condition: Expression, first: ExpressionLike, second: ExpressionLike) -> Expression:
    """Returns `first` where the condition holds, else `second`.

    One of them may be a Python number.
    """
    kind = first.type if isinstance(first, Expression) else second.type  # type: ignore[union-attr]
    one, other = as_expression(first, kind), as_expression(second, kind)
    if isinstance(condition, Constant):
        return one if condition.value else other
    if one is other:
        return one
    low, high = least(one.low, other.low), most(one.high, other.high)
    return apply(Op.SELECT, condition, one, other, low=low, high=high)


def minimum(first: Expression, second: ExpressionLike) -> Expression:
    """Returns the smaller of two numbers; NaN if either is NaN."""
    other = as_expression(second, first.type)
    if first.type is not Scalar.INDEX:
        return apply(Op.MINIMUM, first, other)
    if highest(first.high - other.low) <= 0:
        return first
    if highest(other.high - first.low) <= 0:
        return other
    return apply(
        Op.MINIMUM, first, other, low=least(first.low, other.low), high=smaller(first.high, other.high)
    )


def maximum(first: Expression, second: ExpressionLike) -> Expression:
    """Returns the larger of two numbers; NaN if either is NaN."""
    other = as_expression(second, first.type)
    if first.type is not Scalar.INDEX:
        return apply(Op.MAXIMUM, first, other)
    if surely_lowest(first.low - other.high) >= 0:
        return first
    if surely_lowest(other.low - first.high) >= 0:
        return other
    return apply(
        Op.MAXIMUM, first, other, low=larger(first.low, other.low), high=most(first.high, other.high)
    )


def clamp(value: Expression, low: ExpressionLike, high: ExpressionLike) -> Expression:
    """Clamps the number to a range."""
    return minimum(maximum(value, low), high)
