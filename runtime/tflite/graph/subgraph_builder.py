"""A subgraph of a `.tflite` file during its conversion to a `Subgraph` of operands and operations.

Operand k represents tensor k, so that messages use the numbers of the file; operands that the file
does not have (scalars, intermediate results) follow. `finish` drops unused operands and renumbers
the rest.

TFLite infers the shape of every result again when the shapes of the inputs are known, and uses the
shapes in the file only as hints. So does this class: a result has the shape that the rule of its
operation infers, possibly with unknown dimensions.
"""

import math
from collections.abc import Mapping, Sequence

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import encoding_of
from neurald.hal.model.types import Dimensions, Lifetime, OperandType
from neurald.hal.records import replace
from neurald.runtime.tflite.file.schema import OMITTED, Operator, Tensor, TfliteSubgraph
from neurald.runtime.tflite.file.schema_enums import TensorType
from neurald.runtime.tflite.graph.import_context import ImportContext
from neurald.runtime.tflite.graph.operands import (
    BLOCKWISE_TYPES,
    UnsupportedFeature,
    expected_dimensions,
    has_no_elements,
    input_dimensions,
    is_packed,
    narrow_limits,
    require_moved,
    to_operand,
)
from neurald.runtime.tflite.graph.operation_list import OperationList
from neurald.runtime.tflite.graph.state import VariableKey, shown_key, tensor_key

#: Types of integers that are quantised if they have a scale.
_SHORT_INTEGERS = (TensorType.INT8, TensorType.UINT8, TensorType.INT16)

_ABSENT = Operand(type=OperandType.TENSOR_FLOAT32, dimensions=None)


class SubgraphBuilder(OperationList):
    """The interface of legalization rules: reads operators and emits operations.

    Args:
        source: the subgraph.
        inputs, outputs: the fed and fetched tensors, in that order.
        importer: state shared by the graphs of a model.
        handles: the variables of tensors that the caller passes as handles.

    Attributes:
        importer: state shared by the graphs of a model.
        handles: tensor → its variable.

    Raises:
        BadData: an input is listed twice, or is a constant.
    """

    def __init__(
        self,
        source: TfliteSubgraph,
        inputs: Sequence[int],
        outputs: Sequence[int],
        importer: ImportContext,
        handles: Mapping[int, VariableKey] | None = None,
    ) -> None:
        super().__init__([_ABSENT] * len(source.tensors), importer)
        self.handles = dict(handles or {})
        self._index = source.index
        self._tensors = list(source.tensors)
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._fetched = frozenset(outputs)
        self._written: set[int] = {*inputs, *self.handles}
        #: Tensors that are another name of an operand.
        self._aliases: dict[int, int] = {}
        #: The operands that hold the current values of the variables.
        self._variables: dict[VariableKey, int] = {}
        self._variable_inputs: list[int] = []
        #: Whether all ranks and lengths so far are those stated in the file. After a mismatch the
        #: file's shapes of later tensors are ignored: the file states them for other arguments, or
        #: for the first iteration of a loop.
        self._ranks_hold = self._lengths_hold = True
        if len(set(inputs)) != len(self._inputs):
            raise BadData("a tensor is listed twice among the inputs")
        for index in self._inputs:
            # The value of an input in the file is what it has if nothing else is given.
            self._tensors[index] = replace(self._tensors[index], data=None, sparsity=None)

    def add_input(self, tensor: int, given: Operand | None = None) -> None:
        """Creates the operand of an input, with the dimensions that the caller passes, if any.

        Raises:
            UnsupportedFeature: no operand can represent it.
        """
        source = self._tensors[tensor]
        dimensions = input_dimensions(source) if given is None else given.dimensions
        self._operands[tensor] = to_operand(source, dimensions, Lifetime.SUBGRAPH_INPUT)
        self._compare_shape(tensor)

    def add_variable(self, key: VariableKey, operand: Operand) -> None:
        """Makes a variable a further input of the graph."""
        self._variables[key] = self._add(operand)
        self._variable_inputs.append(self._variables[key])

    def enter(self, operator: Operator) -> None:
        """Checks that the operator is in a valid position.

        Raises:
            BadData: it reads a tensor that is not written yet, or writes one that already has a
                value.
        """
        for index in operator.inputs:
            if index != OMITTED and not self._has_value(index):
                raise BadData(f"{operator} reads {self._tensors[index]}, which nothing before it writes")
        for index in operator.outputs:
            if index in self._written or self._tensors[index].data is not None:
                raise BadData(f"{operator} writes {self._tensors[index]}, which already has a value")
            self._written.add(index)

    def _has_value(self, tensor: int) -> bool:
        source = self._tensors[tensor]
        return (
            tensor in self._written
            or tensor in self.handles
            or source.data is not None
            or source.is_variable
            or has_no_elements(source)
        )

    # Access to the inputs and outputs of operators.

    def has(self, operator: Operator, position: int) -> bool:
        """Returns True if the operator has that input."""
        return position < len(operator.inputs) and operator.inputs[position] != OMITTED

    def input(self, operator: Operator, position: int = 0) -> int:
        """Returns the operand of one of the operator's inputs.

        Raises:
            UnsupportedFeature: the input is omitted, or no operand can represent it.
        """
        index = operator.inputs[position] if position < len(operator.inputs) else OMITTED
        if index == OMITTED:
            raise UnsupportedFeature(f"input {position} is omitted")
        tensor = self._tensors[index]
        if tensor.may_be_quantized and tensor.blocks() is not None:
            raise UnsupportedFeature(
                f"{tensor} is quantised by blocks; only the weights of FULLY_CONNECTED and "
                "the table of "
                "EMBEDDING_LOOKUP may be"
            )
        return self._read(index)

    def blockwise_input(self, operator: Operator, position: int) -> tuple[int, int] | None:
        """Returns one of the operator's inputs that is a matrix quantised by blocks.

        None if it is not.

        Returns:
            The operand of the quantised values, of scale 1, and that of the scales, FLOAT16, (rows,
                blocks of a row).

        Raises:
            UnsupportedFeature: it is not a constant matrix of 4 or 2 bits, or its scales are not
                FLOAT16 constants.
            BadData: blocks, scales and matrix are inconsistent.
        """
        index = operator.inputs[position] if self.has(operator, position) else OMITTED
        blocks = None if index == OMITTED else self._tensors[index].blocks()
        if blocks is None:
            return None
        tensor = self._tensors[index]
        if not 0 <= blocks.scales < len(self._tensors):
            raise BadData(
                f"{tensor} has its scales in tensor {blocks.scales}; there are {len(self._tensors)}"
            )
        scales = self._tensors[blocks.scales]
        if tensor.type not in BLOCKWISE_TYPES or tensor.data is None or len(tensor.shape) != 2:
            raise UnsupportedFeature(
                f"{tensor} of type {tensor.type_name} and shape {list(tensor.shape)} is quantised by "
                "blocks; a "
                "constant of INT4 or INT2 and rank 2 is expected"
            )
        if scales.type != TensorType.FLOAT16 or scales.data is None:
            raise UnsupportedFeature(
                f"{tensor} has scales of type {scales.type_name}; a constant of FLOAT16 is expected"
            )
        rows, length = tensor.shape
        if length % blocks.length or math.prod(scales.shape) * blocks.length != rows * length:
            raise BadData(
                f"{tensor} of shape {list(tensor.shape)} has scales of shape {list(scales.shape)}; one for "
                "each block "
                f"of {blocks.length} is expected"
            )
        found, shape = self._read(blocks.scales), (rows, length // blocks.length)
        if scales.shape != shape:
            result = self.value_like(Operand(type=OperandType.TENSOR_FLOAT16, dimensions=shape))
            self.reshape(found, shape, result)
            found = result
        return self._read(index), found

    def output(self, operator: Operator, position: int = 0, *, typed_as: int | None = None) -> int:
        """Creates the operand of one of the operator's outputs, to be written by one operation.

        Args:
            operator: the operator.
            position: number of the output.
            typed_as: the input that determines the type of the output, regardless of the file.

        Raises:
            UnsupportedFeature: no operand can represent it.
        """
        index = operator.outputs[position]
        source = self._tensors[index]
        if typed_as is not None:
            source = replace(source, type=self._tensors[operator.inputs[typed_as]].type)
            self._tensors[index] = source
        require_moved(source, operator)
        lifetime = Lifetime.SUBGRAPH_OUTPUT if index in self._fetched else Lifetime.TEMPORARY_VARIABLE
        self._operands[index] = to_operand(source, None, lifetime)
        self._expected[index] = self._dimensions_in_file(source)
        return index

    def emit(self, operation_type: OperationType, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """See `OperationList.emit`."""
        super().emit(operation_type, inputs, outputs)
        for index in outputs:
            self._compare_shape(index)

    def _compare_shape(self, index: int) -> None:
        """Compares the shape of an operand with that of its tensor in the file, if it has one."""
        said = expected_dimensions(self._tensors[index]) if index < len(self._tensors) else None
        found = self._operands[index].dimensions
        if said is None or said == found:
            return
        if found is None or len(found) != len(said):
            self._ranks_hold = False
        elif any(said) and any(length not in (0, other) for length, other in zip(said, found, strict=True)):
            self._lengths_hold = False

    def _dimensions_in_file(self, tensor: Tensor) -> Dimensions:
        """Returns the shape of a result according to the file, unless the file was wrong before."""
        said = expected_dimensions(tensor) if self._ranks_hold else None
        return said if said is None or self._lengths_hold else (0,) * len(said)

    def intermediate(self, operator: Operator, position: int) -> tuple[float, int]:
        """Returns the scale and zero point of one of the operator's intermediates.

        Raises:
            UnsupportedFeature: it is missing, or does not have exactly one scale.
            BadData: its description in the file is invalid.
        """
        if position >= len(operator.intermediates):
            raise UnsupportedFeature(
                f"it has {len(operator.intermediates)} intermediates; {position + 1} are needed"
            )
        return self.quantization(operator.intermediates[position])

    def quantization(self, index: int) -> tuple[float, int]:
        """Returns the scale and zero point of a tensor in the file.

        Raises:
            UnsupportedFeature: it does not have exactly one scale.
            BadData: its description in the file is invalid.
        """
        tensor = self._tensors[index]
        quantization = tensor.quantization()
        if quantization is None or len(quantization.scales) != 1:
            raise UnsupportedFeature(f"{tensor} does not have exactly one scale")
        return quantization.scales[0], quantization.zero_points[0]

    def limits(self, operator: Operator, position: int = 0) -> tuple[int, int] | None:
        """Returns the range of an operator's output type that has fewer than 8 bits."""
        return narrow_limits(self._tensors[operator.outputs[position]])

    def is_whole(self, operator: Operator) -> bool:
        """Returns True if the operator's output has plain integers: at most 16 bits, no scale."""
        tensor = self._tensors[operator.outputs[0]]
        return tensor.type in _SHORT_INTEGERS and tensor.quantization() is None

    def is_whole16(self, operator: Operator) -> bool:
        """Returns True if the operator's output is INT16 without a scale: plain integers."""
        return self.is_whole(operator) and self._tensors[operator.outputs[0]].type == TensorType.INT16

    def shape_in_file(self, operator: Operator, position: int = 0) -> tuple[int, ...]:
        """Returns an operator's output shape as stated in the file."""
        return self._tensors[operator.outputs[position]].shape

    def shapes_hold(self, operator: Operator) -> bool:
        """Returns True if an operator's inputs have exactly the shapes that the file states.

        Then its outputs have them, too.
        """
        return all(
            index == OMITTED or self._operands[self._read(index)].dimensions == self._tensors[index].shape
            for index in operator.inputs
        )

    def _read(self, tensor: int) -> int:
        """Returns the operand of a tensor with a value.

        Constants, and results of failed operators, get one now.
        """
        source = self._tensors[tensor]
        if tensor in self._aliases:
            return self._aliases[tensor]
        if source.is_variable and tensor not in self._written:
            return self.variable(tensor_key(self._index, tensor))
        if self._operands[tensor] is _ABSENT:
            operand = to_operand(source, expected_dimensions(source), Lifetime.TEMPORARY_VARIABLE)
            if is_packed(source, operand.type):
                operand = self.importer.unpacked(source, operand)
            if tensor not in self._written and has_no_elements(source):
                # No strings have bytes in the file, too.
                operand = replace(
                    operand, dimensions=source.shape, lifetime=Lifetime.CONSTANT_COPY, location=None
                )
            self._operands[tensor] = operand
        return tensor

    # Variables.

    def handle(self, operator: Operator) -> VariableKey:
        """Returns the variable that the operator's first input refers to.

        Raises:
            UnsupportedFeature: the input is not a handle.
        """
        key = self.handles.get(operator.inputs[0]) if self.has(operator, 0) else None
        if key is None:
            raise UnsupportedFeature("input 0 is not a handle that an operator has created")
        return key

    def variable(self, key: VariableKey) -> int:
        """Returns the operand with the current value of a variable.

        Raises:
            UnsupportedFeature: it has no value yet.
        """
        if key not in self._variables:
            constant = self.importer.constant_variable(key)
            if constant is None:
                raise UnsupportedFeature(f"{shown_key(key)} is read before anything gives it a value")
            self._variables[key] = self._add(constant)
        return self._variables[key]

    def set_variable(self, key: VariableKey, index: int) -> None:
        """Makes an operand the value of a variable.

        Its bytes are reinterpreted if the types differ.
        """
        self._variables[key] = self._reinterpreted(index, self.importer.variable_type(key))

    def _reinterpreted(self, index: int, like: Operand) -> int:
        """Returns the operand, reinterpreted if necessary as stored in `like`."""
        operand = self._operands[index]
        if encoding_of(operand) == encoding_of(like):
            return index
        if operand.type is not like.type:
            raise UnsupportedFeature(f"a variable of type {like.type.name} is given {operand.type.name}")
        result = self._add(replace(like, dimensions=None, lifetime=Lifetime.TEMPORARY_VARIABLE))
        self._expected[result] = operand.dimensions
        self.emit(OperationType.TFLITE_BITCAST, (index,), (result,))
        return result

    def read_variable(self, operator: Operator, key: VariableKey) -> None:
        """Makes the operator's output the current value of a variable."""
        tensor = self._tensors[operator.outputs[0]]
        like = to_operand(tensor, None, Lifetime.TEMPORARY_VARIABLE)
        self._aliases[tensor.index] = self._reinterpreted(self.variable(key), like)

    def next_state(self, operator: Operator, position: int) -> int:
        """Creates the operand for the new value of a variable that the operator reads.

        Raises:
            UnsupportedFeature: that input is not a variable.
        """
        if not self.has(operator, position) or not self._tensors[operator.inputs[position]].is_variable:
            raise UnsupportedFeature(f"input {position} is not a variable")
        result = self.temporary(self.input(operator, position))
        self.keep_state(operator, position, result)
        return result

    def keep_state(self, operator: Operator, position: int, result: int) -> None:
        """Makes an operand the new value of the variable that is an input of the operator.

        Ignored for an input that is fed, or that another operator writes.
        """
        tensor = operator.inputs[position]
        if self._tensors[tensor].is_variable and tensor not in self._written:
            self._variables[tensor_key(self._index, tensor)] = result

    # Results.

    def alias(self, operator: Operator, index: int) -> None:
        """Makes the operator's output another name of an operand."""
        self._aliases[operator.outputs[0]] = index

    def finish(self, leaving: Sequence[VariableKey] = ()) -> Subgraph:
        """Builds the graph from the operations emitted by the rules.

        Args:
            leaving: variables whose values are additional outputs.

        Raises:
            BadData: an output is never written.
            UnsupportedFeature: an output that is an input, a constant or another output cannot be
                copied.
        """
        outputs: list[int] = []
        for position, tensor in enumerate(self._outputs):
            if not self._has_value(tensor):
                raise BadData(f"output {position}, {self._tensors[tensor]}, is never written")
            outputs.append(self._output(self._read(tensor), outputs))
        for key in leaving:
            outputs.append(self._output(self.variable(key), outputs))
        self.importer.record_acceptance(is_accepted=self.is_accepted)
        inputs = (*self._inputs, *self._variable_inputs)
        used = {*inputs, *outputs}
        for operation in self._operations:
            used.update(operation.inputs, operation.outputs)
        renumbered = {old: new for new, old in enumerate(sorted(used))}
        return Subgraph(
            operands=tuple(self._operands[index] for index in renumbered),
            operations=tuple(
                Operation(
                    type=operation.type,
                    inputs=tuple([renumbered[index] for index in operation.inputs]),
                    outputs=tuple([renumbered[index] for index in operation.outputs]),
                )
                for operation in self._operations
            ),
            inputs=tuple(renumbered[index] for index in inputs),
            outputs=tuple(renumbered[index] for index in outputs),
        )

    def _output(self, index: int, others: Sequence[int]) -> int:
        """Returns the operand as an output of the graph, or a copy if it cannot be one."""
        operand = self._operands[index]
        writable = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)
        if index in others or operand.lifetime not in writable:
            return self._copy(index)
        self._operands[index] = replace(operand, lifetime=Lifetime.SUBGRAPH_OUTPUT)
        return index

    def _copy(self, index: int) -> int:
        """Copies an operand that cannot be an output itself."""
        operand = self._operands[index]
        target = operand.dimensions
        result = self._add(
            replace(
                operand,
                dimensions=None,
                lifetime=Lifetime.SUBGRAPH_OUTPUT,
                location=None,
                value=b"",
            )
        )
        self._expected[result] = target
        if target is None:
            lengths = self.value_like(Operand(type=OperandType.TENSOR_INT32, dimensions=(0,)))
            self.emit(OperationType.TFLITE_SHAPE, (index,), (lengths,))
            self.emit(OperationType.TFLITE_RESHAPE, (index, lengths), (result,))
        elif operand.lifetime.is_constant or target.count(0) <= 1:
            whole = target if operand.lifetime.is_constant else [length or -1 for length in target]
            self.reshape(index, whole, result)
        else:
            start, rest = self.vector([0] * len(target)), self.vector([-1] * len(target))
            self.emit(OperationType.SLICE, (index, start, rest), (result,))
        return result


def is_absent(operand: Operand) -> bool:
    """Returns True if an operand stands for a tensor that nothing has read or written yet."""
    return operand is _ABSENT
