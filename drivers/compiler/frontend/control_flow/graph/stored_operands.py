"""Operands of a flat graph that have no memory until it is known that something reads them.

The elements of some are lengths, which the program computes as numbers. Others are slices with
lengths that depend on data (`Part`), which need not be computed where only a part of them is read.
"""

from collections.abc import Sequence
from typing import Any

from neurald.drivers.compiler.frontend.control_flow.graph.added_operations import AddedOperations
from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph, Part, Place
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.structured_model import Copy, LengthUpdate, SliceSize
from neurald.drivers.compiler.frontend.lengths.open_lengths import lengths_of
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import Sum
from neurald.drivers.compiler.ir.extents.extent import has_extents, number_of, same_length
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call
from neurald.hal.records import replace


class StoredOperands:
    """Gives memory to operands where they are read, and adds the operations that read them.

    Args:
        flat: the graph.
        symbols: the symbols of its lengths.
    """

    def __init__(self, flat: FlatGraph, symbols: LengthSymbols) -> None:
        self._flat, self._symbols = flat, symbols

    def computes_lengths(self, call: Call) -> bool:
        """Keeps the results of an operation on lengths, if it is one."""
        results = lengths_of(call, self._flat.value)
        if results is None:
            return False
        outputs = (index for indexes in call.binding.outputs.values() for index in indexes)
        for index, result in zip(outputs, results, strict=True):
            if has_extents(result.reshape(-1).tolist()):
                self._flat.extents[index], self._flat.shapes[index] = result, result.shape
                self._flat.operands[index] = replace(self._flat.operands[index], dimensions=result.shape)
            else:
                self._flat.set_constant(index, result.astype(self._flat.operands[index].type.dtype))
        return True

    def append(self, operation: Operation, shapes: Sequence[Shape], place: Place) -> None:
        """Adds an operation with operands of the flat graph. Inputs that are lengths are stored."""
        self._flat.append(self._with_stored_inputs(operation), shapes, place)

    def adding(self, operation: Operation, place: Place) -> AddedOperations:
        """Returns what adds operations on behalf of another one, at its place."""
        return AddedOperations(
            self._flat, lambda added, shapes: self.append(added, shapes, place), operation.number
        )

    def _with_stored_inputs(self, operation: Operation) -> Operation:
        """Returns an operation whose inputs are stored, except those that its shape depends on."""
        inputs = list(operation.inputs)
        for position, index in enumerate(operation.inputs):
            if index in self._flat.parts:
                inputs[position] = self.realized(index)
            elif index in self._flat.extents and not self._has_shape_of(operation, index):
                inputs[position] = self.stored(index)
        return operation if inputs == list(operation.inputs) else replace(operation, inputs=tuple(inputs))

    def _has_shape_of(self, operation: Operation, index: int) -> bool:
        """Returns True if the shape of a result follows from the elements of an operand."""
        binding = DEFINITIONS[operation.type].bind(operation, self._flat.operands)
        call = Call(
            binding,
            self._flat.operands,
            self._flat.shapes.get,
            lambda each: None if each == index else self._flat.value(each),
            referenced=self._flat.model.referenced,
        )
        return DEFINITIONS[operation.type].known_output_shapes(call) is None

    def stored(self, index: int) -> int:
        """Returns an operand that has memory: one whose elements are lengths gets it.

        It gets it outside of the loops in which none of these lengths changes.
        """
        index = self.realized(index)
        if index not in self._flat.extents:
            return index
        known = self._flat.stored_lengths.get(index)
        if known is not None and any(known[0] is each for each in self._flat.regions):
            return known[1]
        variable, values = self._flat.variable(index), self._flat.extents[index].reshape(-1).tolist()
        level = self._flat.outermost_level(self._flat.symbol_level(values))
        region, self._flat.levels[variable] = self._flat.regions[level], level
        region.items.append(LengthUpdate(stores=((variable, tuple(values)),)))
        self._flat.stored_lengths[index] = region, variable
        return variable

    def realized(self, index: int) -> int:
        """Returns a computed operand: adds a slice with a length that depends on data."""
        part = self._flat.parts.get(index)
        if part is None:
            return index
        output = self._flat.add_operand(
            replace(self._flat.operands[index], lifetime=Lifetime.TEMPORARY_VARIABLE, dimensions=None)
        )
        self.add_rows(part, output)
        return output

    def add_rows(self, part: Part, output: int) -> None:
        """Adds a slice whose length depends on data, in the first way that is possible."""
        self._symbols.with_hints(
            [lambda: self._add_part(part, output), lambda: self._add_part(part, output, opens=True)]
        )

    def _add_part(self, part: Part, output: int, *, opens: bool = False) -> None:
        """Adds a slice.

        Args:
            part: the slice.
            output: its result.
            opens: True to slice a copy with lengths that are not known. Else no hints may exist for
                which the slice is valid: those of two lengths that are at most 3 together.
        """
        source, before = part.source, self._flat.shape(part.source)
        begins = [self._symbols.extent_of(each) for each in part.begins]
        if opens:
            vary = [
                bool(begin.terms or size.terms) for begin, size in zip(part.begins, part.lengths, strict=True)
            ]
            source = self.opened(source, vary)
        lengths = [
            self._slice_size(size, Sum(known) - first, whole - begin, whole)
            for size, first, begin, known, whole in zip(
                part.lengths, part.begins, begins, before, self._flat.shape(source), strict=True
            )
        ]
        lengths = [self._symbols.own_symbol(each) for each in lengths]
        self.add_slice(source, begins, lengths, part.operation, output, part.place)

    def _slice_size(self, given: Sum, all_left: Sum, rest: Any, whole: Any) -> Any:
        """Returns the number of elements of a slice along a dimension.

        Args:
            given: the number, or -1.
            all_left: the number of elements from the begin of the slice on, as a sum.
            rest: the same, as a length.
            whole: the length of the dimension.
        """
        if given.terms == all_left.terms and same_length(given.constant, all_left.constant):
            return rest
        if not given.terms or self._symbols.known_symbol(given) is not None:
            return self._symbols.extent_of(given)
        self._symbols.require_tensors(given)
        return self._symbols.limited_symbol(
            SliceSize(number=given, rest=rest), self._symbols.hint_between(given, 0, rest), whole
        )

    def add_slice(
        self,
        source: int,
        begins: Sequence[Any],
        lengths: Sequence[Any],
        operation: Operation,
        output: int,
        place: Place,
    ) -> None:
        """Adds a slice that stands for an operation or a part of it."""
        added = Operation(
            type=OperationType.TFLITE_SLICE,
            inputs=(source, self._flat.integers(begins), self._flat.integers(lengths)),
            outputs=(output,),
            number=operation.number,
        )
        shapes = DEFINITIONS[added.type].output_shapes(self._flat.call(added))
        self.append(added, shapes, place)

    def opened(self, index: int, opens: Sequence[bool]) -> int:
        """Returns a copy of an operand; some of its lengths are symbols, which are set here."""
        index = self.stored(index)
        shape = self._flat.shape(index)
        opened = tuple(
            self._symbols.symbol() if each else length for each, length in zip(opens, shape, strict=True)
        )
        copy = self._flat.variable(index, opened)
        lengths = tuple(
            (number_of(symbol), length)
            for each, symbol, length in zip(opens, opened, shape, strict=True)
            if each
        )
        self._flat.regions[-1].items += [LengthUpdate(lengths=lengths), Copy(target=copy, source=index)]
        return copy
