"""The dimensions of a loop's values whose lengths change from turn to turn."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import (
    FlatGraph,
    ShapeChanges,
)
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    LengthUpdate,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, number_of, same_length
from neurald.drivers.compiler.ir.value import Shape

#: Limit on the dimensions of a loop's values that change.
_MAX_OPENED = 64


class LoopLengths:
    """Finds the dimensions of a loop's values that change.

    Those that change together share a symbol.

    Args:
        flat: the graph.
        symbols: the symbols of its lengths.

    Attributes:
        opened: the dimensions, as the number of the value and that of the dimension, with what
            distinguishes their lengths.
    """

    def __init__(self, flat: FlatGraph, symbols: LengthSymbols) -> None:
        self._flat, self._symbols = flat, symbols
        self.opened: dict[tuple[int, int], Hashable] = {}

    def symbols(self) -> dict[Hashable, Any]:
        """Adds the symbols of a loop, which the current region gets."""
        symbols = {key: self._symbols.symbol() for key in dict.fromkeys(self.opened.values())}
        for symbol in symbols.values():
            self._flat.symbol_levels[number_of(symbol)] = len(self._flat.regions)
        return symbols

    def shape(self, n: int, shape: Shape, symbols: Mapping[Hashable, Any]) -> Shape:
        """Returns the shape of a value of the loop.

        Args:
            n: its number.
            shape: its shape before the loop.
            symbols: the symbols of the loop.
        """
        return tuple(
            symbols[self.opened[n, dimension]] if (n, dimension) in self.opened else length
            for dimension, length in enumerate(shape)
        )

    def update(self, values: Sequence[int], symbols: Mapping[Hashable, Any]) -> LengthUpdate:
        """Returns what sets the symbols to the lengths of values."""
        lengths = {key: self._flat.shape(values[n])[d] for (n, d), key in self.opened.items()}
        return LengthUpdate(lengths=tuple((number_of(symbols[key]), each) for key, each in lengths.items()))

    def open_more(
        self,
        changing: Collection[int],
        values: Sequence[int],
        results: Sequence[int],
    ) -> bool:
        """Opens the dimensions of a loop's values that change; returns False if there are none."""
        opened = self.opened
        changed: dict[tuple[int, int], Any] = {}
        for n in sorted(changing):
            before, after = self._flat.shape(values[n]), self._flat.shape(results[n])
            if len(before) != len(after):
                raise ShapeChanges("a value of a loop changes its rank")
            for dimension, (length, found) in enumerate(zip(before, after, strict=True)):
                if (n, dimension) in opened or not same_length(length, found):
                    changed[n, dimension] = found
        # Dimensions that have the same length now had the same one before.
        keys = {
            each: (opened.get(each, _name(self._flat.shape(values[each[0]])[each[1]])), found)
            for each, found in changed.items()
        }
        groups: dict[Hashable, set[Hashable]] = {}
        for old, found in keys.values():
            groups.setdefault(old, set()).add(_name(found))
        if changed.keys() == opened.keys() and all(len(names) == 1 for names in groups.values()):
            return False
        if len(opened) > _MAX_OPENED:
            raise ShapeChanges("too many lengths of a loop change")
        for each, (old, _) in keys.items():
            is_split = len(groups[old]) > 1
            opened[each] = (old, each) if is_split else old
        return True


def _name(length: "int | Extent | Hashable") -> Hashable:
    """Returns what distinguishes a length from others."""
    return length.key if isinstance(length, Extent) else length
