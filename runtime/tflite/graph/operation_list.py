"""Emits the operations of a graph under construction, infers their shapes and folds constants."""

import math
from collections.abc import Mapping, Sequence

from neurald.hal.errors import BadData
from neurald.hal.model.elements import array_to_store
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Dimensions, Lifetime
from neurald.hal.operations import DEFINITIONS, WIDER
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import MAX_RANK, Binding
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import declared_shape
from neurald.runtime.tflite.graph.import_context import ImportContext
from neurald.runtime.tflite.graph.operand_table import OperandTable
from neurald.runtime.tflite.graph.operands import UnsupportedFeature

#: Maximum total size of the inputs of an operation that is folded while loading.
_MAX_FOLDED_BYTES = 1 << 16


#: Lifetimes of operands whose values do not depend on an execution.
_KNOWN = frozenset((Lifetime.CONSTANT_COPY, Lifetime.CONSTANT_POOL, Lifetime.NO_VALUE))


class OperationList(OperandTable):
    """The operands of a graph, and the operations on them.

    Args:
        operands: the first operands.
        importer: state shared by the graphs of a model.
    """

    def __init__(self, operands: list[Operand], importer: ImportContext) -> None:
        super().__init__(operands)
        self.importer = importer
        self._operations: list[Operation] = []
        #: The operands of each operation, as its definition accepted them.
        self._accepted_operands: list[tuple[Operand, ...]] = []
        #: Whether an operation is known to have results without elements.
        self._has_empty = False
        #: Constants and their values, by number.
        self._values: dict[int, tuple[Operand, Array | None]] = {}
        #: The operands whose values were asked for, while they are recorded.
        self._values_read: list[int] | None = None

    def value(self, index: int) -> Array | None:
        """Returns the value of a constant, None for any other operand."""
        if self._values_read is not None:
            self._values_read.append(index)
        operand = self._operands[index]
        if not operand.lifetime.is_constant:
            return None
        known = self._values.get(index)
        if known is None or known[0] is not operand:
            known = self._values[index] = operand, self.importer.constant(operand)
        return known[1]

    def emit(self, operation_type: OperationType, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Adds an operation, and infers the dimensions of its outputs.

        If Android's operation does not accept the operands, its extended variant in
        `neurald.tflite` may. The variant is tried first if a rank is unknown, since Android's
        operation may not support the actual rank.

        Raises:
            UnsupportedFeature: the operation does not accept these operands.
        """
        if operation_type not in DEFINITIONS:
            raise UnsupportedFeature(f"it needs {operation_type.name}, which is not implemented")
        tables = [DEFINITIONS]
        if operation_type in WIDER:
            tables.insert(0 if self._has_open_rank(inputs) else 1, WIDER)
        operation, shapes = self._first_accepted(operation_type, tables, inputs, outputs)
        for index, shape in zip(outputs, shapes, strict=True):
            self._operands[index] = replace(self._operands[index], dimensions=shape)
        if not self._evaluate(operation):
            self._append(operation)

    def _append(self, operation: Operation) -> None:
        """Adds an operation that its definition accepts."""
        operands = self._operands
        self._operations.append(operation)
        self._accepted_operands.append(
            tuple([operands[index] for index in operation.inputs + operation.outputs])
        )

    def emit_unchecked(
        self, operation_type: OperationType, inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        """Adds an operation of an extension, whose outputs have the expected dimensions."""
        operands = self._operands
        for index in outputs:
            operands[index] = replace(operands[index], dimensions=self._expected[index])
        self._append(Operation(type=operation_type, inputs=tuple(inputs), outputs=tuple(outputs)))

    @property
    def is_accepted(self) -> bool:
        """True if no operand has changed since the definitions of its operations accepted it.

        And if they knew the shapes of empty results.
        """
        return not self._has_empty and self._is_accepted(0)

    def _is_accepted(self, first: int) -> bool:
        """Returns whether the operands of the operations from the first one on are as accepted."""
        operands = self._operands
        for operation, accepted in zip(
            self._operations[first:], self._accepted_operands[first:], strict=True
        ):
            for index, before in zip(operation.inputs + operation.outputs, accepted, strict=True):
                operand = operands[index]
                if operand is not before and not is_interchangeable(operand, before):
                    return False
        return True

    def _first_accepted(
        self,
        operation_type: OperationType,
        tables: Sequence[Mapping[OperationType, Definition]],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> tuple[Operation, Sequence[Dimensions]]:
        """Returns the first accepted operation and its output dimensions.

        Args:
            operation_type: Android's operation.
            tables: the tables that have its definition, or that of its extended variant, and
                import it only then.
            inputs, outputs: the operands.

        Raises:
            UnsupportedFeature: none accepts them.
        """
        reason = ""
        for table in tables:
            definition = table[operation_type]
            operation = Operation(type=definition.type, inputs=tuple(inputs), outputs=tuple(outputs))
            binding = None
            if table is not tables[-1]:
                binding = definition.bound(operation, self._operands)
                if binding is None:
                    continue  # The reason that counts is that of the last one.
            try:
                return operation, self._accepted(definition, operation, binding)
            except BadData as error:
                reason = str(error)
        raise UnsupportedFeature(reason)

    def _has_open_rank(self, indexes: Sequence[int]) -> bool:
        """Returns True if the rank of one of the operands is unknown."""
        return None in [self._operands[index].dimensions for index in indexes]

    def takes(self, operation_type: OperationType, inputs: Sequence[int], outputs: Sequence[int]) -> bool:
        """Returns True if the operation itself, not its extended variant, accepts the operands."""
        definition = DEFINITIONS.get(operation_type)
        operation = Operation(type=operation_type, inputs=tuple(inputs), outputs=tuple(outputs))
        binding = None if definition is None else definition.bound(operation, self._operands)
        if definition is None or binding is None:
            return False
        try:
            self._accepted(definition, operation, binding)
        except BadData:
            return False
        return True

    def make_constant(self, index: int, value: Array) -> None:
        """Makes a result a constant, because its value is known."""
        self._operands[index] = replace(
            self._operands[index],
            dimensions=value.shape,
            lifetime=Lifetime.CONSTANT_COPY,
            value=array_to_store(value, self._operands[index].type).tobytes(),
        )

    def constant_like(self, operand: Operand, value: Array) -> int:
        """Adds a constant with that value, otherwise like `operand`, in a separate memory."""
        return self._add(self.importer.constant_operand(operand, value))

    def _evaluate(self, operation: Operation) -> bool:
        """Folds an operation that computes lengths or indexes from constants.

        Returns True if it did.

        Shapes that depend on them become known.
        """
        operands = self._operands
        for index in operation.inputs:
            if operands[index].lifetime not in _KNOWN:
                return False  # So it is nearly always.
        inputs = [operands[index] for index in operation.inputs]
        outputs = [operands[index] for index in operation.outputs]
        definition = DEFINITIONS[operation.type]
        if (
            definition.is_random
            or not all(_is_short(operand) for operand in outputs)
            or not all(operand.lifetime is Lifetime.TEMPORARY_VARIABLE for operand in outputs)
            or not sum(map(_size_bytes, inputs)) <= _MAX_FOLDED_BYTES
        ):
            return False
        binding = definition.bind(operation, self._operands)
        try:
            results = definition.reference(Call(binding, self._operands, self._shape, self.value))
        except (BadData, UnknownValue):
            return False
        for index, result in zip(operation.outputs, results, strict=True):
            self.make_constant(index, result)
        return True

    def _accepted(
        self, definition: Definition, operation: Operation, binding: Binding | None
    ) -> Sequence[Dimensions]:
        """Returns the output shapes of an operation after checking it.

        Args:
            definition: the definition of the operation.
            operation: whose shapes are returned.
            binding: as `definition` has bound it, if nobody asks why it does not accept it; None
                to bind it.

        Raises:
            BadData: the definition does not accept it.
        """
        says_why = binding is None
        if binding is None:
            binding = definition.bind(operation, self._operands)
        referenced = self.importer.referenced
        call = Call(binding, self._operands, self._shape, self.value, referenced=referenced)
        definition.check(call)
        shapes: Sequence[Dimensions]
        try:
            shapes = definition.output_shapes(call)
            # Later operations take a length of 0 for an unknown one; the validation of the model
            # does not.
            for shape in shapes:
                if 0 in shape:
                    self._has_empty = True
        except UnknownValue:
            shapes = [self._expected[index] for index in operation.outputs]
        if not _takes_ranks(binding, operation, shapes):
            self._check_ranks(definition, operation, shapes, says_why=says_why)
        return shapes

    def _check_ranks(
        self, definition: Definition, operation: Operation, shapes: Sequence[Dimensions], *, says_why: bool
    ) -> None:
        """Checks that some form of the operation accepts its outputs with these dimensions.

        Raises:
            BadData: none does; why is only said if asked for, which takes longer.
        """
        outputs = {index: self._operands[index] for index in operation.outputs}
        for (index, operand), shape in zip(outputs.items(), shapes, strict=True):
            self._operands[index] = replace(operand, dimensions=shape)
        try:
            if says_why:
                definition.bind(operation, self._operands)
            elif definition.bound(operation, self._operands) is None:
                raise BadData("it does not accept the ranks of its outputs")
        finally:
            for index, operand in outputs.items():
                self._operands[index] = operand

    def _shape(self, index: int) -> Shape | None:
        return declared_shape(self._operands[index])

    def reshape(self, index: int, target: Sequence[int], result: int) -> None:
        """Emits a RESHAPE to constant lengths, one of which may be -1."""
        self.emit(OperationType.RESHAPE, (index, self.vector(target)), (result,))

    def flat(self, index: int) -> int:
        """Returns the elements of an operand as a vector.

        TFLite accepts any shape for some operands, such as biases.
        """
        operand = self._operands[index]
        if operand.dimensions is not None and len(operand.dimensions) == 1:
            return index
        if operand.lifetime.is_constant and operand.dimensions is not None:
            return self._add(replace(operand, dimensions=(math.prod(operand.dimensions),)))
        result = self.value_like(replace(operand, dimensions=(0,)))
        self.reshape(index, (-1,), result)
        return result


def is_interchangeable(operand: Operand, other: Operand) -> bool:
    """Returns True if operands are results that differ at most in being outputs of the graph."""
    results = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)
    return (
        operand.lifetime in results
        and other.lifetime in results
        and replace(operand, lifetime=other.lifetime) == other
    )


def _takes_ranks(binding: Binding, operation: Operation, shapes: Sequence[Dimensions]) -> bool:
    """Returns True if an operation, as bound, accepts outputs of these dimensions."""
    found = dict(zip(operation.outputs, shapes, strict=True))
    for parameter in binding.form.outputs:
        low, high = parameter.ranks
        for index in binding.outputs[parameter.name]:
            shape = found[index]
            if shape is not None and not low <= len(shape) <= high:
                return False
    return True


def _is_short(operand: Operand) -> bool:
    """Returns True if the operand is known to have no more elements than a shape has dimensions."""
    return (
        operand.dimensions is not None
        and operand.is_fully_specified
        and math.prod(operand.dimensions) <= MAX_RANK
    )


def _size_bytes(operand: Operand) -> int:
    """Returns the size of a constant."""
    return len(operand.value) if operand.location is None else operand.location.length
