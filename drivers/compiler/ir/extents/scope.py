"""The scope of extents: the symbols and guards of one compilation."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from neurald.drivers.compiler.ir.extents import arithmetic, polynomial_extent
from neurald.drivers.compiler.ir.extents import extent as extents
from neurald.drivers.compiler.ir.extents.extent import MAX_LENGTH, MIN_LENGTH, Extent
from neurald.drivers.compiler.ir.extents.polynomial_extent import PolynomialExtent
from neurald.drivers.compiler.ir.extents.terms import Atom, AtomKind, Relation, Terms
from neurald.drivers.compiler.ir.extents.text import NAME_PATTERN

_OBJECT = re.compile(r"<extent (\S+) of [0-9a-f]+>")
#: Length of the text of an extent beyond which it is pinned: nested quotients grow exponentially.
_MAX_KEY = 1000
#: Files whose lines are not where an extent is pinned.
_OWN_FILES = frozenset((__file__, extents.__file__, polynomial_extent.__file__, arithmetic.__file__))


class Guard(Struct, frozen=True, kw_only=True):
    """A condition on the sizes: whether an extent has a relation to 0."""

    extent: "Extent"
    relation: Relation
    holds: bool


class Decisions(Struct, frozen=True):
    """Records what a scope has decided by hints: bounds, the number of guards, and so on."""

    bounds: tuple[tuple[int, int], ...]
    guards: int
    recorded: dict[tuple[str, Relation], Guard]
    pins: int


_NO_DECISIONS = Decisions((), 0, {}, 0)


class ExtentScope:
    """The symbols and guards of one compilation.

    Args:
        hints: the length of each symbol for which the model is compiled, at least `MIN_LENGTH`.

    Attributes:
        symbols: the open dimensions, as extents.
        hints: the length of each symbol for which the model is compiled.
        estimates: True if arithmetic with floats is only used for estimates.
        ignores_empty: True if lengths that are not known count as different from 0; who uses the
            results checks what that affects.
        guards: the guards that are not bounds of a symbol.
        decided: how many relations were decided by hints so far, those that were undone included.
        pins: where extents were pinned, for messages: the extent and the line of code.
        named: the extents in generated text, by name.
    """

    def __init__(self, hints: Iterable[int]) -> None:
        self.hints: tuple[int, ...] = tuple(hints)
        self.estimates = False
        self.ignores_empty = False
        self.guards: dict[tuple[str, Relation], Guard] = {}
        self.decided = 0
        self.pins: list[tuple[str, str]] = []
        self.named: dict[str, Extent] = {}
        self._recorded: dict[tuple[str, Relation], Guard] = {}
        self._least = 0
        self._bounds: list[tuple[int, int]] = []
        #: Whether each symbol changes while the model runs.
        self._changing: list[bool] = []
        self._version = 0
        self._known: dict[str, Extent] = {}
        self._atoms: dict[str, Atom] = {}
        # Compilers take them for ints.
        self.symbols: tuple[Any, ...] = ()
        given, self.hints = self.hints, ()
        for hint in given:
            self.add_symbol(hint)

    def add_symbol(self, hint: int, least: int = MIN_LENGTH, most: int = MAX_LENGTH) -> Any:
        """Adds an open dimension, and returns it.

        Args:
            hint: its length for which the model is compiled.
            least: its smallest length. If it is 0, the length changes while the model runs, and
                what holds for it in one place, such as the body of a loop, need not hold in others.
            most: its largest length.
        """
        if not MIN_LENGTH <= hint <= MAX_LENGTH:
            raise ValueError(f"the length {hint} cannot be open")
        number = len(self.hints)
        self.hints += (hint,)
        self._bounds.append((least, most))
        self._changing.append(least == 0)
        atom = self.atom(f"n{number}", lambda: Atom(f"n{number}", AtomKind.SYMBOL, hint, number))
        extent = self.extent({(atom,): 1})
        self.symbols += (extent,)
        return extent

    def readable(self, message: object) -> str:
        """Returns a message in which lengths are sums of symbols, such as `2 * n0 + 1`.

        Other texts of extents are names in generated code, and keys that differ between scopes.
        """
        text = re.sub(NAME_PATTERN, lambda name: self._described(self.named, name[0]), str(message))
        return _OBJECT.sub(lambda found: self._described(self._known, found[1]), text)

    @staticmethod
    def _described(extents: "Mapping[str, Extent]", key: str) -> str:
        return polynomial_extent.described(extents[key]) if key in extents else "a length"

    def changes(self, symbol: int) -> bool:
        """Returns True if a symbol changes while the model runs."""
        return self._changing[symbol]

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

    def decisions(self) -> Decisions:
        """Returns what was decided by hints so far, for `undo`."""
        return Decisions(tuple(self._bounds), len(self.guards), dict(self._recorded), len(self.pins))

    def undo(self, decisions: Decisions | None) -> None:
        """Undoes all later decisions, or all if None; what follows from them must not be used."""
        decisions = decisions or _NO_DECISIONS
        self._bounds[: len(decisions.bounds)] = decisions.bounds
        self._version += 1
        for key in list(self.guards)[decisions.guards :]:
            del self.guards[key]
        self._recorded = dict(decisions.recorded)
        del self.pins[decisions.pins :]

    def range_of(self, symbol: int) -> tuple[int, int]:
        """Returns the range of a symbol by which comparisons are decided."""
        low, high = self._bounds[symbol]
        assumed = max(low, self._least)
        # An assumption does not say which number it is: an axis of three may also be 0 or 1.
        return (assumed if assumed < high else low), high

    def atom(self, key: str, make: Callable[[], Atom]) -> Atom:
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
                # Who computes with it does not know that it was decided.
                with self.assuming(0):
                    return self.pinned(PolynomialExtent(self, key, kept))
            known = self._known[key] = PolynomialExtent(
                self, key, {product: factor for _, factor, product in ordered}
            )
        return known

    def is_ignored(self, extent: "Extent", other: Any) -> bool:
        """Returns True if what is done for different lengths is also right if these are equal."""
        if self._least:
            difference = extent - other
            return isinstance(difference, Extent) and difference.hint != 0
        if not self.ignores_empty or isinstance(other, Extent) or other != 0:
            return False
        guard = self.guards.get((extent.key, Relation.NEGATIVE))
        return extent.range()[0] >= 0 or (guard is not None and not guard.holds)

    def guarded(self, extent: "Extent", relation: Relation) -> bool:
        """Decides a relation by the hint, and records the guard."""
        self.decided += 1
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
            while caller is not None and caller.f_code.co_filename in _OWN_FILES:
                caller = caller.f_back
            where = f"{caller.f_code.co_filename}:{caller.f_lineno}" if caller else "?"
            self.pins.append((extent.key, where))
            terms = {**extent.terms, (): extent.terms.get((), 0) - extent.hint}
            # The extent may be too long to be kept.
            self.guarded(PolynomialExtent(self, f"{extent.key}-{extent.hint}", terms), Relation.ZERO)
        return extent.hint

    def _restrict(self, extent: "Extent", relation: Relation, holds: bool) -> bool:
        """Expresses a guard on a single symbol by its bounds.

        Returns False if that is impossible.
        """
        factors = dict(extent.terms)
        offset = factors.pop((), 0)
        if len(factors) != 1:
            return False
        ((product, factor),) = factors.items()
        if len(product) == 1 and product[0].kind is AtomKind.QUOTIENT:
            if relation is Relation.NEGATIVE:
                return self._restrict_dividend(product[0], factor, offset, holds)
            with self.assuming(0):
                low, high = extent.range()
            if holds or 0 not in (low, high):
                return False
            # What is not the least number of its range exceeds it.
            sign = -1 if low == 0 else 1
            return self._restrict_dividend(product[0], sign * factor, sign * offset, holds=True)
        if len(product) != 1 or product[0].kind is not AtomKind.SYMBOL:
            return False
        symbol = product[0].number
        low, high = self.range_of(symbol)
        if relation is Relation.ZERO:
            if not holds:
                if offset % factor == 0 and -offset // factor in (low, high):
                    if -offset // factor == low and self._changing[symbol]:
                        return False
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
        elif self._changing[symbol]:
            return False
        self._set_bounds(symbol, low, high)
        return True

    def _restrict_dividend(self, quotient: Atom, factor: int, offset: int, holds: bool) -> bool:
        """Expresses whether factor × quotient + offset is negative by bounds of the dividend."""
        divisor, limit = quotient.divisor, -1 - offset
        if isinstance(divisor, Extent):
            return False
        if (factor > 0) == holds:
            highest = limit // factor if holds else offset // -factor
            rest = quotient.dividend - (highest + 1) * divisor
            return isinstance(rest, Extent) and self._restrict(rest, Relation.NEGATIVE, holds=True)
        lowest = -(limit // -factor) if holds else -(offset // factor)
        rest = quotient.dividend - lowest * divisor
        return isinstance(rest, Extent) and self._restrict(rest, Relation.NEGATIVE, holds=False)

    def _set_bounds(self, symbol: int, low: int, high: int) -> None:
        if (low, high) != self._bounds[symbol]:
            self._bounds[symbol] = low, high
            self._version += 1
