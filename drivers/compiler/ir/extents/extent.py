"""Extents: lengths of dimensions that are only known at run time.

An `Extent` takes the place of an int in shapes. It is a polynomial over *symbols*, the dimensions
that a model leaves open, and over quotients, remainders and excesses of such polynomials. It has a
`hint`, its value for the sizes that the model is compiled with. Arithmetic yields extents again.
Code generators write an extent like a number; its text is a name, which stands for its value at run
time.

The compiler decides by comparing lengths. A comparison that has the same outcome for all sizes is
decided by the bounds of the symbols. Any other is decided by the hints, and recorded as a *guard*:
the code is only valid for sizes for which the guards hold. Code that does not know extents needs
plain numbers, for example for `range` or for NumPy. An extent then becomes its hint, which is
guarded too (it is *pinned*), because extents are not ints for Python. The result is therefore right
for every size that passes the guards, whatever the compiler did.

Estimates of cost decide nothing but speed. While `ExtentScope.estimates` is set, arithmetic with
floats yields floats computed from hints, without a guard; otherwise it pins the extent.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    # What prepares models without open lengths asks for these, and needs no arithmetic with them.
    from neurald.drivers.compiler.ir.extents.terms import Terms

#: Smallest and largest length of an open dimension. Lengths 0 and 1 decide much, for example
#: broadcasting, and are never open.
MIN_LENGTH: Final = 2
MAX_LENGTH: Final = 2**31 - 1
#: Bounds beyond this are as good as this one, since no index is as large. It leaves room for sums
#: in 64 bits.
_MAX_BOUND: Final = 2**60


class Extent:
    """A number that depends on the lengths of open dimensions.

    Its operators are those of `PolynomialExtent`, the class of all such numbers.

    Attributes:
        scope: where its symbols are from, an `ExtentScope`.
        key: the same for equal extents, in every process.
        terms: see `neurald.drivers.compiler.ir.extents.terms.Terms`.
        hint: its value for the sizes of the compilation.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        scope: Any
        key: str
        terms: Terms
        hint: int

        def range(self) -> tuple[int, int]:
            """See `Polynomial.range`."""

        def excess(self) -> Any:
            """See `excess`."""

        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __rfloordiv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __rmod__(self, other: Any) -> Any: ...
        def __index__(self) -> int: ...
        def __int__(self) -> int: ...
        def __lt__(self, other: Any) -> bool: ...
        def __le__(self, other: Any) -> bool: ...
        def __gt__(self, other: Any) -> bool: ...
        def __ge__(self, other: Any) -> bool: ...


_N = TypeVar("_N", int, float)


def estimate(number: _N) -> _N:
    """Returns a number, or the hint of an extent. For decisions that only affect speed."""
    return number.hint if isinstance(number, Extent) else number


def has_extents(lengths: Iterable[object]) -> bool:
    """Returns True if a length is not known."""
    return any(isinstance(length, Extent) for length in lengths)


def same_length(one: "int | Extent", other: "int | Extent") -> bool:
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


def may_change(length: int) -> bool:
    """Returns True if a length may change while the model runs. Guards nothing."""
    return isinstance(length, Extent) and any(map(length.scope.changes, symbols_of((length,))))


def is_one(number: int) -> bool:
    """Returns True if a number is known to be 1. Code for other numbers must be right for 1 too."""
    return not isinstance(number, Extent) and number == 1


def is_zero(number: int) -> bool:
    """Returns True if a number is known to be 0. Code for other numbers must be right for 0 too."""
    return not isinstance(number, Extent) and number == 0


def is_rising(factor: int) -> bool:
    """Returns True if a multiple by a factor grows with the number; either for 0.

    Guards only what the range of the factor leaves open.
    """
    if not isinstance(factor, Extent):
        return factor > 0
    low, high = factor.range()
    return low >= 0 or (high > 0 and factor > 0)


def is_multiple(number: int, divisor: int) -> bool:
    """Returns True if a number is known to be a multiple. Code for others must be right for it too.

    Guards nothing.
    """
    rest = number % divisor
    return not isinstance(rest, Extent) and rest == 0


def excess(number: Any) -> Any:
    """Returns by how much a number exceeds 0: itself, or 0 if it is negative. Guards nothing."""
    return number.excess() if isinstance(number, Extent) else max(number, 0)


def at_least(number: int, least: int) -> int:
    """Returns 1 if a number that is not negative is at least `least`, else 0."""
    if surely_lowest(number) >= least or highest(number) < least:
        return int(surely_lowest(number) >= least)
    whole = number // least
    if highest(whole) <= 1:
        return whole
    # 2 · x // (x + 1) is 0 for 0, and 1 for larger numbers.
    return 2 * whole // (whole + 1)


def is_equal(number: int, value: int) -> int:
    """Returns 1 if a number has a value, else 0."""
    first = surely_lowest(number)
    above = number - first
    return at_least(above, value - first) - at_least(above, value + 1 - first)


def lowest(number: _N) -> _N:
    """Returns a number, or a number that an extent is never less than. Guards nothing."""
    return number.range()[0] if isinstance(number, Extent) else number


def highest(number: _N) -> _N:
    """Returns a number, or a number that an extent never exceeds. Guards nothing."""
    return number.range()[1] if isinstance(number, Extent) else number


def surely_lowest(number: _N) -> _N:
    """Returns a number that an extent is never less than, whatever is assumed. Guards nothing.

    Bounds of indices, and all else that keeps code from accessing elements that do not exist, must
    be decided by this number: lengths that change while the model runs may be shorter than
    `ExtentScope.assuming` says.
    """
    if not isinstance(number, Extent):
        return number
    with number.scope.assuming(0):
        return lowest(number)


def is_surely_at_least(number: int, least: int) -> bool:
    """Returns True if a number is at least `least`, whatever is assumed; guarded if that varies.

    See `surely_lowest`.
    """
    if not isinstance(number, Extent):
        return number >= least
    with number.scope.assuming(0):
        return number >= least


def is_always_at_least(number: int, least: int) -> bool:
    """Returns True if a number is at least `least`; guarded unless it may change.

    A length that may change while the model runs must always be, since executions in which it is
    shorter would not run in compiled code.
    """
    return surely_lowest(number) >= least if may_change(number) else number >= least


def is_surely_equal(one: int, other: int) -> bool:
    """Returns True if two numbers are equal for all sizes. Guards nothing."""
    return _range_of_difference(one, other) == (0, 0)


def may_be_zero(length: int) -> bool:
    """Returns True if a length is 0 for some sizes, whatever is assumed. Guards nothing."""
    return surely_lowest(length) <= 0 if isinstance(length, Extent) else length == 0


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
        return max(min(surely_lowest(one), surely_lowest(other)), -_MAX_BOUND)
    return smaller(one, other)


def most(one: _N, other: _N) -> _N:
    """Returns a number that neither of two numbers exceeds. Guards nothing."""
    low, high = _range_of_difference(one, other)
    if low < 0 < high:
        return min(max(highest(one), highest(other)), _MAX_BOUND)
    return larger(one, other)


def _range_of_difference(one: Any, other: Any) -> tuple[Any, Any]:
    if isinstance(one, Extent) or isinstance(other, Extent):
        difference = one - other
        return surely_lowest(difference), highest(difference)
    return (0, 0) if one == other else (1, 1) if one > other else (-1, -1)


def integer(number: float) -> int:
    """Returns a number as an int; an extent stays what it is."""
    found: Any = number
    return found if isinstance(number, Extent) else int(number)
