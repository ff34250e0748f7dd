"""Extents: lengths of dimensions that are only known at run time.

An `Extent` takes the place of an int in shapes. It is a polynomial over *symbols*, the dimensions
that a model leaves open, and over quotients and remainders of such polynomials. It has a `hint`, its
value for the sizes that the model is compiled with. Arithmetic yields extents again. Code generators
write an extent like a number; its text is a name, which stands for its value at run time.

The compiler decides by comparing lengths. A comparison that has the same outcome for all sizes is
decided by the bounds of the symbols. Any other is decided by the hints, and recorded as a *guard*:
the code is only valid for sizes for which the guards hold. Code that does not know extents needs
plain numbers, for example for `range` or for NumPy. An extent then becomes its hint, which is
guarded too (it is *pinned*), because extents are not ints for Python. The result is therefore right
for every size that passes the guards, whatever the compiler did.

Estimates of cost decide nothing but speed. While `ExtentScope.estimates` is set, arithmetic with
floats yields floats computed from hints, without a guard; otherwise it pins the extent.
"""

import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final, TypeVar

from msgspec import Struct

from neurald.drivers.compiler.ir.extent_text import NAME_PREFIX

#: Smallest and largest length of an open dimension. Lengths 0 and 1 decide much, for example
#: broadcasting, and are never open.
MIN_LENGTH: Final = 2
MAX_LENGTH: Final = 2**31 - 1

_DIGEST_BYTES = 8
#: Length of the text of an extent beyond which it is pinned: nested quotients grow exponentially.
_MAX_KEY = 1000


class AtomKind(IntEnum):
    """What an `Atom` is: an open dimension, or a quotient or remainder of two extents."""

    SYMBOL = 0
    QUOTIENT = 1
    REMAINDER = 2


class Relation(IntEnum):
    """A relation of an extent to 0."""

    NEGATIVE = 0
    ZERO = 1


class Atom(Struct, eq=False):
    """A factor of extents.

    Attributes:
        key: distinguishes it from others, the same in every process.
        number: of a symbol; -1 for others.
        dividend, divisor: of a quotient or remainder.
        hint: its value for the sizes of the compilation.
    """

    key: str
    kind: AtomKind
    hint: int
    number: int = -1
    dividend: "int | Extent" = 0
    divisor: "int | Extent" = 1


#: Products of atoms, sorted by key, with their factors; the empty product is the constant.
Terms = Mapping[tuple[Atom, ...], int]


class Guard(Struct, frozen=True, kw_only=True):
    """A condition on the sizes: whether an extent has a relation to 0."""

    extent: "Extent"
    relation: Relation
    holds: bool


class ExtentScope:
    """The symbols and guards of one compilation.

    Args:
        hints: the length of each symbol for which the model is compiled, at least `MIN_LENGTH`.

    Attributes:
        symbols: the open dimensions, as extents.
        hints: the length of each symbol for which the model is compiled.
        estimates: True if arithmetic with floats is only used for estimates.
        ignores_empty: True if lengths that are not known count as different from 0; who uses the results
            checks what that affects.
        guards: the guards that are not bounds of a symbol.
        pins: where extents were pinned, for messages: the extent and the line of code.
        named: the extents in generated text, by name.
    """

    def __init__(self, hints: Iterable[int]) -> None:
        self.hints: tuple[int, ...] = tuple(hints)
        self.estimates = False
        self.ignores_empty = False
        self.guards: dict[tuple[str, Relation], Guard] = {}
        self.pins: list[tuple[str, str]] = []
        self.named: dict[str, Extent] = {}
        self._recorded: dict[tuple[str, Relation], Guard] = {}
        self._least = 0
        self._bounds: list[tuple[int, int]] = []
        self._version = 0
        self._known: dict[str, Extent] = {}
        self._atoms: dict[str, Atom] = {}
        # Compilers take them for ints.
        self.symbols: tuple[Any, ...] = ()
        given, self.hints = self.hints, ()
        for hint in given:
            self.add_symbol(hint)

    def add_symbol(self, hint: int, least: int = MIN_LENGTH) -> Any:
        """Adds an open dimension, and returns it.

        Args:
            hint: its length for which the model is compiled.
            least: its smallest length.
        """
        if not MIN_LENGTH <= hint <= MAX_LENGTH:
            raise ValueError(f"the length {hint} cannot be open")
        number = len(self.hints)
        self.hints += (hint,)
        self._bounds.append((least, MAX_LENGTH))
        atom = self.atom(
            AtomKind.SYMBOL, f"n{number}", lambda: Atom(f"n{number}", AtomKind.SYMBOL, hint, number)
        )
        extent = self.extent({(atom,): 1})
        self.symbols += (extent,)
        return extent

    @property
    def least(self) -> int:
        """The smallest length of a symbol that is assumed; see `assuming`."""
        return self._least

    @contextmanager
    def assuming(self, least: int) -> Iterator[None]:
        """Decides as if no symbol were shorter; who uses the results checks what that affects.

        Lengths that may be equal count as different then. Generated code must be right if they are
        equal, too, as that for any length is for a length of 1.
        """
        before, self._least = self._least, least
        try:
            yield
        finally:
            self._least = before

    def recorded(self) -> tuple[Guard, ...]:
        """Returns the guards that were needed since the last call, bounds of symbols excluded."""
        found = tuple(self._recorded.values())
        self._recorded.clear()
        return found

    @property
    def version(self) -> int:
        """Changes whenever the bounds of a symbol change."""
        return self._version

    def bounds(self, symbol: int) -> tuple[int, int]:
        """Returns the smallest and largest length of a symbol for which all guards hold."""
        return self._bounds[symbol]

    def all_bounds(self) -> tuple[tuple[int, int], ...]:
        """Returns the bounds of all symbols, for `restore`."""
        return tuple(self._bounds)

    def restore(self, bounds: Sequence[tuple[int, int]]) -> None:
        """Restores the bounds of symbols; what was decided since must not be used."""
        self._bounds[: len(bounds)] = bounds
        self._version += 1

    def range_of(self, symbol: int) -> tuple[int, int]:
        """Returns the range of a symbol by which comparisons are decided."""
        low, high = self._bounds[symbol]
        return max(low, self._least), high

    def atom(self, kind: AtomKind, key: str, make: Callable[[], Atom]) -> Atom:
        """Returns the atom with this key."""
        known = self._atoms.get(key)
        if known is None:
            known = self._atoms[key] = make()
        return known

    def extent(self, terms: Terms) -> Any:
        """Returns the sum of terms: an int if it does not depend on any symbol."""
        kept = {product: factor for product, factor in terms.items() if factor}
        if not kept:
            return 0
        if len(kept) == 1 and () in kept:
            return kept[()]
        ordered = sorted(
            (".".join(atom.key for atom in product), factor, product) for product, factor in kept.items()
        )
        key = "+".join(f"{factor}*{name}" if name else str(factor) for name, factor, _ in ordered)
        known = self._known.get(key)
        if known is None:
            if len(key) > _MAX_KEY:
                return self.pinned(Extent(self, key, kept))
            known = self._known[key] = Extent(self, key, {product: factor for _, factor, product in ordered})
        return known

    def is_ignored(self, extent: "Extent", other: Any) -> bool:
        """Returns True if what is done for different lengths is also right if these are equal."""
        if self._least:
            difference = extent - other
            return isinstance(difference, Extent) and difference.hint != 0
        return self.ignores_empty and not isinstance(other, Extent) and other == 0 <= extent.range()[0]

    def guarded(self, extent: "Extent", relation: Relation) -> bool:
        """Decides a relation by the hint, and records the guard."""
        value = extent.hint
        holds = value < 0 if relation is Relation.NEGATIVE else value == 0
        if not self._restrict(extent, relation, holds):
            guard = Guard(extent=extent, relation=relation, holds=holds)
            self.guards[extent.key, relation] = self._recorded[extent.key, relation] = guard
        return holds

    def pinned(self, extent: "Extent") -> int:
        """Returns the hint of an extent; the code is only valid for sizes with this value."""
        low, high = extent.range()
        if low < high:
            caller: Any = sys._getframe(1)
            while caller is not None and caller.f_code.co_filename == __file__:
                caller = caller.f_back
            where = f"{caller.f_code.co_filename}:{caller.f_lineno}" if caller else "?"
            self.pins.append((extent.key, where))
            terms = {**extent.terms, (): extent.terms.get((), 0) - extent.hint}
            # The extent may be too long to be kept.
            self.guarded(Extent(self, f"{extent.key}-{extent.hint}", terms), Relation.ZERO)
        return extent.hint

    def _restrict(self, extent: "Extent", relation: Relation, holds: bool) -> bool:
        """Expresses a guard on a single symbol by its bounds. Returns False if that is impossible."""
        factors = dict(extent.terms)
        offset = factors.pop((), 0)
        if len(factors) != 1:
            return False
        ((product, factor),) = factors.items()
        if len(product) != 1 or product[0].kind is not AtomKind.SYMBOL:
            return False
        symbol = product[0].number
        low, high = self.range_of(symbol)
        if relation is Relation.ZERO:
            if not holds:
                if offset % factor == 0 and -offset // factor in (low, high):
                    # An end of the range is excluded.
                    low, high = (low + 1, high) if -offset // factor == low else (low, high - 1)
                    self._set_bounds(symbol, low, high)
                    return True
                return False
            self._set_bounds(symbol, product[0].hint, product[0].hint)
            return True
        if holds:
            # factor · n + offset <= -1
            limit = -1 - offset
            if factor > 0:
                high = min(high, limit // factor)
            else:
                low = max(low, -(limit // -factor))
        else:
            # factor · n + offset >= 0
            if factor > 0:
                low = max(low, -(offset // factor))
            else:
                high = min(high, offset // -factor)
        if low == self.range_of(symbol)[0]:
            # It may only be assumed.
            low = self._bounds[symbol][0]
        self._set_bounds(symbol, low, high)
        return True

    def _set_bounds(self, symbol: int, low: int, high: int) -> None:
        if (low, high) != self._bounds[symbol]:
            self._bounds[symbol] = low, high
            self._version += 1


class Extent:
    """A number that depends on the lengths of open dimensions.

    Attributes:
        scope: where its symbols are from.
        key: the same for equal extents, in every process.
        terms: see `Terms`.
        hint: its value for the sizes of the compilation.
    """

    #: NumPy's scalars leave arithmetic with extents to this class.
    __array_ufunc__ = None
    __slots__ = ("_ranges", "hint", "key", "scope", "terms")

    def __init__(self, scope: ExtentScope, key: str, terms: Terms) -> None:
        self.scope = scope
        self.key = key
        self.terms = terms
        self.hint = sum(
            factor * math.prod(atom.hint for atom in product) for product, factor in terms.items()
        )
        #: By the least length that is assumed: version and bounds.
        self._ranges: dict[int, tuple[int, int, int]] = {}

    def range(self) -> tuple[int, int]:
        """Returns bounds of its value for all sizes that pass the guards so far."""
        scope = self.scope
        version, low, high = self._ranges.get(scope.least, (-1, 0, 0))
        if version != scope.version:
            low, high = _range_of(self)
            if scope.least:
                # Lengths that are shorter than assumed make differences larger.
                with scope.assuming(0):
                    high = self.range()[1]
            self._ranges[scope.least] = scope.version, low, high
        return low, high

    # Arithmetic.

    def __add__(self, other: Any) -> Any:
        if not _is_integer(other):
            return self._with_float(other, lambda one, two: one + two)
        return _sum(self.scope, self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if not _is_integer(other):
            return self._with_float(other, lambda one, two: one - two)
        return _sum(self.scope, self, other, -1)

    def __rsub__(self, other: Any) -> Any:
        if not _is_integer(other):
            return self._with_float(other, lambda one, two: two - one)
        return _sum(self.scope, other, self, -1)

    def __mul__(self, other: Any) -> Any:
        if not _is_integer(other):
            return self._with_float(other, lambda one, two: one * two)
        return _product(self.scope, self, other)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return _product(self.scope, self, -1)

    def __pos__(self) -> "Extent":
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __floordiv__(self, other: Any) -> Any:
        return _quotient(self.scope, self, other) if _is_integer(other) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return _quotient(self.scope, other, self) if _is_integer(other) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return _remainder(self.scope, self, other) if _is_integer(other) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return _remainder(self.scope, other, self) if _is_integer(other) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other) if _is_integer(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if _is_integer(other) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        return self._with_float(other, lambda one, two: one / two)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with_float(other, lambda one, two: two / one)

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
        return self.scope.pinned(self)

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
            return self.scope.pinned(self).bit_length()
        length = self.hint.bit_length()
        # These comparisons hold for the hint.
        is_known = self >= 1 << (length - 1) and self < 1 << length
        return length if is_known else self.scope.pinned(self).bit_length()

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
        return _decided(self.scope, self - other, Relation.ZERO)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        if not _is_integer(other):
            return bool(float(self) < other)
        return _decided(self.scope, self - other, Relation.NEGATIVE)

    def __ge__(self, other: Any) -> bool:
        return not self < other if _is_integer(other) else bool(float(self) >= other)

    def __gt__(self, other: Any) -> bool:
        if not _is_integer(other):
            return bool(float(self) > other)
        return _decided(self.scope, other - self, Relation.NEGATIVE)

    def __le__(self, other: Any) -> bool:
        return not self > other if _is_integer(other) else bool(float(self) <= other)

    # Text.

    def __str__(self) -> str:
        digest = hashlib.blake2s(self.key.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        name = f"{NAME_PREFIX}{digest}"
        self.scope.named[name] = self
        return name

    def __format__(self, specification: str) -> str:
        return format(int(self), specification) if specification else str(self)

    def __repr__(self) -> str:
        return f"<extent {self.key} of {id(self.scope):x}>"


_N = TypeVar("_N", int, float)


def estimate(number: _N) -> _N:
    """Returns a number, or the hint of an extent. For decisions that only affect speed."""
    return number.hint if isinstance(number, Extent) else number


def has_extents(lengths: Iterable[object]) -> bool:
    """Returns True if a length is not known."""
    return any(isinstance(length, Extent) for length in lengths)


def same_length(one: int, other: int) -> bool:
    """Returns True if two lengths are known to be equal. Guards nothing."""
    return one is other or (isinstance(one, int) and isinstance(other, int) and one == other)


def same_shape(one: "tuple[int, ...] | None", other: "tuple[int, ...] | None") -> bool:
    """Returns True if two shapes are known to be equal. Guards nothing."""
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(map(same_length, one, other))


def number_of(symbol: Any) -> int:
    """Returns the number of a symbol."""
    ((atom,),) = symbol.terms
    number: int = atom.number
    return number


def symbols_of(lengths: Iterable[object]) -> set[int]:
    """Returns the numbers of the symbols on which lengths depend."""
    found: set[int] = set()
    pending = [each for each in lengths if isinstance(each, Extent)]
    while pending:
        for product in pending.pop().terms:
            for atom in product:
                if atom.number >= 0:
                    found.add(atom.number)
                else:
                    pending += [each for each in (atom.dividend, atom.divisor) if isinstance(each, Extent)]
    return found


def is_one(number: int) -> bool:
    """Returns True if a number is known to be 1. Code for other numbers must be right for 1 too."""
    return not isinstance(number, Extent) and number == 1


def at_least(number: int, least: int) -> int:
    """Returns 1 if a number that is not negative is at least `least`, else 0."""
    if not isinstance(number, Extent):
        return int(number >= least)
    whole = number // least
    # 2 · x // (x + 1) is 0 for 0, and 1 for larger numbers.
    return 2 * whole // (whole + 1)


def lowest(number: _N) -> _N:
    """Returns a number, or a number that an extent is never less than. Guards nothing."""
    return number.range()[0] if isinstance(number, Extent) else number


def highest(number: _N) -> _N:
    """Returns a number, or a number that an extent never exceeds. Guards nothing."""
    return number.range()[1] if isinstance(number, Extent) else number


def may_be_zero(length: int) -> bool:
    """Returns True if a length is 0 for some sizes, whatever is assumed. Guards nothing."""
    if not isinstance(length, Extent):
        return length == 0
    with length.scope.assuming(0):
        return lowest(length) <= 0


def smaller(one: _N, other: _N) -> _N:
    """Returns the smaller of two numbers; one of them if that is not known. Guards nothing."""
    difference = _range_of_difference(one, other)
    return other if difference[0] >= 0 else one


def larger(one: _N, other: _N) -> _N:
    """Returns the larger of two numbers; one of them if that is not known. Guards nothing."""
    difference = _range_of_difference(one, other)
    return other if difference[1] <= 0 else one


def least(one: _N, other: _N) -> _N:
    """Returns a number that neither of two numbers is less than. Guards nothing."""
    low, high = _range_of_difference(one, other)
    if low < 0 < high:
        return min(lowest(one), lowest(other))
    return smaller(one, other)


def most(one: _N, other: _N) -> _N:
    """Returns a number that neither of two numbers exceeds. Guards nothing."""
    low, high = _range_of_difference(one, other)
    if low < 0 < high:
        return max(highest(one), highest(other))
    return larger(one, other)


def _range_of_difference(one: Any, other: Any) -> tuple[Any, Any]:
    if isinstance(one, Extent) or isinstance(other, Extent):
        difference = one - other
        return lowest(difference), highest(difference)
    return (0, 0) if one == other else (1, 1) if one > other else (-1, -1)


def integer(number: float) -> int:
    """Returns a number as an int; an extent stays what it is."""
    return number if isinstance(number, Extent) else int(number)


def common_divisor(first: int, second: int) -> int:
    """Returns a common divisor of two numbers: the greatest one if neither is an extent."""
    if first is second:
        return first
    if isinstance(first, Extent) and isinstance(second, Extent):
        for one, other in ((first, second), (second, first)):
            if len(other.terms) == 1 and _split(one.scope, one, other)[1] == 0:
                return other
    return math.gcd(*(factor for each in (first, second) for factor in _factors(each)))


def _factors(number: "int | Extent") -> Iterable[int]:
    return number.terms.values() if isinstance(number, Extent) else (number,)


def _is_integer(number: object) -> bool:
    """Returns True for extents and for ints, those of NumPy included."""
    return isinstance(number, Extent | int) or (hasattr(number, "__index__") and hasattr(number, "dtype"))


def _terms(number: Any) -> Terms:
    return number.terms if isinstance(number, Extent) else {(): int(number)}


def _sum(scope: ExtentScope, first: Any, second: Any, sign: int) -> Any:
    total = dict(_terms(first))
    for product, factor in _terms(second).items():
        total[product] = total.get(product, 0) + sign * factor
    return scope.extent(total)


def _product(scope: ExtentScope, first: Any, second: Any) -> Any:
    found: dict[tuple[Atom, ...], int] = {}
    for one, factor in _terms(first).items():
        for other, other_factor in _terms(second).items():
            atoms = tuple(sorted((*one, *other), key=lambda atom: atom.key))
            found[atoms] = found.get(atoms, 0) + factor * other_factor
    return scope.extent(found)


def _decided(scope: ExtentScope, difference: Any, relation: Relation) -> bool:
    """Decides a relation to 0 for all sizes, or else guards it."""
    if not isinstance(difference, Extent):
        return bool(difference < 0 if relation is Relation.NEGATIVE else difference == 0)
    low, high = difference.range()
    if relation is Relation.NEGATIVE:
        if high < 0 or low >= 0:
            return high < 0
    elif low > 0 or high < 0 or low == high:
        return low == high == 0
    return scope.guarded(difference, relation)


def _quotient(scope: ExtentScope, dividend: Any, divisor: Any) -> Any:
    """Returns dividend // divisor in a canonical form."""
    if divisor < 0:
        return _quotient(scope, -dividend, -divisor)
    if not divisor > 0:
        raise ZeroDivisionError("an extent is divided by zero")
    whole, rest = _split(scope, dividend, divisor)
    if _is_below(scope, rest, divisor):
        return whole
    assert isinstance(rest, Extent) or isinstance(divisor, Extent)  # noqa: S101 - else it is below
    if all(factor < 0 for product, factor in _terms(rest).items() if product or not isinstance(rest, Extent)):
        # -x // n equals -((x + n - 1) // n).
        return whole - _quotient(scope, divisor - 1 - rest, divisor)
    rest, divisor, _, _ = _reduced(scope, rest, divisor)
    if not isinstance(divisor, Extent) and divisor == 1:
        return whole + rest
    return whole + _atom(scope, AtomKind.QUOTIENT, rest, divisor)


def _remainder(scope: ExtentScope, dividend: Any, divisor: Any) -> Any:
    """Returns dividend % divisor in a canonical form."""
    if divisor < 0:
        return -_remainder(scope, -dividend, -divisor)
    if not divisor > 0:
        raise ZeroDivisionError("an extent is divided by zero")
    _, rest = _split(scope, dividend, divisor)
    for found in (rest, rest + divisor):
        if _is_below(scope, found, divisor):
            return found
    rest, divisor, common, offset = _reduced(scope, rest, divisor)
    if not isinstance(divisor, Extent) and divisor == 1:
        return offset
    return common * _atom(scope, AtomKind.REMAINDER, rest, divisor) + offset


def _split(scope: ExtentScope, dividend: Any, divisor: Any) -> tuple[Any, Any]:
    """Returns (whole, rest) with dividend = whole × divisor + rest."""
    terms = _terms(dividend)
    if not isinstance(divisor, Extent):
        number = int(divisor)
        # Negative terms stay negative, so that a quotient rounded up has one form.
        whole = {
            product: -(-factor // number) if product and factor < 0 else factor // number
            for product, factor in terms.items()
        }
        rest = {product: factor - whole[product] * number for product, factor in terms.items()}
        return scope.extent(whole), scope.extent(rest)
    if len(divisor.terms) != 1:
        return (1, 0) if dividend is divisor else (0, dividend)
    ((product, factor),) = divisor.terms.items()
    whole, rest = {}, {}
    for atoms, own in terms.items():
        left = _without(atoms, product)
        if left is None or own % factor:
            rest[atoms] = own
        else:
            whole[left] = own // factor
    return scope.extent(whole), scope.extent(rest)


def _without(atoms: tuple[Atom, ...], product: tuple[Atom, ...]) -> tuple[Atom, ...] | None:
    """Returns a product divided by another; None if it is not divisible."""
    left = list(atoms)
    for atom in product:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _is_below(scope: ExtentScope, rest: Any, divisor: Any) -> bool:
    """Returns True if 0 <= rest < divisor for all sizes."""
    low = rest.range()[0] if isinstance(rest, Extent) else rest
    distance = divisor - rest
    least = distance.range()[0] if isinstance(distance, Extent) else distance
    return bool(low >= 0 and least > 0)


def _reduced(scope: ExtentScope, rest: Any, divisor: Any) -> tuple[Any, Any, int, int]:
    """Divides both by a common divisor g, where rest = g × (new rest) + offset and 0 <= offset < g.

    Returns the new rest and divisor, g and the offset.
    """
    terms = dict(_terms(rest))
    constant = terms.pop((), 0)
    common = math.gcd(*_factors(divisor), *terms.values())
    offset = constant % common
    terms[()] = constant // common
    terms = {product: factor // common if product else factor for product, factor in terms.items()}
    smaller = scope.extent({product: factor // common for product, factor in _terms(divisor).items()})
    return scope.extent(terms), smaller, common, offset


def _atom(scope: ExtentScope, kind: AtomKind, dividend: Any, divisor: Any) -> Any:
    """Returns the extent of a quotient or remainder."""
    one, other = (each.key if isinstance(each, Extent) else str(each) for each in (dividend, divisor))
    sign = "/" if kind is AtomKind.QUOTIENT else "%"
    first, second = estimate(dividend), estimate(divisor)
    hint = first // second if kind is AtomKind.QUOTIENT else first % second
    key = f"({one}{sign}{other})"
    atom = scope.atom(kind, key, lambda: Atom(key, kind, hint, -1, dividend, divisor))
    return scope.extent({(atom,): 1})


def _range_of(extent: Extent) -> tuple[int, int]:
    # Bounds of n · n - n are those of n, times those of n - 1.
    common = _common_atoms(extent.terms)
    scope = extent.scope
    low, high = _range_of_sum(scope, {_without(each, common): n for each, n in extent.terms.items()})
    for atom in common:
        corners = [one * other for one in (low, high) for other in _atom_range(scope, atom)]
        low, high = min(corners), max(corners)
    return low, high


def _common_atoms(terms: Terms) -> tuple[Atom, ...]:
    """Returns a product that divides all products."""
    first, *others = terms
    if not others:
        return ()
    common: list[Atom] = []
    for atom in first:
        if all(each.count(atom) > common.count(atom) for each in others):
            common.append(atom)
    return tuple(common)


def _range_of_sum(scope: ExtentScope, terms: Mapping[Any, int]) -> tuple[int, int]:
    low = high = 0
    for product, factor in terms.items():
        smallest = largest = 1
        for atom in product:
            ends = _atom_range(scope, atom)
            corners = [one * other for one in (smallest, largest) for other in ends]
            smallest, largest = min(corners), max(corners)
        low += min(factor * smallest, factor * largest)
        high += max(factor * smallest, factor * largest)
    return low, high


def _atom_range(scope: ExtentScope, atom: Atom) -> tuple[int, int]:
    if atom.kind is AtomKind.SYMBOL:
        return scope.range_of(atom.number)
    (low, high), (least, most) = (
        each.range() if isinstance(each, Extent) else (each, each) for each in (atom.dividend, atom.divisor)
    )
    # Divisors are positive.
    least = max(1, least)
    if atom.kind is AtomKind.REMAINDER:
        return 0, most - 1
    corners = [one // other for one in (low, high) for other in (least, most)]
    return min(corners), max(corners)
