"""Strided slices of a few elements at an end of a list that may have fewer.

Which lists have enough elements is decided by hints otherwise, since code for a known number of
elements is faster. But what data chooses, such as the rows of a mask, is often nothing.
"""

from typing import Any, Final

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph, Place
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.ir.extents.extent import (
    MIN_LENGTH,
    at_least,
    estimate,
    has_extents,
    highest,
    surely_lowest,
)
from neurald.hal.model.graph import Operation
from neurald.hal.operations.machinery.arguments import slice_range

#: Limit on the elements that a slice takes or leaves at the ends: each is one more term of lengths.
_MAX_ELEMENTS: Final = 4
_OTHER_MASKS: Final = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")


def add_limited_slice(
    operation: Operation,
    flat: FlatGraph,
    symbols: LengthSymbols,
    operands: StoredOperands,
    place: Place,
) -> bool:
    """Adds a strided slice of lists whose lengths are data, with as many elements as they have.

    Args:
        operation: the slice.
        flat: the graph.
        symbols: the symbols of its lengths.
        operands: adds operations to it.
        place: its place in the model.

    Returns:
        False if it is another slice, and was not added.
    """
    call = flat.call(operation)
    source = call.index("input")
    shape = flat.shape(source)
    if not any(map(symbols.is_data, shape)):
        return False
    given = [flat.known.get(call.index(name)) for name in ("begin", "end", "strides")]
    if any(call.scalar(name) for name in _OTHER_MASKS if name in call.binding.inputs):
        return False
    if any(each is None or each.ndim != 1 or len(each) > len(shape) for each in given):
        return False
    begins, ends, strides = ([] if each is None else each.tolist() for each in given)
    if any(stride != 1 for stride in strides):
        return False
    open_begin, open_end = (int(call.scalar(name)) for name in ("begin_mask", "end_mask"))
    firsts, lengths, is_limited = list[Any](), list[Any](), False
    for axis, whole in enumerate(shape):
        is_sliced = axis < len(strides)
        begin = begins[axis] if is_sliced and not open_begin >> axis & 1 else None
        end = ends[axis] if is_sliced and not open_end >> axis & 1 else None
        limited = _limited(begin, end, whole) if symbols.is_data(whole) else None
        is_limited |= limited is not None
        first, length = slice_range(slice(begin, end), whole)[:2] if limited is None else limited
        firsts.append(first)
        lengths.append(length)
    # Code for a symbol permits 0. An axis of at most one element needs none for that.
    longer = {axis for axis, length in enumerate(lengths) if has_extents((length,)) and highest(length) > 1}
    if not is_limited or any(estimate(lengths[axis]) < MIN_LENGTH for axis in longer):
        return False
    lengths = [symbols.own_symbol(each) if axis in longer else each for axis, each in enumerate(lengths)]
    operands.add_slice(source, firsts, lengths, operation, operation.outputs[0], place)
    return True


def _limited(begin: int | None, end: int | None, whole: Any) -> tuple[Any, Any] | None:
    """Returns the first index and the number of elements of a slice, whatever the length is.

    Returns None if the length always suffices, or if that takes too many terms.
    """
    first = 0 if begin is None else begin
    reach = abs(first) + (0 if end is None else abs(end))
    if not reach or reach > _MAX_ELEMENTS or surely_lowest(whole) >= reach:
        return None
    if first < 0:
        before = whole - _least(whole, -first)
        if end is None:
            return before, _least(whole, -first)
        if end >= 0:
            return None
        return before, 0 if end <= first else _least(whole, -first) - _least(whole, -end)
    if end is None:
        return _least(whole, first), whole - _least(whole, first)
    if end < 0:
        return _least(whole, first), whole - _least(whole, first - end)
    return _least(whole, first), 0 if end <= first else _least(whole, end) - _least(whole, first)


def _least(whole: Any, count: int) -> Any:
    """Returns the smaller one of a length and a small number."""
    return sum(at_least(whole, number) for number in range(1, count + 1))
