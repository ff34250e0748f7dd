"""The terms of extents: symbols, quotients, remainders, excesses; and the bounds that follow."""

import math
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

#: Quotients by numbers whose multiple exceeds this are not expanded to find bounds.
_MAX_SCALE = 1 << 10
#: Bounds of sums with more excesses are not found by cases, whose number they double.
_MAX_EXCESSES = 4


class AtomKind(IntEnum):
    """Kinds of an `Atom`: an open dimension, or what is computed from others.

    That is a quotient or remainder of two extents, or the excess of one: by how much it exceeds 0.
    """

    SYMBOL = 0
    QUOTIENT = 1
    REMAINDER = 2
    EXCESS = 3


class Relation(IntEnum):
    """A relation of an extent to 0."""

    NEGATIVE = 0
    ZERO = 1


class Atom(Struct, eq=False):
    """A factor of extents.

    Attributes:
        key: distinguishes it from others, the same in every process.
        number: the number of a symbol; -1 for others.
        dividend, divisor: the dividend and divisor of a quotient or remainder, ints or extents;
            what has an excess, and 1.
        hint: its value for the sizes of the compilation.
    """

    key: str
    kind: AtomKind
    hint: int
    number: int = -1
    dividend: Any = 0
    divisor: Any = 1


#: Products of atoms, sorted by key, with their factors; the empty product is the constant.
Terms = Mapping[tuple[Atom, ...], int]


if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    # Nothing asks for it when the program runs, and making a protocol takes long.

    class TermScope(Protocol):
        """The part of an `ExtentScope` that arithmetic needs."""

        @property
        def least(self) -> int:
            """See `ExtentScope.least`."""

        def assuming(self, least: int) -> AbstractContextManager[None]:
            """See `ExtentScope.assuming`."""

        def extent(self, terms: Terms) -> Any:
            """See `ExtentScope.extent`."""

        def atom(self, key: str, make: Callable[[], Atom]) -> Atom:
            """See `ExtentScope.atom`."""

        def range_of(self, symbol: int) -> tuple[int, int]:
            """See `ExtentScope.range_of`."""

        def guarded(self, extent: Any, relation: Relation) -> bool:
            """See `ExtentScope.guarded`."""


class Polynomial:
    """The terms of an `Extent`, which adds the operators of numbers.

    Attributes:
        scope: where its symbols are from, an `ExtentScope`.
        key: the same for equal extents, in every process.
        terms: see `Terms`.
        hint: its value for the sizes of the compilation.
    """

    __slots__ = ("_ranges", "hint", "key", "scope", "terms")

    def __init__(self, scope: Any, key: str, terms: Terms) -> None:
        self.scope = scope
        self.key = key
        self.terms = terms
        self.hint = sum(
            factor * math.prod(atom.hint for atom in product) for product, factor in terms.items()
        )
        #: Version and bounds, by the least length that is assumed.
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


def terms_of(number: Any) -> Terms:
    """Returns the terms of an int or an extent."""
    return number.terms if isinstance(number, Polynomial) else {(): int(number)}


def without(atoms: tuple[Atom, ...], product: tuple[Atom, ...]) -> tuple[Atom, ...] | None:
    """Returns a product divided by another; None if it is not divisible."""
    left = list(atoms)
    for atom in product:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _range_of(extent: Polynomial) -> tuple[int, int]:
    # Bounds of n · n - n are those of n, times those of n - 1.
    common = _common_atoms(extent.terms)
    scope = extent.scope
    low, high = _range_of_sum(scope, {without(each, common): n for each, n in extent.terms.items()})
    for atom in common:
        corners = [one * other for one in (low, high) for other in _atom_range(scope, atom)]
        low, high = min(corners), max(corners)
    whole = _without_remainders(extent)
    if isinstance(whole, int):
        return whole, whole
    for closer in (_range_without_quotients(extent), _range_by_cases(extent)):
        if closer is not None:
            low, high = max(low, closer[0]), min(high, closer[1])
    return low, high


def _range_by_cases(extent: Polynomial) -> tuple[int, int] | None:
    """Returns bounds from those with an excess of x as x and as 0, so that lengths cancel, or None.

    In n - (excess of n - 4), for example, which is the smaller one of n and 4, n occurs once then.
    """
    atoms = [atom for product in extent.terms for atom in product if atom.kind is AtomKind.EXCESS]
    if not 1 <= len({atom.key for atom in atoms}) <= _MAX_EXCESSES:
        return None
    scope, atom = extent.scope, atoms[-1]
    if any(product.count(atom) > 1 for product in extent.terms):
        return None
    others = {product: factor for product, factor in extent.terms.items() if atom not in product}
    factors = {
        left: factor
        for product, factor in extent.terms.items()
        if (left := without(product, (atom,))) is not None
    }
    none, factor = scope.extent(others), scope.extent(factors)
    cases = [_bounds_of(each) for each in (none, none + factor * atom.dividend)]
    low, high = _bounds_of(factor)
    lows, highs = zip(*cases, strict=True)
    # It is the larger one of both if the factor is positive, and the smaller one if it is negative.
    return (max if low >= 0 else min)(lows), (min if high <= 0 else max)(highs)


def _bounds_of(number: Any) -> tuple[int, int]:
    return number.range() if isinstance(number, Polynomial) else (number, number)


def _without_remainders(extent: Polynomial) -> Any:
    """Returns an extent in which x % n is x - n · (x // n), of which nested ones have one form."""
    found: Any = extent
    for product, factor in extent.terms.items():
        if len(product) == 1 and product[0].kind is AtomKind.REMAINDER:
            (atom,) = product
            whole = atom.dividend - atom.divisor * (atom.dividend // atom.divisor)
            found = found - factor * extent.scope.extent({product: 1}) + factor * whole
    return found


def _range_without_quotients(extent: Polynomial) -> tuple[int, int] | None:
    """Returns bounds in which x // n is (x - x % n) / n, so that lengths cancel, or None.

    In n - 2 · (n // 2), for example, n occurs only once.
    """
    quotients = [
        each[0]
        for each in extent.terms
        if len(each) == 1 and each[0].kind is AtomKind.QUOTIENT and isinstance(each[0].divisor, int)
    ]
    scale = math.lcm(*(atom.divisor for atom in quotients))
    if not quotients or scale > _MAX_SCALE:
        return None
    scope, total = extent.scope, dict.fromkeys(extent.terms, 0)
    for product, factor in extent.terms.items():
        if len(product) != 1 or product[0] not in quotients:
            total[product] += factor * scale
            continue
        (atom,) = product
        share = factor * scale // atom.divisor
        rest = atom.dividend % atom.divisor
        for parts, sign in ((terms_of(atom.dividend), 1), (terms_of(rest), -1)):
            for each, own in parts.items():
                total[each] = total.get(each, 0) + sign * share * own
    low, high = _range_of_sum(scope, {product: factor for product, factor in total.items() if factor})
    return -(-low // scale), high // scale


def _ends_of_ratio(scope: "TermScope", atom: Atom) -> tuple[int, int] | None:
    """Returns the bounds of (a · x + b) // (c · x + d) for one atom x, or None.

    Such a ratio rises or falls everywhere, so that its bounds are those at the ends of x. In
    2 · n // (n + 1), for example, which is 1 for n > 0, both are not independent.
    """
    (dividend, b), (divisor, d) = (_linear(each) for each in (atom.dividend, atom.divisor))
    if len(dividend) != 1 or dividend.keys() != divisor.keys():
        return None
    ((x,),), ((a,), (c,)) = dividend.keys(), (dividend.values(), divisor.values())
    corners = [(a * value + b) // (c * value + d) for value in _atom_range(scope, x) if c * value + d > 0]
    return (min(corners), max(corners)) if len(corners) == 2 else None


def _linear(number: Any) -> tuple[dict[tuple[Atom, ...], int], int]:
    """Returns the terms of a number and its constant; no terms if there is a product of atoms."""
    terms = dict(terms_of(number))
    constant = terms.pop((), 0)
    return (terms if all(len(each) == 1 for each in terms) else {}), constant


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


def _range_of_sum(scope: "TermScope", terms: Mapping[Any, int]) -> tuple[int, int]:
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


def _atom_range(scope: "TermScope", atom: Atom) -> tuple[int, int]:
    if atom.kind is AtomKind.SYMBOL:
        return scope.range_of(atom.number)
    (low, high), (least, most) = map(_bounds_of, (atom.dividend, atom.divisor))
    if atom.kind is AtomKind.EXCESS:
        return max(0, low), max(0, high)
    # Divisors are positive.
    least = max(1, least)
    if atom.kind is AtomKind.REMAINDER:
        return 0, most - 1
    ends = _ends_of_ratio(scope, atom)
    if ends is not None:
        return ends
    corners = [one // other for one in (low, high) for other in (least, most)]
    return min(corners), max(corners)
