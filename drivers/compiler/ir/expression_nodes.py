"""Nodes of expressions, their operators, and interning.

Import these names from `expression`. It also loads `index_arithmetic`, which registers how INDEX
operations are simplified.
"""

from collections.abc import Callable
from typing import Any, TypeVar, Union
from weakref import WeakValueDictionary

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent, highest, integer, surely_lowest
from neurald.drivers.compiler.ir.op import COMPARISONS, Number, Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

#: An operand of arithmetic. Python numbers take the type of the other operand.
ExpressionLike = Union["Expression", int, float, bool]


class Expression(Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """A number. For INDEX, `low` and `high` are its inclusive bounds.

    `operands` are the expressions that it is computed from, in order. They follow from the other
    attributes; the compiler reads them so often that each expression has them ready.

    Operators: `+ - * // %`, `/` for floats, `<< >>`, `& | ^ ~` for BOOL and integers, and `< <= >
    >=`. Use `equals` for equality, since `==` compares the expression objects.
    """

    type: Scalar
    low: int = 0
    high: int = 0
    operands: tuple["Expression", ...] = ()

    def __add__(self, other: ExpressionLike) -> "Expression":
        return _binary(Op.ADD, self, other)

    def __radd__(self, other: Number) -> "Expression":
        return _binary(Op.ADD, other, self)

    def __sub__(self, other: ExpressionLike) -> "Expression":
        return _binary(Op.SUBTRACT, self, other)

    def __rsub__(self, other: Number) -> "Expression":
        return constant(other, self.type) - self

    def __mul__(self, other: ExpressionLike) -> "Expression":
        return _binary(Op.MULTIPLY, self, other)

    def __rmul__(self, other: Number) -> "Expression":
        return self * other

    def __truediv__(self, other: ExpressionLike) -> "Expression":
        return _binary(Op.DIVIDE, self, other)

    def __rtruediv__(self, other: Number) -> "Expression":
        return _binary(Op.DIVIDE, other, self)

    def __floordiv__(self, other: ExpressionLike) -> "Expression":
        return _binary(Op.FLOOR_DIVIDE, self, other)

    def __mod__(self, other: ExpressionLike) -> "Expression":
        return _binary(Op.MODULO, self, other)

    def __neg__(self) -> "Expression":
        return self * -1 if self.type is Scalar.INDEX else apply(Op.NEGATE, self)

    def __lshift__(self, other: ExpressionLike) -> "Expression":
        return _binary(Op.SHIFT_LEFT, self, other)

    def __rshift__(self, other: ExpressionLike) -> "Expression":
        return _binary(Op.SHIFT_RIGHT, self, other)

    def __and__(self, other: ExpressionLike) -> "Expression":
        return _logical(Op.AND, self, other)

    def __or__(self, other: ExpressionLike) -> "Expression":
        return _logical(Op.OR, self, other)

    def __xor__(self, other: ExpressionLike) -> "Expression":
        return _binary(Op.XOR, self, other)

    def __invert__(self) -> "Expression":
        if isinstance(self, Constant) and self.type is Scalar.BOOL:
            return constant(not self.value, Scalar.BOOL)
        return apply(Op.NOT, self)

    def __lt__(self, other: ExpressionLike) -> "Expression":
        return _compare(Op.LESS, self, other)

    def __le__(self, other: ExpressionLike) -> "Expression":
        return _compare(Op.LESS_EQUAL, self, other)

    def __gt__(self, other: ExpressionLike) -> "Expression":
        return _compare(Op.LESS, other, self)

    def __ge__(self, other: ExpressionLike) -> "Expression":
        return _compare(Op.LESS_EQUAL, other, self)

    def equals(self, other: ExpressionLike) -> "Expression":
        """Returns a BOOL that is true where both numbers are equal."""
        return _compare(Op.EQUAL, self, other)

    def differs(self, other: ExpressionLike) -> "Expression":
        """Returns a BOOL that is true where the numbers differ."""
        return _compare(Op.NOT_EQUAL, self, other)

    def to(self, type: Scalar) -> "Expression":  # noqa: A002 - the field's name
        """Converts the number to another type; see the module's rules."""
        if self.type is type:
            return self
        is_kept = type.is_float or (type is Scalar.INDEX and self.type.is_integer)
        if isinstance(self, Constant) and is_kept and not isinstance(self.value, Extent):
            return constant(self.value, type)
        if type is Scalar.INDEX:
            low, high = _bounds_as_index(self.type)
            return apply(Op.CONVERT, self, type=type, low=low, high=high)
        return apply(Op.CONVERT, self, type=type)


class Constant(Expression, frozen=True, kw_only=True, eq=False):
    """A constant number."""

    value: Number


class Axis(Expression, frozen=True, kw_only=True, eq=False):
    """An index that runs from 0 to `extent` - 1. Axes are not interned: each one is distinct.

    An axis of extent 0 has no indices; its `high` is below its `low`.
    """

    extent: int
    name: str = "i"


class Linear(Expression, frozen=True, kw_only=True, eq=False):
    """An INDEX: `constant` plus the sum of factor × term.

    Attributes:
        terms: (term, factor) pairs. No term is a Linear or a Constant.
    """

    terms: tuple[tuple[Expression, int], ...]
    constant: int


class Load(Expression, frozen=True, kw_only=True, eq=False):
    """Loads an element of a value.

    Attributes:
        index: one INDEX per dimension.
        guard: a BOOL; nothing is read where it is false. None if the load is never guarded.
        otherwise: the result where the guard is false.
    """

    value: Value
    index: tuple[Expression, ...]
    guard: Expression | None = None
    otherwise: Expression | None = None


class Apply(Expression, frozen=True, kw_only=True, eq=False):
    """An operation applied to numbers."""

    op: Op
    arguments: tuple[Expression, ...]


class Reduce(Expression, frozen=True, kw_only=True, eq=False):
    """Reduces `body` over all indices of `axes`; without any it is the reduction's identity."""

    reduction: ReductionOp
    axes: tuple[Axis, ...]
    body: Expression


class AccumulatorRef(Expression, frozen=True, kw_only=True, eq=False):
    """The contraction's result at the current index, as its epilogue reads it."""


#: Functions that build simplified INDEX operations. `index_arithmetic` adds them, because it needs
#: the classes of this module. Operations without an entry are not simplified.
INDEX_OPERATIONS: dict[Op, Callable[[Expression, Expression], Expression]] = {}

#: Bounds of an INDEX about which nothing is known.
INDEX_BOUNDS = (-(2**63), 2**63 - 1)

_INTERNED: "WeakValueDictionary[Any, Expression]" = WeakValueDictionary()
#: Its weak references, by key.
_REFERENCES: dict[Any, Any] = vars(_INTERNED)["data"]
_E = TypeVar("_E", bound=Expression)


def interned(key: tuple[Any, ...], make: Callable[[], _E]) -> _E:
    """Returns the expression with this key; calls `make` if there is none yet."""
    # Keys compare operands by identity. Each interned expression keeps its operands alive. Lowering
    # comes here so often that it looks up the references themselves.
    reference = _REFERENCES.get(key)
    existing: Any = None if reference is None else reference()
    if existing is None:
        existing = _INTERNED.setdefault(key, make())
    return existing  # type: ignore[no-any-return]


def _bounds_as_index(type: Scalar) -> tuple[int, int]:  # noqa: A002 - the field's name
    """Returns the bounds of a number of this type once it is converted to INDEX."""
    if type is Scalar.BOOL:
        return 0, 1
    if not type.is_integer:
        return INDEX_BOUNDS
    info = np.iinfo(type.dtype.name)
    return int(info.min), int(info.max)


def constant(value: Number, type: Scalar) -> Constant:  # noqa: A002 - the field's name
    """Returns a constant of this type. A float is rounded to it; an integer must fit."""
    stored: Number = (
        bool(value) if type is Scalar.BOOL else type.rounded(value) if type.is_float else integer(value)
    )
    bound = integer(stored) if type is Scalar.INDEX else 0
    # The key of a float uses repr because 0.0 == -0.0 and NaN != NaN.
    return interned(
        ("constant", type, stored if stored.__class__ is int else repr(stored)),
        lambda: Constant(type=type, value=stored, low=bound, high=bound),
    )


def index(value: int) -> Constant:
    """Returns a constant INDEX."""
    return constant(value, Scalar.INDEX)


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
        type: the type of the result; by default BOOL for comparisons, otherwise the type of the
            last operand.
        low, high: bounds of an INDEX; by default those of 64 bits.
    """
    result = type or (Scalar.BOOL if op in COMPARISONS else arguments[-1].type)
    lowest, highest = INDEX_BOUNDS if result is Scalar.INDEX else (0, 0)
    low, high = lowest if low is None else low, highest if high is None else high
    return interned(
        ("apply", op, result, arguments),
        lambda: Apply(type=result, op=op, arguments=arguments, operands=arguments, low=low, high=high),
    )


def as_expression(value: ExpressionLike, type: Scalar) -> Expression:  # noqa: A002 - the field's name
    """Returns the value as an expression; a Python number becomes a constant of the type."""
    return value if isinstance(value, Expression) else constant(value, type)


def _binary(op: Op, first: ExpressionLike, second: ExpressionLike) -> Expression:
    kind = first.type if isinstance(first, Expression) else second.type  # type: ignore[union-attr]
    one, other = as_expression(first, kind), as_expression(second, kind)
    simplify = INDEX_OPERATIONS.get(op) if kind is Scalar.INDEX else None
    return apply(op, one, other) if simplify is None else simplify(one, other)


def _logical(op: Op, first: Expression, second: ExpressionLike) -> Expression:
    other = as_expression(second, first.type)
    if first.type is Scalar.BOOL:
        for one, rest in ((first, other), (other, first)):
            if isinstance(one, Constant):
                return rest if bool(one.value) is (op is Op.AND) else one
        if first is other:
            return first
    return apply(op, first, other)


def _compare(op: Op, first: ExpressionLike, second: ExpressionLike) -> Expression:
    kind = first.type if isinstance(first, Expression) else second.type  # type: ignore[union-attr]
    one, other = as_expression(first, kind), as_expression(second, kind)
    if kind is Scalar.INDEX:
        # Terms common to both sides cancel.
        difference = one - other
        decided = _COMPARED_WITH_ZERO[op](difference.low, difference.high)
        if decided is not None:
            return constant(decided, Scalar.BOOL)
    return apply(op, one, other)


def _decided(always: bool, never: bool) -> bool | None:
    return True if always else False if never else None


#: Decides a comparison with 0 for all numbers from `low` to `high`; None if the result varies, or
#: if that depends on lengths. It is then compared at run time.
_COMPARED_WITH_ZERO: dict[Op, Callable[[int, int], bool | None]] = {
    Op.LESS: lambda low, high: _decided(highest(high) < 0, surely_lowest(low) >= 0),
    Op.LESS_EQUAL: lambda low, high: _decided(highest(high) <= 0, surely_lowest(low) > 0),
    Op.EQUAL: lambda low, high: _decided(
        surely_lowest(low) == highest(high) == 0, surely_lowest(low) > 0 or highest(high) < 0
    ),
    Op.NOT_EQUAL: lambda low, high: _decided(
        surely_lowest(low) > 0 or highest(high) < 0, surely_lowest(low) == highest(high) == 0
    ),
}
