"""Strided slices of consecutive elements whose begin and end are data."""

from typing import Any

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph, Place
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.frontend.control_flow.structured_model import SliceIndex
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import Sum
from neurald.drivers.compiler.ir.extents.extent import has_extents, lowest
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation


class ConsecutiveSlices:
    """Adds strided slices.

    Args:
        flat: the graph.
        symbols: the symbols of its lengths.
        operands: adds operations to it.
    """

    def __init__(self, flat: FlatGraph, symbols: LengthSymbols, operands: StoredOperands) -> None:
        self._flat, self._symbols, self._operands = flat, symbols, operands

    def add(self, operation: Operation, place: Place, *, opens: bool = False) -> None:
        """Adds a strided slice.

        Args:
            operation: the slice.
            place: the number of its original graph, and its origin.
            opens: True to slice a copy with lengths that are not known, for which there are always
                hints.

        Raises:
            BadData: it has steps, or changes the rank.
        """
        call = self._flat.call(operation)
        source, output = self._operands.realized(call.index("input")), operation.outputs[0]
        shape = self._flat.shape(source)
        begins, ends, strides = (self._flat.sums_of(call.index(name)) for name in ("begin", "end", "strides"))
        others = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
        if any(name in call.binding.inputs and call.scalar(name) for name in others) or any(
            sums is None or sums.ndim != 1 or len(sums) > len(shape) for sums in (begins, ends, strides)
        ):
            raise BadData("a strided slice also changes the rank")
        assert begins is not None and ends is not None and strides is not None  # noqa: S101, PT018 - see above
        open_begin, open_end = (int(call.scalar(name)) for name in ("begin_mask", "end_mask"))
        if opens:
            vary = [bool(begin.terms or end.terms) for begin, end in zip(begins, ends, strict=True)]
            source = self._operands.opened(source, [*vary, *(False for _ in shape[len(vary) :])])
            shape = self._flat.shape(source)
        firsts, lengths = [], []
        for axis, whole in enumerate(shape):
            if axis >= len(strides):
                firsts.append(0)
                lengths.append(whole)
                continue
            if strides[axis] != Sum(1):
                raise BadData("a slice has steps")
            is_open = open_begin >> axis & 1, open_end >> axis & 1
            if begins[axis].terms == ends[axis].terms and begins[axis].terms and not any(is_open):
                first, length = self._moving(begins[axis], ends[axis], whole)
            else:
                first = 0 if is_open[0] else self._slice_index(begins[axis], whole, 0)
                end = whole if is_open[1] else self._slice_index(ends[axis], whole, first)
                length = self._symbols.own_symbol(end - first)
            firsts.append(first)
            lengths.append(length)
        self._operands.add_slice(source, firsts, lengths, operation, output, place)

    def _moving(self, begin: Sum, end: Sum, whole: Any) -> tuple[Any, Any]:
        """Returns the first index of a slice whose length is known, which must be inside.

        Raises:
            BadData: it is not for the hints.
        """
        length = end.constant - begin.constant
        if not lowest(length) > 0:
            raise BadData("a slice may be empty")
        first = self._symbols.limited_symbol(
            begin, self._symbols.hint_between(begin, 0, whole - length), whole
        )
        self._symbols.require_not_negative(whole - length - first)
        return first, length

    def _slice_index(self, given: Sum, whole: Any, low: Any) -> Any:
        """Returns an index of a slice, which is at least `low`, and at most the length `whole`."""
        if not given.terms and not has_extents((whole, low)):
            number = given.constant + (whole if given.constant < 0 else 0)
            return max(low, min(number, whole))
        self._symbols.require_tensors(given)
        hint = self._symbols.hint_between(given, low, whole)
        index = SliceIndex(number=given, whole=whole, low=low)
        return self._symbols.kept_symbol(index, lambda: self._symbols.limited_symbol(index, hint, whole))
