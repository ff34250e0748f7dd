"""Symbols for the lengths of a flat graph, which its program sets before what has these lengths.

A symbol has a hint: the length for which code is generated. It is a guess, so that whoever adds
operations tries several.
"""

from collections.abc import Callable, Sequence
from itertools import chain, count, product, repeat
from typing import TYPE_CHECKING, Any

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph, NotStructured
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    InferredLength,
    LengthUpdate,
    NewLength,
    SliceIndex,
)
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import Sum
from neurald.drivers.compiler.ir.extents.extent import (
    MAX_LENGTH,
    MIN_LENGTH,
    Extent,
    estimate,
    number_of,
    symbols_of,
)
from neurald.hal.errors import BadData, copied

if TYPE_CHECKING:
    from neurald.drivers.compiler.ir.extents.terms import Relation

#: Lengths for which code is generated: those of a loop's values are at least the first one of
#: `_HINTS`, and those that follow from data are less, because the latter are often limited by the
#: former. Where this is wrong, such as where a constant limits them, the others are tried.
_HINTS, _DATA_HINTS = (129, 33, 9, 3), (127, 9, 3, 2)


class LengthSymbols:
    """Adds symbols, and what sets them, to the current region of a graph.

    Args:
        flat: the graph.
    """

    def __init__(self, flat: FlatGraph) -> None:
        self._flat = flat
        self._hint, self._data_hint = _HINTS[0], _DATA_HINTS[0]
        #: The numbers of those that follow from data.
        self._data: set[int] = set()
        #: The hints of symbols for numbers that lengths limit.
        self._limited_hints: dict[Sum, int] = {}

    def shorten(self) -> bool:
        """Takes values of loops as shorter from now on; returns False if they are the shortest."""
        shorter = [each for each in _HINTS if each < self._hint]
        self._hint = max(shorter, default=self._hint)
        return bool(shorter)

    def with_hints(self, ways: Sequence[Callable[[], None]]) -> None:
        """Adds operations with lengths from data; tries several hints in several ways.

        Args:
            ways: functions that add the operations. The first one that does not raise `BadData` has
                added them.
        """
        failed: BadData | None = None
        for add, hint in product(ways, _DATA_HINTS):
            self._data_hint = hint
            try:
                with self._flat.attempt():
                    add()
                    return
            except BadData as error:
                failed = error.with_traceback(None) if failed is None else failed
            finally:
                self._data_hint = _DATA_HINTS[0]
        assert failed is not None  # noqa: S101 - there is a way
        raise copied(failed)

    def symbol(self, *, is_data: bool = False) -> Any:
        """Adds a symbol that the current region sets."""
        used = set(self._flat.scope.hints)
        below = chain(range(min(self._data_hint, self._hint - 2), MIN_LENGTH, -2), repeat(MIN_LENGTH))
        candidates = below if is_data else count(self._hint, 2)
        hint = next(each for each in candidates if each == MIN_LENGTH or each not in used)
        symbol = self._flat.scope.add_symbol(hint, 0)
        self._flat.symbol_levels[number_of(symbol)] = len(self._flat.regions) - 1
        if is_data:
            self._data.add(number_of(symbol))
        return symbol

    @property
    def has_data(self) -> bool:
        """True if there are lengths that follow from data."""
        return bool(self._data)

    def is_data(self, length: object) -> bool:
        """Returns True if a length follows from data, and is not that of a value of a loop."""
        return isinstance(length, Extent) and symbols_of((length,)) <= self._data

    def extent_of(self, value: Sum) -> Any:
        """Returns a sum as a length.

        The varying part of the value is one symbol: less is known about sums and differences of
        symbols.
        """
        if not value.terms:
            return value.constant
        if len(value.terms) == 1:
            ((element, factor),) = value.terms
            return factor * self._sum_symbol(Sum(0, ((element, 1),))) + value.constant
        # A symbol is not negative, such as what several numbers together take from a constant.
        sign = -1 if all(factor < 0 for _, factor in value.terms) else 1
        terms = tuple((element, sign * factor) for element, factor in value.terms)
        return sign * self._sum_symbol(Sum(0, terms)) + value.constant

    def _sum_symbol(self, value: Sum) -> Any:
        """Returns the symbol for a sum, which the program computes here or has computed before."""
        known = self.known_symbol(value)
        if known is None:
            self.require_tensors(value)
            known = self.symbol(is_data=True)
            region = self._flat.regions[-1]
            region.items.append(LengthUpdate(lengths=((number_of(known), value),)))
            self._flat.element_symbols[value] = region, known
        return known

    def hint_between(self, value: Sum, low: Any, high: Any) -> int:
        """Returns a hint for a number that is limited by two lengths.

        It is that of an earlier symbol for the same number if it can be: slices of several operands
        that end at one index are mostly of the same length.
        """
        first, last = estimate(low), estimate(high)
        known = self._limited_hints.get(value)
        if known is None or not first + MIN_LENGTH <= known <= last:
            known = self._limited_hints[value] = first + (last - first) // 2
        return known

    def inferred_symbol(self, value: Sum, others: tuple[Sum, ...], total: Any) -> Any:
        """Returns the symbol for a length of a shape, which may also be -1."""
        symbol = self.symbol(is_data=True)
        length = InferredLength(number=value, others=others, total=total)
        self._flat.regions[-1].items.append(LengthUpdate(lengths=((number_of(symbol), length),)))
        return symbol

    def limited_symbol(self, length: NewLength, hint: int, most: Any) -> Any:
        """Returns a symbol that is set to a length here.

        Raises:
            BadData: there are no hints for which dimensions as short as this one are open.
        """
        if hint < MIN_LENGTH:
            raise BadData(f"a length has the hint {hint}; at least {MIN_LENGTH} is expected")
        symbol = self._flat.scope.add_symbol(hint, 0, MAX_LENGTH if isinstance(most, Extent) else most)
        self._flat.symbol_levels[number_of(symbol)] = len(self._flat.regions) - 1
        self._flat.regions[-1].items.append(LengthUpdate(lengths=((number_of(symbol), length),)))
        self._data.add(number_of(symbol))
        return symbol

    def own_symbol(self, length: Any) -> Any:
        """Returns a length as a symbol, and sets one if it has none; code for symbols permits 0.

        Raises:
            BadData: its hint cannot be that of a symbol.
        """
        if not isinstance(length, Extent) or any(length is each for each in self._flat.scope.symbols):
            return length
        known = self._known(length.key)
        if known is None:
            known = self.limited_symbol(length, length.hint, MAX_LENGTH)
            self._flat.element_symbols[length.key] = self._flat.regions[-1], known
        return known

    def kept_symbol(self, what: SliceIndex, add: Callable[[], Any]) -> Any:
        """Returns the symbol for an index, which is the same for equal ones, or adds it."""
        known = self._known(what)
        if known is None:
            known = add()
            self._flat.element_symbols[what] = self._flat.regions[-1], known
        return known

    def known_symbol(self, value: Sum) -> Any:
        """Returns the symbol for a sum that the program has computed; None if there is none."""
        return self._known(value)

    def _known(self, what: "Sum | SliceIndex | str") -> Any:
        known = self._flat.element_symbols.get(what)
        return (
            known[1] if known is not None and any(known[0] is each for each in self._flat.regions) else None
        )

    def require_tensors(self, value: Sum) -> None:
        """Checks that the elements of a sum have memory."""
        if not all(self._flat.operands[operand].type.is_tensor for (operand, _), _ in value.terms):
            raise NotStructured("a length is a scalar operand")

    def require_zero(self, *lengths: "int | Extent") -> None:
        """Makes the program check here that numbers are 0.

        Raises:
            BadData: one is known not to be.
        """
        from neurald.drivers.compiler.ir.extents.terms import Relation  # Few models need it.

        self._require(lengths, Relation.ZERO, holds=True)

    def require_not_negative(self, *lengths: "int | Extent") -> None:
        """Makes the program check here that numbers are not negative.

        Raises:
            BadData: one is known to be.
        """
        from neurald.drivers.compiler.ir.extents.terms import Relation  # Few models need it.

        self._require(lengths, Relation.NEGATIVE, holds=False)

    def _require(self, lengths: "Sequence[int | Extent]", relation: "Relation", *, holds: bool) -> None:
        from neurald.drivers.compiler.ir.extents.scope import Guard

        if any(isinstance(each, int) and (each < 0 or (holds and each > 0)) for each in lengths):
            raise BadData(f"the lengths do not fit: {list(lengths)}")
        guards = tuple(
            Guard(extent=each, relation=relation, holds=holds) for each in lengths if isinstance(each, Extent)
        )
        if guards:
            self._flat.regions[-1].items.append(LengthUpdate(guards=guards))
