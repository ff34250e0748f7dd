"""Turns a WHILE into a loop around two regions of a flat graph.

- A value of a loop that the body returns unchanged is the same operand inside and outside. If it is
  a constant, it is one in the loop too, and so are the shapes that follow from it. Which values
  these are is found by trying: at first all are taken as unchanged, and the loop is inlined again
  with a variable for each value that did change.
- The variables of a loop have the same shape in every turn, except for dimensions that change
  between turns, which `loop_lengths` handles.
"""

import itertools
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import (
    RESHAPES,
    SLICES,
    FlatGraph,
    Region,
    ShapeChanges,
)
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.frontend.control_flow.inlining.branches import require_bool
from neurald.drivers.compiler.frontend.control_flow.inlining.loop_counters import changing_values
from neurald.drivers.compiler.frontend.control_flow.inlining.loop_lengths import LoopLengths
from neurald.drivers.compiler.frontend.control_flow.structured_model import Copy, WhileLoop
from neurald.hal.errors import BadData

if TYPE_CHECKING:
    # Making a protocol takes long.
    from neurald.drivers.compiler.frontend.control_flow.inlining.inlines_graphs import InlinesGraphs

#: Number of attempts to find the unchanged values of a loop before all count as changed.
_MAX_ATTEMPTS = 3


class _Values(Struct, frozen=True, kw_only=True):
    """The values of a loop.

    Attributes:
        first: those before the loop; the ones that change have memory.
        inside: those in the loop: variables for the ones that change, and the others themselves.
        symbols: the symbols of lengths that change.
    """

    first: list[int]
    inside: list[int]
    symbols: Mapping[Hashable, Any]


class _Regions(Struct, frozen=True, kw_only=True):
    """The condition of a loop, whose result is `test`, and its body, which returns `results`."""

    condition: Region
    test: int
    body: Region
    results: list[int]

    def changed(self, values: _Values) -> set[int]:
        """Returns the numbers of the values that the body does not return unchanged."""
        return {
            n
            for n, (before, after) in enumerate(zip(values.inside, self.results, strict=False))
            if before != after
        }


class RepeatedLoops:
    """Inlines the condition and the body of a loop once, to be repeated.

    Args:
        flat: the graph into which they are inlined.
        symbols: the symbols of its lengths.
        operands: its operands that have no memory yet.
        inliner: inlines conditions and bodies.
    """

    def __init__(
        self, flat: FlatGraph, symbols: LengthSymbols, operands: StoredOperands, inliner: "InlinesGraphs"
    ) -> None:
        self._flat = flat
        self._symbols, self._operands = symbols, operands
        self._inliner = inliner
        #: The values that change in loops inlined before, and lengths that do, by the graphs of the
        #: loop.
        self._changing: dict[tuple[int, int], set[int]] = {}
        self._loop_lengths: dict[tuple[int, int], LoopLengths] = {}

    def add(
        self, graphs: tuple[int, int], inputs: Sequence[int], origin: int, *, opens: bool
    ) -> Sequence[int]:
        """Inlines a loop once.

        Args:
            graphs: the numbers of its condition and its body.
            inputs: its first values; lengths need no memory.
            origin: see `InlinesGraphs.inline`.
            opens: whether shapes may change, which become lengths then.

        Returns:
            Its results.

        Raises:
            ShapeChanges: a shape changes from turn to turn, and `opens` is False.
        """
        inner = self._flat.model.referenced[graphs[1]]
        carried = len(inner.outputs)
        # Values that changed when the loop was last inlined change again: without this, the
        # attempts of nested loops would multiply.
        changing = self._changing.setdefault(graphs, changing_values(inner, (*RESHAPES, *SLICES)))
        lengths = self._loop_lengths.setdefault(graphs, LoopLengths(self._flat, self._symbols))
        for attempt in itertools.count(1):
            with self._flat.attempt() as undo:
                values = self._values(inputs, changing, lengths)
                try:
                    regions = self._regions(graphs, values.inside, origin)
                except BadData:
                    # Values that are taken as constants need not be ones.
                    if len(changing) == carried:
                        raise
                    undo()
                    changing.update(range(carried))
                    continue
                found = regions.changed(values) - changing
                if found:
                    undo()
                    changing |= found if attempt < _MAX_ATTEMPTS else set(range(carried))
                    continue
                if lengths.open_more(changing, values.inside, regions.results):
                    if not opens:
                        lengths.opened.clear()
                        raise ShapeChanges("a value of a loop changes its shape")
                    undo()
                    continue
                break
        require_bool(self._flat, regions.test)
        self._append(values, regions, sorted(changing), lengths, origin)
        return values.inside

    def _values(self, inputs: Sequence[int], changing: Collection[int], lengths: LoopLengths) -> _Values:
        """Adds variables for the values that change."""
        symbols = lengths.symbols()
        # Lengths that do not change stay lengths in the loop, too.
        first = [self._operands.stored(index) if n in changing else index for n, index in enumerate(inputs)]
        inside = [
            self._flat.loop_variable(index, lengths.shape(n, self._flat.shape(index), symbols))
            if n in changing
            else index
            for n, index in enumerate(first)
        ]
        return _Values(first=first, inside=inside, symbols=symbols)

    def _regions(self, graphs: tuple[int, int], values: Sequence[int], origin: int) -> _Regions:
        """Inlines condition and body.

        Raises:
            BadData: a value is no constant, as which it was taken.
        """
        condition_graph, body_graph = graphs
        with self._flat.region(repeats=True) as condition:
            (test,) = self._inliner.inline(condition_graph, values, origin)
        with self._flat.region(repeats=True) as body:
            returned = self._inliner.inline(body_graph, values, origin)
            results = [
                each if each == values[n] else self._operands.stored(each) for n, each in enumerate(returned)
            ]
        return _Regions(condition=condition, test=test, body=body, results=results)

    def _append(
        self, values: _Values, regions: _Regions, changing: Sequence[int], lengths: LoopLengths, origin: int
    ) -> None:
        """Appends the loop, and what sets its variables before, to the current region."""
        items = self._flat.regions[-1].items
        before = lengths.update(values.first, values.symbols)
        if before.lengths:
            items.append(before)
        items += [Copy(target=values.inside[n], source=values.first[n]) for n in changing]
        for n in changing:
            self._flat.levels[values.inside[n]] = len(self._flat.regions) - 1
        items.append(
            WhileLoop(
                condition=regions.condition.finished(),
                test=regions.test,
                body=regions.body.finished(),
                lengths=lengths.update(regions.results, values.symbols),
                updates=tuple(
                    Copy(target=values.inside[n], source=regions.results[n])
                    for n in sorted(regions.changed(values))
                ),
                origin=origin,
            )
        )
