"""Lengths that follow from data: integers that a model computes become symbols of its lengths.

An operation whose shape depends on integers gets an operand of lengths in their place. The program
reads the integers before it (`LengthUpdate`).
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from neurald.drivers.compiler.frontend.control_flow.data_lengths.shape_lengths import ShapeLengths
from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import (
    RESHAPES,
    STRIDED_SLICES,
    FlatGraph,
    Place,
    ShapeChanges,
    arithmetic_inputs,
)
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.frontend.control_flow.structured_model import Copy
from neurald.drivers.compiler.frontend.lengths.open_lengths import as_objects
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import Sum
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation
from neurald.hal.model.numbering import operand_name
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, UnknownValue
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import merge

#: Inputs that say which dimensions an operation concerns. The structure of code follows from them,
#: so that no code is right for all their values, as it is for all lengths.
_DIMENSIONS = ("axis", "axes", "permutation")
#: Inputs by which lengths are divided. Code is generated as if no symbol were 1. It is right for 1
#: nevertheless, unless it computes 1 // n, which is only 1 then.
_DIVISORS = ("strides", "block_shape")
_TRANSPOSED = (OperationType.TRANSPOSE_CONV_2D, OperationType.TFLITE_TRANSPOSE_CONV)


class DataLengths:
    """Adds operations whose shapes follow from data.

    Args:
        flat: the graph.
        symbols: the symbols of its lengths.
        operands: adds operations to it.
    """

    def __init__(self, flat: FlatGraph, symbols: LengthSymbols, operands: StoredOperands) -> None:
        self._flat, self._symbols, self._operands = flat, symbols, operands
        self._shape_lengths = ShapeLengths(flat, symbols)

    def add(self, operation: Operation, place: Place) -> None:
        """Adds an operation whose shape follows from integers that are data."""
        # rare
        from neurald.drivers.compiler.frontend.control_flow.data_lengths.counted_rows import (
            COUNTED,
            counted_rows,
        )

        if operation.type in COUNTED:
            part = counted_rows(
                operation,
                self._flat,
                lambda added, shapes: self._operands.append(added, shapes, place),
                place,
            )
            self._operands.add_rows(part, operation.outputs[0])
            # Other rows that are counted by the same operand have the same length.
            (rows, *_), (length, *_) = part.lengths, self._flat.shape(operation.outputs[0])
            region = self._flat.regions[-1]
            for each, found in ((rows, length), (Sum(0, rows.terms), length - rows.constant)):
                self._flat.element_symbols.setdefault(each, (region, found))
            return
        if operation.type in _TRANSPOSED:
            # rare
            from neurald.drivers.compiler.frontend.control_flow.data_lengths.transposed_sizes import (
                add_transposed,
            )

            add_transposed(operation, self._flat, self._symbols, self._operands, place)
            return
        ways = [lambda: self._with_symbols(operation, place)]
        if operation.type is OperationType.TFLITE_RANGE:
            is_float = self._flat.operands[operation.outputs[0]].type is OperandType.TENSOR_FLOAT32
            if is_float or self._counts(operation):
                self._symbols.with_hints([lambda: self._add_counted(operation, place)])
                return
        if operation.type in STRIDED_SLICES:
            from neurald.drivers.compiler.frontend.control_flow.slices.consecutive_slices import (
                ConsecutiveSlices,
            )
            from neurald.drivers.compiler.frontend.control_flow.slices.stepped_slices import SteppedSlices

            slices = ConsecutiveSlices(self._flat, self._symbols, self._operands)
            ways[:0] = [
                lambda: slices.add(operation, place),
                lambda: slices.add(operation, place, opens=True),
                lambda: SteppedSlices(self._flat, self._symbols, self._operands, operation, place).add(),
            ]
        if operation.type in RESHAPES:
            # A single length follows from the number of elements, others do not.
            at = 0 if self._shape_lengths.unknown_lengths(operation) > 1 else 1
            ways.insert(at, lambda: self._add_copy(operation))
        self._symbols.with_hints(ways)

    def _with_symbols(self, operation: Operation, place: Place) -> None:
        """Adds an operation with symbols for the inputs that its shape depends on."""
        operation = replace(
            operation, inputs=tuple(self._operands.realized(each) for each in operation.inputs)
        )
        call = self._flat.call(operation)
        others = arithmetic_inputs(call).union(
            *(call.binding.inputs.get(name, ()) for name in (*_DIMENSIONS, *_DIVISORS))
        )
        declared = self._flat.operands[operation.outputs[0]].dimensions or ()
        lengths: dict[int, Array] = {}
        while (needed := self._needed(operation, lengths)) is not None:
            found = (
                self._shape_lengths.lengths_at(operation, call, needed, declared)
                if needed not in others
                else None
            )
            if found is None:
                raise ShapeChanges(f"the shape of the result of {operation.type.name} depends on data")
            lengths.update((n, found) for n, index in enumerate(operation.inputs) if index == needed)
        shapes = self._shapes(operation, lengths)
        if self._shape_lengths.settle(list(lengths.values()), shapes[0], declared):
            shapes = self._shapes(operation, lengths)
        self._operands.append(self._with_lengths(operation, lengths), shapes, place)

    def _add_copy(self, operation: Operation) -> None:
        """Adds a RESHAPE as a copy, whatever the hints say about the number of elements.

        Raises:
            BadData: the shape has no lengths, or another number of elements.
        """
        operation = replace(
            operation, inputs=tuple(self._operands.realized(each) for each in operation.inputs)
        )
        call, output = self._flat.call(operation), operation.outputs[0]
        declared = self._flat.operands[output].dimensions
        lengths = self._shape_lengths.given_lengths(operation, call, call.index("shape"), declared or ())
        if lengths is None or lengths.ndim != 1:
            raise BadData("the shape is not a vector of lengths")
        self._shape_lengths.leave(lengths, prod(self._flat.shape(call.index("input"))))
        shape = merge(declared, tuple(lengths.tolist()), operand_name(self._flat.operands, output))
        self._flat.operands[output] = replace(self._flat.operands[output], dimensions=shape)
        self._flat.shapes[output], self._flat.levels[output] = shape, len(self._flat.regions) - 1
        source = self._operands.stored(call.index("input"))
        # An output is copied where the caller wants it if all lengths are known before.
        self._flat.add_guards()
        self._flat.regions[-1].items.append(Copy(target=output, source=source))

    def _add_counted(self, operation: Operation, place: Place) -> None:
        """Adds a RANGE whose number of elements is computed first."""
        output = operation.outputs[0]
        if any(self._flat.operands[output].dimensions or ()):
            raise ShapeChanges("the result of TFLITE_RANGE must have a length that depends on data")
        # rare
        from neurald.drivers.compiler.frontend.control_flow.data_lengths.counted_ranges import range_count

        added = self._operands.adding(operation, place)
        length = self._distance(operation)
        if length is None:
            # Counts that are negative or too large to be a length are those of errors.
            length = self._symbols.extent_of(Sum(0, (((range_count(operation, self._flat, added), 0), 1),)))
        kind = self._flat.operands[output].type
        if kind is OperandType.TENSOR_FLOAT32:
            self._operands.append(operation, ((length,),), place)
            return
        start, _, delta = operation.inputs
        ends = [self._flat.integers(as_objects(each), kind) for each in (0, length, 1)]
        none = added.no_activation()
        numbers = added.computed(OperationType.TFLITE_RANGE, ends, kind)
        scaled = added.computed(OperationType.TFLITE_MUL, (numbers, delta, none), kind)
        added.add(OperationType.TFLITE_ADD, (scaled, start, none), output)

    def _distance(self, operation: Operation) -> Any:
        """Returns the number of elements of a RANGE with a step of 1 if it is a length, or None."""
        start, limit, delta = (self._flat.sums_of(each) for each in operation.inputs)
        if start is None or limit is None or delta is None or delta.item() != Sum(1):
            return None
        distance = limit.item() - start.item()
        if not distance.terms:
            return None if distance.constant < 0 else distance.constant
        self._symbols.require_tensors(distance)
        return self._symbols.extent_of(distance)

    def _counts(self, operation: Operation) -> bool:
        """Returns True if the number of elements of a RANGE is computed.

        It is a length if only the limit is data, or something that is divided by a known step.
        """
        start, _, delta = (self._flat.known.get(each) for each in operation.inputs)
        return start is None or delta is None or start.item() < 0 or delta.item() < 1

    def _needed(self, operation: Operation, lengths: Mapping[int, Array]) -> int | None:
        """Returns the next unknown input that the shapes of the results depend on.

        Other integers need not be lengths: they may be negative, for example.
        """
        call = self._flat.call(self._with_lengths(operation, lengths))
        try:
            DEFINITIONS[operation.type].output_shapes(call)
        except UnknownValue as error:
            (name,) = error.args
            position = self._flat.call(operation).index(name)
            return None if position in (operation.inputs[each] for each in lengths) else position
        return None

    def _shapes(self, operation: Operation, lengths: Mapping[int, Array]) -> Sequence[Shape]:
        """Returns the results' shapes of an operation with lengths as inputs at some positions."""
        try:
            call = self._flat.call(self._with_lengths(operation, lengths))
            return DEFINITIONS[operation.type].output_shapes(call)
        except UnknownValue:
            raise ShapeChanges(f"the shape of the result of {operation.type.name} depends on data") from None

    def _with_lengths(self, operation: Operation, lengths: Mapping[int, Array]) -> Operation:
        """Returns an operation whose inputs at some positions are lengths."""
        inputs = list(operation.inputs)
        for position, values in lengths.items():
            replaced = inputs[position]
            inputs[position] = self._flat.integers(values, self._flat.operands[replaced].type)
            self._flat.name_like(inputs[position], replaced)
        return replace(operation, inputs=tuple(inputs))
