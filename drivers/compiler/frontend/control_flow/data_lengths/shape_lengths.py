"""Shapes that are data: the elements of an input of an operation, as lengths of a valid shape."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import RESHAPES, FlatGraph
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.ir.extents.extent import (
    MAX_LENGTH,
    MIN_LENGTH,
    Extent,
    estimate,
    is_multiple,
    is_one,
    is_zero,
)
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.rules import resolve_axis

#: Limit on the lengths in an operand.
_MAX_LENGTHS = 16


class ShapeLengths:
    """Turns integers into lengths, and makes the program check what must hold for them.

    Args:
        flat: the graph.
        symbols: the symbols of its lengths.
    """

    def __init__(self, flat: FlatGraph, symbols: LengthSymbols) -> None:
        self._flat, self._symbols = flat, symbols

    def unknown_lengths(self, operation: Operation) -> int:
        """Returns how many lengths in the shape of a RESHAPE are data and not declared."""
        sums = self._flat.sums_of(self._flat.call(operation).index("shape"))
        given = [] if sums is None else sums.reshape(-1).tolist()
        declared = self._flat.operands[operation.outputs[0]].dimensions or [0] * len(given)
        return sum(bool(each.terms) and not known for each, known in zip(given, declared, strict=False))

    def given_lengths(
        self, operation: Operation, call: Call, index: int, declared: Sequence[int]
    ) -> Array | None:
        """Returns the elements of an input as lengths; None if they cannot be."""
        sums = self._flat.sums_of(index)
        if sums is None or sums.size > _MAX_LENGTHS:
            return None
        values = np.empty(sums.shape, object)
        may_leave = operation.type in RESHAPES and index in self._flat.model.main.inputs
        for at, each in np.ndenumerate(sums):
            if may_leave:
                others = tuple(other for place, other in np.ndenumerate(sums) if place != at)
                values[at] = self._symbols.inferred_symbol(
                    each, others, prod(self._flat.shape(call.index("input")))
                )
            else:
                values[at] = self._symbols.extent_of(each)
        if operation.type in RESHAPES:
            self.settle([values], values.tolist(), declared)
        return values

    def lengths_at(
        self, operation: Operation, call: Call, index: int, declared: Sequence[int]
    ) -> Array | None:
        """Returns the elements of an input as lengths of a valid shape; None if they cannot be."""
        values = self.given_lengths(operation, call, index, declared)
        if values is None:
            return None
        if operation.type in RESHAPES:
            self._complete(values, self._flat.shape(call.index("input")))
        elif operation.type is OperationType.TFLITE_BROADCAST_TO:
            before = self._flat.shape(call.index("input"))
            # Code for an unknown length does not repeat its elements, as it would those of 1.
            kept = tuple(0 if is_one(each) else each for each in before)
            self.settle([values], values.tolist(), (0,) * (values.size - len(kept)) + kept)
        elif operation.type is OperationType.TFLITE_SPLIT_V and values.ndim == 1:
            shape = self._flat.shape(call.index("input"))
            axis = resolve_axis(call.scalar("axis"), len(shape), call.name("axis"))
            self._divide(values, shape[axis])
        return values

    def settle(self, lengths: Sequence[Array], shape: Sequence[Any], declared: Sequence[Any]) -> bool:
        """Replaces lengths by needed ones, such as declared lengths; the program checks them.

        Args:
            lengths: the lengths, which are replaced.
            shape: the shape of the result that follows from them.
            declared: lengths that the result needs, which may be extents; 0 for what is open.

        Returns:
            True if there were any.
        """
        found = False
        for length, wanted in zip(shape, declared, strict=False):
            if not isinstance(length, Extent) or length is wanted or is_zero(wanted):
                continue
            for values in lengths:
                for at, each in np.ndenumerate(values):
                    number = _solved(length, each, wanted)
                    if number is not None:
                        self._symbols.require_zero(each - number)
                        values[at], found = number, True
        return found

    def _complete(self, lengths: Array, shape: Shape) -> None:
        """Replaces a length of a reshaped operand, or -1, by the only one that it can have.

        Raises:
            BadData: there is none for the hints.
        """
        unknown = [at for at, each in np.ndenumerate(lengths) if isinstance(each, Extent)]
        if not unknown:
            return
        inferred = [at for at, each in np.ndenumerate(lengths) if not isinstance(each, Extent) and each == -1]
        total, others, last = prod(shape), 1, (inferred or unknown)[-1]
        for at, each in np.ndenumerate(lengths):
            others = others if at == last else others * each
        given: Any = lengths[last]
        lengths[last] = self._symbols.own_symbol(total // others) if inferred else total // others
        wrong: Any = total - lengths[last] * others if inferred else given - lengths[last]
        is_known = not isinstance(wrong, Extent)
        if (inferred or is_known) and estimate(wrong) != 0:
            raise BadData(f"{total} elements are not a multiple of {others}")
        if is_known:
            return
        self._symbols.require_zero(wrong)

    def _divide(self, lengths: Array, total: Any) -> None:
        """Replaces the last length of parts that is data by what the others leave of a whole.

        Raises:
            BadData: they leave nothing for the hints.
        """
        given = lengths.tolist()
        unknown = [at for at, each in enumerate(given) if isinstance(each, Extent)]
        if not unknown or any(not isinstance(each, Extent) and each < 0 for each in given):
            return
        left: Any = total - sum(each for at, each in enumerate(given) if at != unknown[-1])
        if not isinstance(left, Extent) or left.hint < MIN_LENGTH:
            raise BadData(f"parts of the lengths {given} are not {total} together")
        lengths[unknown[-1]] = self._symbols.own_symbol(left)
        self._symbols.require_zero(given[unknown[-1]] - left)

    def leave(self, lengths: Array, total: Any) -> None:
        """Replaces -1, or else the last length that is data, by what others leave of a number."""
        given = lengths.tolist()
        unknown = [at for at, each in enumerate(given) if isinstance(each, Extent)]
        if not unknown:
            raise BadData("no length is data")
        inferred = [at for at, each in enumerate(given) if not isinstance(each, Extent) and each == -1]
        last = (inferred or unknown)[-1]
        others = prod(each for at, each in enumerate(given) if at != last)
        left: Any = total // others
        if isinstance(left, Extent):
            # Code for a symbol permits 0 and 1. Any hint will do, since nothing else is known.
            left = self._symbols.limited_symbol(left, max(left.hint, MIN_LENGTH), MAX_LENGTH)
        lengths[last] = left
        wrong = [total - left * others, *([] if inferred else [given[last] - left])]
        self._symbols.require_zero(*wrong)


def _solved(length: Extent, part: Any, wanted: Any) -> Any:
    """Returns x if `length` is factor · part + rest and equals `wanted` for part = x, or None."""
    factor = length.hint // part.hint if isinstance(part, Extent) and part.hint else 0
    rest = length - factor * part
    if not factor or isinstance(rest, Extent) or not is_multiple(wanted - rest, factor):
        return None
    return (wanted - rest) // factor
