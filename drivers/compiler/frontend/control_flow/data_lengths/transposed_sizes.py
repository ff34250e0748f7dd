"""Transposed convolutions whose height and width are data.

A stride allows as many heights as it is long. The convolution computes the largest one with all
zeros that there may be around it, of which the given one is a slice.
"""

from typing import Any

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph, Place
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.frontend.lengths.open_lengths import as_objects
from neurald.drivers.compiler.ir.extents.extent import MIN_LENGTH, estimate, excess
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation
from neurald.hal.model.types import Lifetime, OperandType, PaddingScheme
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.records import replace


def add_transposed(
    operation: Operation,
    flat: FlatGraph,
    symbols: LengthSymbols,
    operands: StoredOperands,
    place: Place,
) -> None:
    """Adds a transposed convolution whose output shape is data.

    Args:
        operation: the convolution.
        flat: the graph.
        symbols: the symbols of its lengths.
        operands: adds operations to it.
        place: the number of its original graph, and its origin.

    Raises:
        BadData: it is of another kind.
    """
    call = flat.call(operation)
    sums = flat.sums_of(call.index("output_shape")) if call.has("output_shape") else None
    if sums is None or sums.shape != (4,):
        raise BadData("the shape of a transposed convolution is not a vector of lengths")
    shape, (channels, *kernel, _) = flat.shape(call.index("input")), flat.shape(call.index("filter"))
    first = 2 if is_nchw(call) else 1
    is_same = call.padding_scheme is PaddingScheme.SAME
    wanted: list[Any] = [shape[0], channels, channels, channels]
    whole, begins = list(wanted), [0, 0, 0, 0]
    for along, (name, extent) in enumerate(zip(("height", "width"), kernel, strict=True)):
        axis, stride = first + along, call.scalar_in(f"stride_{name}", 1)
        size = shape[axis]
        span = (size - 1) * stride + extent
        shortest, longest = (span - extent + 1, size * stride) if is_same else (span, span + stride - 1)
        given = sums[axis]
        length: Any = given.constant
        if given.terms:
            hint = max(MIN_LENGTH, min(estimate(span), estimate(longest)))
            symbols.require_tensors(given)
            length = symbols.limited_symbol(given, hint, longest)
            symbols.require_not_negative(length - shortest, longest - length)
        elif not shortest <= length <= longest:
            raise BadData(f"the {name} of a transposed convolution is {length}")
        wanted[axis], whole[axis] = length, span + stride - 1
        begins[axis] = excess(span - length) // 2 if is_same else 0
    for axis in (0, 1 if first == 2 else 3):
        number = symbols.extent_of(sums[axis])
        symbols.require_zero(number - wanted[axis])
    added = operands.adding(operation, place)
    # The form with an output shape has it and the padding as its fourth and fifth input.
    inputs = (
        *operation.inputs[:3],
        flat.integers(as_objects(tuple(whole))),
        added.constant(PaddingScheme.VALID, OperandType.INT32),
        *operation.inputs[5:],
    )
    output = operation.outputs[0]
    part = replace(flat.operands[output], lifetime=Lifetime.TEMPORARY_VARIABLE, dimensions=None)
    everything = added.computed_as(operation.type, inputs, part)
    operands.add_slice(everything, begins, wanted, operation, output, place)
