"""Expressions for one element of a result, over indices, elements of other values, and numbers.

Expressions are interned: equal expressions are the same object, so a compiler computes each one
once and compares by identity. Build them with Python's operators and the functions of this module,
never by calling the classes. INDEX expressions are simplified as they are built: sums become linear
forms (`Linear`), and quotients and remainders that cancel or follow from bounds disappear, so
reshapes and transpositions leave little index arithmetic behind.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, Union
from weakref import WeakValueDictionary

import numpy as np

from neurald.drivers.compiler.ir.op import COMPARISONS, Number, Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

#: An operand of arithmetic. Python numbers take the type of the other operand.
Operand = Union["Expression", int, float, bool]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Expression:
    """A number. For INDEX, `low` and `high` are its inclusive bounds.

    Operators: `+ - * // %`, `/` for floats, `<< >>`, `& | ^ ~` for BOOL and integers, and `< <= >
    >=`. Use `equals` for equality, since `==` compares the expression objects.
    """

    type: Scalar
    low: int = 0
    high: int = 0

    @property
    def operands(self) -> tuple["Expression", ...]:
        """The expressions that this one is computed from."""
        return ()

    def __add__(self, other: Operand) -> "Expression":
        return _sum(self, other, 1) if self.type is Scalar.INDEX else _binary(Op.ADD, self, other)

    def __radd__(self, other: Number) -> "Expression":
        return self + other if self.type is Scalar.INDEX else _binary(Op.ADD, other, self)

    def __sub__(self, other: Operand) -> "Expression":
        return _sum(self, other, -1) if self.type is Scalar.INDEX else _binary(Op.SUBTRACT, self, other)

    def __rsub__(self, other: Number) -> "Expression":
        return constant(other, self.type) - self

    def __mul__(self, other: Operand) -> "Expression":
        return _product(self, other) if self.type is Scalar.INDEX else _binary(Op.MULTIPLY, self, other)

    def __rmul__(self, other: Number) -> "Expression":
        return self * other

    def __truediv__(self, other: Operand) -> "Expression":
        return _binary(Op.DIVIDE, self, other)

    def __rtruediv__(self, other: Number) -> "Expression":
        return _binary(Op.DIVIDE, other, self)

    def __floordiv__(self, other: Operand) -> "Expression":
        return _quotient(self, other) if self.type is Scalar.INDEX else _binary(Op.FLOOR_DIVIDE, self, other)

    def __mod__(self, other: Operand) -> "Expression":
        return _remainder(self, other) if self.type is Scalar.INDEX else _binary(Op.MODULO, self, other)

    def __neg__(self) -> "Expression":
        return self * -1 if self.type is Scalar.INDEX else apply(Op.NEGATE, self)

    def __lshift__(self, other: Operand) -> "Expression":
        return _binary(Op.SHIFT_LEFT, self, other)

    def __rshift__(self, other: Operand) -> "Expression":
        return _binary(Op.SHIFT_RIGHT, self, other)

    def __and__(self, other: Operand) -> "Expression":
        return _logical(Op.AND, self, other)

    def __or__(self, other: Operand) -> "Expression":
        return _logical(Op.OR, self, other)

    def __xor__(self, other: Operand) -> "Expression":
        return _binary(Op.XOR, self, other)

    def __invert__(self) -> "Expression":
        if isinstance(self, Constant) and self.type is Scalar.BOOL:
            return constant(not self.value, Scalar.BOOL)
        return apply(Op.NOT, self)

    def __lt__(self, other: Operand) -> "Expression":
        return _compare(Op.LESS, self, other)

    def __le__(self, other: Operand) -> "Expression":
        return _compare(Op.LESS_EQUAL, self, other)

    def __gt__(self, other: Operand) -> "Expression":
        return _compare(Op.LESS, other, self)

    def __ge__(self, other: Operand) -> "Expression":
        return _compare(Op.LESS_EQUAL, other, self)

    def equals(self, other: Operand) -> "Expression":
        """Returns a BOOL that is true where both numbers are equal."""
        return _compare(Op.EQUAL, self, other)

    def differs(self, other: Operand) -> "Expression":
        """Returns a BOOL that is true where the numbers differ."""
        return _compare(Op.NOT_EQUAL, self, other)

    def to(self, type: Scalar) -> "Expression":  # noqa: A002 - the field's name
        """Converts the number to another type; see the module's rules."""
        if self.type is type:
            return self
        if isinstance(self, Constant) and (type.is_float or (type is Scalar.INDEX and self.type.is_integer)):
            return constant(self.value, type)
        if type is Scalar.INDEX:
            low, high = _bounds_as_index(self.type)
            return apply(Op.CONVERT, self, type=type, low=low, high=high)
        return apply(Op.CONVERT, self, type=type)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constant(Expression):
    """A constant number."""

    value: Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Axis(Expression):
    """An index that runs from 0 to `extent` - 1. Axes are never interned: each one is distinct.

    An axis of extent 0 takes no values; its `high` is then below its `low`.
    """

    extent: int
    name: str = "i"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear(Expression):
    """An INDEX: `constant` plus the sum of coefficient × term.

    No term is a Linear or a Constant.
    """

    terms: tuple[tuple[Expression, int], ...]
    constant: int

    @property
    def operands(self) -> tuple[Expression, ...]:
        """See `Expression.operands`."""
        return tuple(term for term, _ in self.terms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load(Expression):
    """An element of a value, with one INDEX per dimension."""

    value: Value
    index: tuple[Expression, ...]
    guard: Expression | None = None
    otherwise: Expression | None = None

    @property
    def operands(self) -> tuple[Expression, ...]:
        """See `Expression.operands`."""
        guarded = () if self.guard is None or self.otherwise is None else (self.guard, self.otherwise)
        return (*self.index, *guarded)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Apply(Expression):
    """An operation applied to numbers."""

    op: Op
    arguments: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        """See `Expression.operands`."""
        return self.arguments


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reduce(Expression):
    """`body` reduced over all values of `axes`; the combiner's identity if there are none."""

    reduction: ReductionOp
    axes: tuple[Axis, ...]
    body: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        """See `Expression.operands`."""
        return (self.body,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccumulatorRef(Expression):
    """The contraction's result at the current position, as its epilogue reads it."""


#: Bounds of an INDEX about which nothing is known.
_INDEX_BOUNDS = (-(2**63), 2**63 - 1)

_INTERNED: "WeakValueDictionary[Any, Expression]" = WeakValueDictionary()
_E = TypeVar("_E", bound=Expression)


def _interned(key: tuple[Any, ...], make: Callable[[], _E]) -> _E:
    # Keys compare operands by identity. Each interned expression keeps its operands alive.
    found: Any = _INTERNED.get(key)
    return found if found is not None else _INTERNED.setdefault(key, make())  # type: ignore[return-value]


def _bounds_as_index(type: Scalar) -> tuple[int, int]:  # noqa: A002 - the field's name
    """Returns the bounds of a number of this type once it is converted to INDEX."""
    if type is Scalar.BOOL:
        return 0, 1
    if not type.is_integer:
        return _INDEX_BOUNDS
    info = np.iinfo(type.dtype.name)
    return int(info.min), int(info.max)


def constant(value: Number, type: Scalar) -> Constant:  # noqa: A002 - the field's name
    """Returns a constant of this type. A float is rounded to it; an integer must fit."""
    stored: Number = (
        bool(value) if type is Scalar.BOOL else type.rounded(value) if type.is_float else int(value)
    )
    bound = int(stored) if type is Scalar.INDEX else 0
    # The key uses repr because 0.0 == -0.0 and NaN != NaN.
    return _interned(
        ("constant", type, repr(stored)),
        lambda: Constant(type=type, value=stored, low=bound, high=bound),
    )


def index(value: int) -> Constant:
    """Returns a constant INDEX."""
    return constant(value, Scalar.INDEX)


def axis(extent: int, name: str = "i") -> Axis:
    """Creates an axis."""
    return Axis(type=Scalar.INDEX, low=0, high=extent - 1, extent=extent, name=name)


def load(
    value: Value,
    position: tuple[Expression, ...],
    guard: Expression | None = None,
    otherwise: Operand | None = None,
) -> Expression:
    """Loads an element of a value; where `guard` is false, yields `otherwise` (default 0)."""
    position = tuple(
        index(coordinate.low) if _is_known(coordinate) else coordinate for coordinate in position
    )
    if guard is None or (isinstance(guard, Constant) and guard.value):
        return _interned(
            ("load", value, position), lambda: Load(type=value.type, value=value, index=position)
        )
    other = _as(0 if otherwise is None else otherwise, value.type)
    if isinstance(guard, Constant):
        return other
    return _interned(
        ("load", value, position, guard, other),
        lambda: Load(type=value.type, value=value, index=position, guard=guard, otherwise=other),
    )


def apply(
    op: Op,
    *arguments: Expression,
    type: Scalar | None = None,  # noqa: A002 - the field's name
    low: int | None = None,
    high: int | None = None,
) -> Expression:
    """Applies an operation without simplifying it.

    Args:
        op: the operation.
        arguments: its operands.
        type: type of the result; by default BOOL for comparisons, else the type of the last
        operand.
        low, high: bounds of an INDEX; by default those of 64 bits.
    """
    result = type or (Scalar.BOOL if op in COMPARISONS else arguments[-1].type)
    lowest, highest = _INDEX_BOUNDS if result is Scalar.INDEX else (0, 0)
    low, high = lowest if low is None else low, highest if high is None else high
    return _interned(
        ("apply", op, result, arguments),
        lambda: Apply(type=result, op=op, arguments=arguments, low=low, high=high),
    )


def reduce(reduction: ReductionOp, axes: tuple[Axis, ...], body: Expression) -> Expression:
    """Reduces `body` over `axes`; returns the body itself if there are none."""
    if not axes:
        return body
    low, high = _reduced_bounds(reduction, axes, body) if body.type is Scalar.INDEX else (0, 0)
    return _interned(
        ("reduce", reduction, axes, body),
        lambda: Reduce(type=body.type, reduction=reduction, axes=axes, body=body, low=low, high=high),
    )


def _reduced_bounds(reduction: ReductionOp, axes: tuple[Axis, ...], body: Expression) -> tuple[int, int]:
    count = math.prod(each.extent for each in axes)
    if reduction is ReductionOp.SUM:
        return count * body.low, count * body.high
    is_one_of_them = count and reduction in (ReductionOp.MINIMUM, ReductionOp.MAXIMUM)
    return (body.low, body.high) if is_one_of_them else _INDEX_BOUNDS


@cache
def accumulator(type: Scalar) -> AccumulatorRef:  # noqa: A002 - the field's name
    """Returns the reference to the contraction's result, FLOAT32 or INT32."""
    return AccumulatorRef(type=type)


def select(condition: Expression, first: Operand, second: Operand) -> Expression:
    """Returns `first` where the condition holds, else `second`.

    One of them may be a Python number.
    """
    kind = first.type if isinstance(first, Expression) else second.type  # type: ignore[union-attr]
    one, other = _as(first, kind), _as(second, kind)
    if isinstance(condition, Constant):
        return one if condition.value else other
    if one is other:
        return one
    low, high = min(one.low, other.low), max(one.high, other.high)
    return apply(Op.SELECT, condition, one, other, low=low, high=high)


def minimum(first: Expression, second: Operand) -> Expression:
    """Returns the smaller of two numbers; NaN if either is NaN."""
    other = _as(second, first.type)
    if first.type is not Scalar.INDEX:
        return apply(Op.MINIMUM, first, other)
    if first.high <= other.low:
        return first
    if other.high <= first.low:
        return other
    return apply(Op.MINIMUM, first, other, low=min(first.low, other.low), high=min(first.high, other.high))


def maximum(first: Expression, second: Operand) -> Expression:
    """Returns the larger of two numbers; NaN if either is NaN."""
    other = _as(second, first.type)
    if first.type is not Scalar.INDEX:
        return apply(Op.MAXIMUM, first, other)
    if first.low >= other.high:
        return first
    if other.low >= first.high:
        return other
    return apply(Op.MAXIMUM, first, other, low=max(first.low, other.low), high=max(first.high, other.high))


def clamp(value: Expression, low: Operand, high: Operand) -> Expression:
    """Clamps the number to a range."""
    return minimum(maximum(value, low), high)


def _as(value: Operand, type: Scalar) -> Expression:  # noqa: A002 - the field's name
    return value if isinstance(value, Expression) else constant(value, type)


def _binary(op: Op, first: Operand, second: Operand) -> Expression:
    kind = first.type if isinstance(first, Expression) else second.type  # type: ignore[union-attr]
    return apply(op, _as(first, kind), _as(second, kind))


def _logical(op: Op, first: Expression, second: Operand) -> Expression:
    other = _as(second, first.type)
    if first.type is Scalar.BOOL:
        for one, rest in ((first, other), (other, first)):
            if isinstance(one, Constant):
                return rest if bool(one.value) is (op is Op.AND) else one
        if first is other:
            return first
    return apply(op, first, other)


def _compare(op: Op, first: Operand, second: Operand) -> Expression:
    kind = first.type if isinstance(first, Expression) else second.type  # type: ignore[union-attr]
    one, other = _as(first, kind), _as(second, kind)
    if kind is Scalar.INDEX:
        # Terms common to both sides cancel.
        difference = one - other
        known = _KNOWN[op](difference.low, difference.high)
        if known is not None:
            return constant(known, Scalar.BOOL)
    return apply(op, one, other)


def _known(holds: bool, fails: bool) -> bool | None:
    return True if holds else False if fails else None


#: Decides a comparison with 0 for all numbers from `low` to `high`; None if the result varies.
_KNOWN: dict[Op, Callable[[int, int], bool | None]] = {
    Op.LESS: lambda low, high: _known(high < 0, low >= 0),
    Op.LESS_EQUAL: lambda low, high: _known(high <= 0, low > 0),
    Op.EQUAL: lambda low, high: _known(low == high == 0, low > 0 or high < 0),
    Op.NOT_EQUAL: lambda low, high: _known(low > 0 or high < 0, low == high == 0),
}


def _linear(terms: Mapping[Expression, int], offset: int) -> Expression:
    kept = {term: factor for term, factor in terms.items() if factor}
    if _recombine(kept):
        return sum_of(kept, offset)
    pairs = tuple(sorted(kept.items(), key=lambda pair: id(pair[0])))
    if not pairs:
        return index(offset)
    if len(pairs) == 1 and pairs[0][1] == 1 and not offset:
        return pairs[0][0]
    low = offset + sum(min(c * t.low, c * t.high) for t, c in pairs)
    high = offset + sum(max(c * t.low, c * t.high) for t, c in pairs)
    return _interned(
        ("linear", pairs, offset),
        lambda: Linear(type=Scalar.INDEX, terms=pairs, constant=offset, low=low, high=high),
    )


def _recombine(terms: dict[Expression, int]) -> bool:
    """Replaces k·n·(x // n) + k·(x % n) by k·x. Returns True if it found such a pair."""
    for term, factor in terms.items():
        if not isinstance(term, Apply) or term.op is not Op.MODULO:
            continue
        whole, divisor = term.arguments
        quotient = whole // divisor
        if divisor.low == divisor.high and terms.get(quotient) == factor * divisor.low:
            del terms[term], terms[quotient]
            terms[whole] = terms.get(whole, 0) + factor
            return True
    return False


def sum_of(terms: Mapping[Expression, int], offset: int) -> Expression:
    """Returns the sum of an offset and of factor × INDEX expression.

    Terms may be Linear or Constant.
    """
    merged: dict[Expression, int] = {}
    for term, factor in terms.items():
        parts, known = _parts(term)
        offset += factor * known
        for part, count in parts.items():
            merged[part] = merged.get(part, 0) + factor * count
    return _linear(merged, offset)


def _is_known(value: Expression) -> bool:
    """Returns True for an INDEX with one possible value: a constant, or an axis of length 1."""
    return value.type is Scalar.INDEX and value.low == value.high


def _parts(value: Expression) -> tuple[Mapping[Expression, int], int]:
    if _is_known(value):
        return {}, value.low
    if isinstance(value, Linear):
        return dict(value.terms), value.constant
    return {value: 1}, 0


def _sum(first: Expression, second: Operand, factor: int) -> Expression:
    other = _as(second, Scalar.INDEX)
    return sum_of({first: 1 + factor}, 0) if first is other else sum_of({first: 1, other: factor}, 0)


def _product(first: Expression, second: Operand) -> Expression:
    other = _as(second, Scalar.INDEX)
    if _is_known(first):
        first, other = other, first
    if _is_known(other):
        return sum_of({first: other.low}, 0)
    corners = [a * b for a in (first.low, first.high) for b in (other.low, other.high)]
    return apply(Op.MULTIPLY, first, other, low=min(corners), high=max(corners))


def _quotient(value: Expression, by: Operand) -> Expression:
    divisor = _as(by, Scalar.INDEX)
    if not isinstance(divisor, Constant) or divisor.low < 1:
        corners = [value.low, value.high, -value.low, -value.high]
        return apply(Op.FLOOR_DIVIDE, value, divisor, low=min(corners), high=max(corners))
    n = divisor.low
    if value.low // n == value.high // n:
        return index(value.low // n)
    if n == 1:
        return value
    if _is_quotient(value):
        inner, by_before = value.operands
        return inner // (n * by_before.low)
    if isinstance(value, Apply) and value.op is Op.MODULO and isinstance(value.arguments[1], Constant):
        inner, by_before = value.arguments
        if by_before.low > 0 and by_before.low % n == 0:
            # x % (k·n) // n
            return inner // n % (by_before.low // n)
    if isinstance(value, Linear):
        whole = {term: factor // n for term, factor in value.terms if factor % n == 0}
        rest = {term: factor for term, factor in value.terms if factor % n}
        if whole or not 0 <= value.constant < n:
            return sum_of(whole, value.constant // n) + _linear(rest, value.constant % n) // n
        split = _split(value, n)
        if split is not None:
            common, large, _ = split
            return large // (n // common)
        for term, factor in value.terms:
            if factor == 1 and _is_quotient(term):
                # (a + x // m) // n equals (m·a + x) // (m·n), which may simplify further.
                inner, by_before = term.operands
                m = by_before.low
                return sum_of({value: m, term: -m, inner: 1}, 0) // (m * n)
    return apply(Op.FLOOR_DIVIDE, value, divisor, low=value.low // n, high=value.high // n)


def _split(value: Linear, n: int) -> tuple[int, Expression, Expression] | None:
    """Splits a value into g × large + small with 0 <= small < g, for a divisor g > 1 of n.

    Returns (g, large, small), or None if there is no such divisor.
    """
    factors = [factor for _, factor in value.terms]
    divisors = {math.gcd(n, first, second) for first in factors for second in factors}
    for common in sorted(divisors - {1}, reverse=True):
        rest = {term: factor for term, factor in value.terms if factor % common}
        small = _linear(rest, value.constant % common)
        if small.low >= 0 and small.high < common:
            whole = {term: factor // common for term, factor in value.terms if factor % common == 0}
            return common, _linear(whole, value.constant // common), small
    return None


def _is_quotient(value: Expression) -> bool:
    """Returns True if the expression is a floor division by a positive constant."""
    if not isinstance(value, Apply) or value.op is not Op.FLOOR_DIVIDE:
        return False
    divisor = value.arguments[1]
    return isinstance(divisor, Constant) and divisor.low > 0


def _remainder(value: Expression, by: Operand) -> Expression:
    divisor = _as(by, Scalar.INDEX)
    if not isinstance(divisor, Constant) or divisor.low < 1:
        bound = max(abs(divisor.low), abs(divisor.high))
        return apply(Op.MODULO, value, divisor, low=-bound, high=bound)
    n = divisor.low
    if value.low // n == value.high // n:
        return value - value.low // n * n
    if isinstance(value, Apply) and value.op is Op.MODULO:
        whole, by_before = value.arguments
        if isinstance(by_before, Constant) and by_before.low % n == 0:
            return whole % n
    if isinstance(value, Linear):
        rest = {term: factor for term, factor in value.terms if factor % n}
        if len(rest) < len(value.terms) or not 0 <= value.constant < n:
            return _linear(rest, value.constant % n) % n
        split = _split(value, n)
        if split is not None:
            common, large, small = split
            return large % (n // common) * common + small
    return apply(Op.MODULO, value, divisor, low=0, high=min(n - 1, value.high) if value.low >= 0 else n - 1)
