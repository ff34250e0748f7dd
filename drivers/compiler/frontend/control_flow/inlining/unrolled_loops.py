"""Unrolls loops whose turns follow from constants: their counters and slices are then constants."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import (
    SHAPE_QUERIES,
    FlatGraph,
    NotStructured,
)
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.frontend.control_flow.inlining.branches import is_true
from neurald.drivers.compiler.frontend.control_flow.inlining.loop_counters import (
    deciding_inputs,
    has_more_turns,
    loop_counter,
)
from neurald.hal.model.graph import Operand
from neurald.hal.operations.machinery.call import Array, Call

if TYPE_CHECKING:
    # Making a protocol takes long.
    from neurald.drivers.compiler.frontend.control_flow.inlining.inlines_graphs import InlinesGraphs

#: Limits on unrolling a loop, and on unrolling one whose shapes change in every turn, which are
#: known then. Each turn adds kernels to compile.
_MAX_TURNS, _MAX_OPERATIONS = 4, 128
_MAX_CHANGING_TURNS, _MAX_CHANGING_OPERATIONS = 128, 1024
#: The types of counters of loops.
_COUNTED = (np.dtype(np.int32), np.dtype(np.int64))


class NotUnrolled(NotStructured):
    """A loop cannot be unrolled within the limits."""


class UnrolledLoops:
    """Inlines every turn of a loop, within limits.

    Args:
        flat: the graph into which they are inlined.
        operands: its operands that have no memory yet.
        inliner: inlines conditions and bodies.
    """

    def __init__(self, flat: FlatGraph, operands: StoredOperands, inliner: "InlinesGraphs") -> None:
        self._flat = flat
        self._operands = operands
        self._inliner = inliner

    def add_short(self, call: Call, inputs: Sequence[int], origin: int) -> Sequence[int]:
        """Unrolls a loop that has few turns.

        Args:
            call: the loop.
            inputs: its first values.
            origin: see `InlinesGraphs.inline`.

        Returns:
            Its results.

        Raises:
            NotUnrolled: it has more turns, or they do not follow from constants.
            ShapeChanges: a shape in it depends on data.
        """
        turns = self._counted_turns(call, inputs, origin)
        return self._add(call, inputs, origin, _MAX_TURNS, _MAX_OPERATIONS, turns)

    def add_changing(self, call: Call, inputs: Sequence[int], origin: int) -> Sequence[int]:
        """Unrolls a loop whose shapes change in every turn, within wide limits; see `add_short`."""
        return self._add(call, inputs, origin, _MAX_CHANGING_TURNS, _MAX_CHANGING_OPERATIONS)

    def _add(
        self,
        call: Call,
        inputs: Sequence[int],
        origin: int,
        max_turns: int,
        max_operations: int,
        turns: int | None = None,
    ) -> Sequence[int]:
        """Inlines every turn of a loop whose condition follows from constants.

        Args:
            call, inputs, origin: see `add_short`.
            max_turns, max_operations: the limits.
            turns: the number of turns; None if they are not counted.

        Raises:
            NotUnrolled: it does not, or the limits do not suffice.
        """
        values = [*inputs]
        first = len(self._flat.operations)
        with self._flat.attempt():
            for turn in range(max_turns + 1):
                if turn == turns or (turns is None and not self._has_turn(call, values, origin)):
                    return values
                if turns is None and not turn:
                    self._require_known_condition(call, values)
                results = self._inliner.inline(call.graph_index("body"), values, origin)
                values[: len(results)] = [self._operands.realized(each) for each in results]
                if len(self._flat.operations) - first > max_operations:
                    raise NotUnrolled("a loop has too many operations to be unrolled")
            raise NotUnrolled("a loop has too many turns to be unrolled")

    def _has_turn(self, call: Call, values: Sequence[int], origin: int) -> bool:
        """Returns the condition of a loop for some values.

        Raises:
            NotUnrolled: it does not follow from constants.
        """
        deciding = deciding_inputs(call.graph("condition"), (0,), SHAPE_QUERIES)
        if not self._are_known(values, deciding):
            raise NotUnrolled("the condition of a loop depends on data")
        decided = self._flat.decided
        with self._flat.attempt() as undo:
            (condition,) = self._inliner.inline(call.graph_index("condition"), values, origin)
            if condition not in self._flat.known:
                raise NotUnrolled("the condition of a loop depends on data")
            if self._flat.decided != decided:
                raise NotUnrolled("the condition of a loop may depend on lengths")
            holds = is_true(self._flat, condition)
            undo()
        return holds

    def _require_known_condition(self, call: Call, values: Sequence[int]) -> None:
        """Looks for what the condition of the next turn depends on, without inlining the body.

        Raises:
            NotUnrolled: it does not follow from constants.
        """
        body = call.graph("body")
        deciding = deciding_inputs(call.graph("condition"), (0,), SHAPE_QUERIES)
        changed = [number for number in deciding if number < len(body.outputs)]
        if not self._are_known(values, deciding_inputs(body, changed, SHAPE_QUERIES)):
            raise NotUnrolled("the next condition of a loop depends on data")

    def _are_known(self, values: Sequence[int], positions: Collection[int]) -> bool:
        return all(values[number] in self._flat.known for number in positions)

    def _counted_turns(self, call: Call, inputs: Sequence[int], origin: int) -> int | None:
        """Counts the turns of a loop by inlining only what counts them.

        Returns:
            Their number; None if what counts them is most of the body.

        Raises:
            NotUnrolled: there are too many to unroll it, or they do not follow from constants.
        """
        body = call.graph("body")
        counter = loop_counter(call.graph("condition"), body)
        if counter is None:
            return None
        first = [
            None if each not in self._flat.known else _integer(self._flat.known[each]) for each in inputs
        ]
        if has_more_turns(call.graph("condition"), body, first, self._constant_integer, _MAX_TURNS):
            raise NotUnrolled("a loop has too many turns to be unrolled")
        values, number = [*inputs], call.graph_index("body")
        with self._flat.attempt() as undo:
            for turns in range(_MAX_TURNS + 1):
                if not self._has_turn(call, values, origin):
                    undo()
                    return turns
                mapping = self._inliner.inline_counter(number, values, counter, origin)
                for each in counter.values:
                    values[each] = self._operands.realized(mapping[body.outputs[each]])
            raise NotUnrolled("a loop has too many turns to be unrolled")

    def _constant_integer(self, operand: Operand) -> int | None:
        """Returns the value of an operand that is a constant integer; None for others."""
        value = self._flat.model.constant(operand) if operand.lifetime.is_constant else None
        return None if value is None else _integer(value)


def _integer(value: Array) -> int | None:
    """Returns the number in an array of a single integer; None for others."""
    return int(value.reshape(-1)[0]) if value.size == 1 and value.dtype in _COUNTED else None
