"""Arithmetic with extents by the operators of numbers."""

import math
from collections.abc import Callable
from typing import Any

from neurald.drivers.compiler.ir.extents.arithmetic import (
    added,
    decided,
    excess,
    multiplied,
    quotient,
    remainder,
)
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.extents.terms import Atom, AtomKind, Polynomial, Relation, terms_of
from neurald.drivers.compiler.ir.extents.text import NAME_PREFIX
from neurald.hal.digests import name_of

_DIGEST_BYTES = 8


class PolynomialExtent(Polynomial, Extent):
    """A sum of products of symbols, quotients and remainders, which counts as a number."""

    #: NumPy's scalars leave arithmetic with extents to this class.
    __array_ufunc__ = None
    __slots__ = ()

    # Arithmetic.

    def __add__(self, other: Any) -> Any:
        if not _is_integer(other):
            return self._with_float(other, lambda one, two: one + two)
        return added(self.scope, self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if not _is_integer(other):
            return self._with_float(other, lambda one, two: one - two)
        return added(self.scope, self, other, -1)

    def __rsub__(self, other: Any) -> Any:
        if not _is_integer(other):
            return self._with_float(other, lambda one, two: two - one)
        return added(self.scope, other, self, -1)

    def __mul__(self, other: Any) -> Any:
        if not _is_integer(other):
            return self._with_float(other, lambda one, two: one * two)
        return multiplied(self.scope, self, other)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return multiplied(self.scope, self, -1)

    def __pos__(self) -> "Extent":
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __floordiv__(self, other: Any) -> Any:
        return quotient(self.scope, self, other) if _is_integer(other) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return quotient(self.scope, other, self) if _is_integer(other) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return remainder(self.scope, self, other) if _is_integer(other) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return remainder(self.scope, other, self) if _is_integer(other) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other) if _is_integer(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if _is_integer(other) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        return self._with_float(other, lambda one, two: one / two)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with_float(other, lambda one, two: two / one)

    def excess(self) -> Any:
        """See `neurald.drivers.compiler.ir.extents.extent.excess`."""
        return excess(self.scope, self)

    def __pow__(self, other: Any) -> Any:
        return math.prod([self] * other) if isinstance(other, int) and other >= 0 else float(self) ** other

    def _with_float(self, other: Any, calculate: Callable[[float, float], float]) -> Any:
        if not isinstance(other, float | int | Extent):
            return NotImplemented
        if self.scope.estimates:
            return calculate(float(self.hint), float(other.hint if isinstance(other, Extent) else other))
        return calculate(float(self), float(other))

    # Numbers. Each of these pins the extent.

    def __index__(self) -> int:
        number: int = self.scope.pinned(self)
        return number

    __int__ = __index__
    __trunc__ = __index__

    def __float__(self) -> float:
        return float(self.hint if self.scope.estimates else self.scope.pinned(self))

    def __ceil__(self) -> "Extent":
        return self

    __floor__ = __ceil__

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other) if isinstance(other, int) else int(self) << other

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << other) if isinstance(other, int) else int(self) >> other

    def __and__(self, other: Any) -> Any:
        return int(self) & other

    __rand__ = __and__

    def bit_length(self) -> int:
        """See `int.bit_length`; guards the range with this length."""
        if self < 1:
            return int(self).bit_length()
        length = self.hint.bit_length()
        # These comparisons hold for the hint.
        is_known = self >= 1 << (length - 1) and self < 1 << length
        return length if is_known else int(self).bit_length()

    # Comparisons.

    def __hash__(self) -> int:
        return hash((id(self.scope), self.key))

    def __bool__(self) -> bool:
        return self != 0

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not _is_integer(other):
            return isinstance(other, float) and other.is_integer() and self == int(other)
        if isinstance(other, Extent) and other.scope is not self.scope:
            return False
        if self.scope.is_ignored(self, other):
            return False
        return decided(self.scope, self - other, Relation.ZERO)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        if not _is_integer(other):
            return bool(float(self) < other)
        return decided(self.scope, self - other, Relation.NEGATIVE)

    def __ge__(self, other: Any) -> bool:
        return not self < other if _is_integer(other) else bool(float(self) >= other)

    def __gt__(self, other: Any) -> bool:
        if not _is_integer(other):
            return bool(float(self) > other)
        return decided(self.scope, other - self, Relation.NEGATIVE)

    def __le__(self, other: Any) -> bool:
        return not self > other if _is_integer(other) else bool(float(self) <= other)

    # Text.

    def __str__(self) -> str:
        digest = name_of(self.key, _DIGEST_BYTES)
        name = f"{NAME_PREFIX}{digest}"
        self.scope.named[name] = self
        return name

    def __format__(self, specification: str) -> str:
        return format(int(self), specification) if specification else str(self)

    def __repr__(self) -> str:
        return f"<extent {self.key} of {id(self.scope):x}>"


def described(number: Any) -> str:
    """Returns the text of a number for messages, such as `2 * n0 + 1`."""
    text = ""
    for product, factor in terms_of(number).items():
        factors = [_factor(atom) for atom in product]
        if abs(factor) != 1 or not product:
            factors.insert(0, str(abs(factor)))
        sign = "-" if factor < 0 else "+" if text else ""
        text += f"{f' {sign} ' if text else sign}{' * '.join(factors)}"
    return text or "0"


def _factor(atom: Atom) -> str:
    if atom.number >= 0:
        return atom.key
    if atom.kind is AtomKind.EXCESS:
        return f"max({described(atom.dividend)}, 0)"
    return f"({_divided(atom)})"


def _divided(atom: Atom) -> str:
    sign = "//" if atom.kind is AtomKind.QUOTIENT else "%"
    dividend, divisor = (
        f"({text})" if " " in text else text for text in map(described, (atom.dividend, atom.divisor))
    )
    return f"{dividend} {sign} {divisor}"


def _is_integer(number: object) -> bool:
    """Returns True for extents and for ints, those of NumPy included."""
    return isinstance(number, Extent | int) or (hasattr(number, "__index__") and hasattr(number, "dtype"))
