"""Arithmetic of extents. Results have a canonical form, so that equal ones are the same object."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from neurald.drivers.compiler.ir.extents.terms import (
    Atom,
    AtomKind,
    Polynomial,
    Relation,
    terms_of,
    without,
)

if TYPE_CHECKING:
    from neurald.drivers.compiler.ir.extents.terms import TermScope


def added(scope: "TermScope", first: Any, second: Any, sign: int) -> Any:
    """Returns first + sign × second."""
    total = dict(terms_of(first))
    for product, factor in terms_of(second).items():
        total[product] = total.get(product, 0) + sign * factor
    return scope.extent(total)


def multiplied(scope: "TermScope", first: Any, second: Any) -> Any:
    """Returns first × second."""
    found: dict[tuple[Atom, ...], int] = {}
    for one, factor in terms_of(first).items():
        for other, other_factor in terms_of(second).items():
            atoms = tuple(sorted((*one, *other), key=lambda atom: atom.key))
            found[atoms] = found.get(atoms, 0) + factor * other_factor
    return scope.extent(found)


def decided(scope: "TermScope", difference: Any, relation: Relation) -> bool:
    """Decides a relation to 0 for all sizes, or else guards it."""
    if not isinstance(difference, Polynomial):
        return bool(difference < 0 if relation is Relation.NEGATIVE else difference == 0)
    low, high = difference.range()
    if relation is Relation.NEGATIVE:
        if high < 0 or low >= 0:
            return high < 0
    elif low > 0 or high < 0 or (low == high and not (low == 0 and _is_assumed(scope, difference))):
        return low == high == 0
    return scope.guarded(difference, relation)


def _is_assumed(scope: "TermScope", difference: Polynomial) -> bool:
    """Returns True if a number is only 0 for lengths that are not shorter than assumed."""
    if not scope.least:
        return False
    with scope.assuming(0):
        return difference.range() != (0, 0)


def quotient(scope: "TermScope", dividend: Any, divisor: Any) -> Any:
    """Returns dividend // divisor in a canonical form."""
    if divisor < 0:
        return quotient(scope, -dividend, -divisor)
    if not divisor > 0:
        raise ZeroDivisionError("an extent is divided by zero")
    whole, rest = divided(scope, dividend, divisor)
    if _is_below(scope, rest, divisor):
        return whole
    multiples, other = _without_remainders(scope, rest, divisor)
    if len(terms_of(other)) < len(terms_of(rest)):
        # Terms cancel, as in a padded length. Others have closer bounds with the remainder.
        return whole + multiples + quotient(scope, other, divisor)
    assert isinstance(rest, Polynomial) or isinstance(divisor, Polynomial)  # noqa: S101 - else it is below
    if _has_negative_terms(rest):
        # -x // n equals -((x + n - 1) // n).
        opposite = divisor - 1 - rest
        if not _has_negative_terms(opposite):
            return whole - quotient(scope, opposite, divisor)
    rest, divisor, _, _ = _reduced(scope, rest, divisor)
    if not isinstance(divisor, Polynomial) and divisor == 1:
        return whole + rest
    nested = _nested_quotient(rest, divisor)
    if nested is not None:
        return whole + quotient(scope, *nested)
    return whole + _atom(scope, AtomKind.QUOTIENT, rest, divisor)


def _has_negative_terms(number: Any) -> bool:
    """Returns True if all terms with symbols are negative, or a known number is."""
    return all(
        factor < 0
        for product, factor in terms_of(number).items()
        if product or not isinstance(number, Polynomial)
    )


def _nested_quotient(rest: Any, divisor: Any) -> tuple[Any, int] | None:
    """Returns the dividend and the divisor of (x // m + k) // n as one quotient, or None.

    That is (x + k × m) // (m × n), as sizes are halved by several layers of a network.
    """
    terms = dict(terms_of(rest))
    offset = terms.pop((), 0)
    if len(terms) != 1 or isinstance(divisor, Polynomial):
        return None
    ((product, factor),) = terms.items()
    if len(product) != 1 or factor != 1 or product[0].kind is not AtomKind.QUOTIENT:
        return None
    inner = product[0]
    if isinstance(inner.divisor, Polynomial):
        return None
    return inner.dividend + offset * inner.divisor, inner.divisor * divisor


def remainder(scope: "TermScope", dividend: Any, divisor: Any) -> Any:
    """Returns dividend % divisor in a canonical form."""
    if divisor < 0:
        return -remainder(scope, -dividend, -divisor)
    if not divisor > 0:
        raise ZeroDivisionError("an extent is divided by zero")
    _, rest = divided(scope, dividend, divisor)
    for found in (rest, rest + divisor):
        if _is_below(scope, found, divisor):
            return found
    _, other = _without_remainders(scope, rest, divisor)
    if other is not rest:
        return remainder(scope, other, divisor)
    variable = [factor for product, factor in terms_of(rest).items() if product]
    if variable and max(variable) < 0 and not isinstance(divisor, Polynomial):
        # -x % n equals n - 1 - (x + n - 1) % n, so that remainders of both signs cancel.
        return divisor - 1 - remainder(scope, divisor - 1 - rest, divisor)
    rest, divisor, common, offset = _reduced(scope, rest, divisor)
    if not isinstance(divisor, Polynomial) and divisor == 1:
        return offset
    return common * _atom(scope, AtomKind.REMAINDER, rest, divisor) + offset


def excess(scope: "TermScope", number: Any) -> Any:
    """Returns by how much a number exceeds 0, in a canonical form: 0 if it is negative."""
    if not isinstance(number, Polynomial):
        return max(0, number)
    with scope.assuming(0):
        low, high = number.range()
    if low >= 0 or high <= 0:
        return number if low >= 0 else 0
    if next(factor for product, factor in number.terms.items() if product) < 0:
        return added(scope, number, excess(scope, multiplied(scope, number, -1)), 1)
    common = math.gcd(*factors_of(number))
    reduced = scope.extent({product: factor // common for product, factor in number.terms.items()})
    key = f"({reduced.key}^0)"
    atom = scope.atom(key, lambda: Atom(key, AtomKind.EXCESS, max(0, reduced.hint), -1, reduced))
    return common * scope.extent({(atom,): 1})


def divided(scope: "TermScope", dividend: Any, divisor: Any) -> tuple[Any, Any]:
    """Returns (whole, rest) with dividend = whole × divisor + rest."""
    terms = terms_of(dividend)
    if not isinstance(divisor, Polynomial):
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
        left = without(atoms, product)
        if left is None or own % factor:
            rest[atoms] = own
        else:
            whole[left] = own // factor
    return scope.extent(whole), scope.extent(rest)


def _is_below(scope: "TermScope", rest: Any, divisor: Any) -> bool:
    """Returns True if 0 <= rest < divisor for all sizes.

    A divisor that is known divides numbers that may be shorter than the scope assumes. Others are
    lengths of axes, and there is nothing to compute along an axis without elements.
    """
    with scope.assuming(scope.least if isinstance(divisor, Polynomial) else 0):
        low = rest.range()[0] if isinstance(rest, Polynomial) else rest
        distance = divisor - rest
        least = distance.range()[0] if isinstance(distance, Polynomial) else distance
    return bool(low >= 0 and least > 0)


def _without_remainders(scope: "TermScope", rest: Any, divisor: Any) -> tuple[Any, Any]:
    """Returns (whole, rest) with the old rest = whole × divisor + (new rest).

    In the new rest, f × (x % n) is f × x wherever f × n is a multiple of the divisor.
    """
    whole: Any = 0
    if isinstance(divisor, Polynomial):
        return whole, rest
    for product, factor in terms_of(rest).items():
        if len(product) == 1 and product[0].kind is AtomKind.REMAINDER:
            (atom,) = product
            if not isinstance(atom.divisor, Polynomial) and factor * atom.divisor % divisor == 0:
                whole = whole - factor * atom.divisor // divisor * (atom.dividend // atom.divisor)
                # x % n may have another form by now. This one has to disappear.
                rest = rest - factor * (scope.extent({product: 1}) - atom.dividend)
    return whole, rest


def _reduced(scope: "TermScope", rest: Any, divisor: Any) -> tuple[Any, Any, int, int]:
    """Divides both by a common divisor g, where rest = g × (new rest) + offset and 0 <= offset < g.

    Returns the new rest and divisor, g and the offset.
    """
    terms = dict(terms_of(rest))
    constant = terms.pop((), 0)
    common = math.gcd(*factors_of(divisor), *terms.values())
    offset = constant % common
    terms[()] = constant // common
    terms = {product: factor // common if product else factor for product, factor in terms.items()}
    smaller = scope.extent({product: factor // common for product, factor in terms_of(divisor).items()})
    return scope.extent(terms), smaller, common, offset


def _atom(scope: "TermScope", kind: AtomKind, dividend: Any, divisor: Any) -> Any:
    """Returns the extent of a quotient or remainder."""
    one, other = (each.key if isinstance(each, Polynomial) else str(each) for each in (dividend, divisor))
    sign = "/" if kind is AtomKind.QUOTIENT else "%"
    first, second = _hint_of(dividend), _hint_of(divisor)
    hint = first // second if kind is AtomKind.QUOTIENT else first % second
    key = f"({one}{sign}{other})"
    atom = scope.atom(key, lambda: Atom(key, kind, hint, -1, dividend, divisor))
    return scope.extent({(atom,): 1})


def factors_of(number: "int | Polynomial") -> Iterable[int]:
    """Returns the factors of the terms of a number."""
    return number.terms.values() if isinstance(number, Polynomial) else (number,)


def _hint_of(number: "int | Polynomial") -> int:
    return number.hint if isinstance(number, Polynomial) else number


def common_divisor(first: int, second: int) -> int:
    """Returns a common divisor of two numbers: the greatest one if neither is an extent."""
    if first is second:
        return first
    if isinstance(first, Polynomial) and isinstance(second, Polynomial):
        for one, other in ((first, second), (second, first)):
            if len(other.terms) == 1 and divided(one.scope, one, other)[1] == 0:
                return other
    return math.gcd(*(factor for each in (first, second) for factor in factors_of(each)))
