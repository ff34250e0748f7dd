"""ModelBuilder: builds a model with the sequence of calls that Android NN defines.

Operands and operations may be added in any order; `finish` sorts the operations. A call that fails
changes nothing and can be repeated with other arguments. There is one exception, as in Android: a
graph that cannot be sorted (a cycle, or an operand that is never written or written twice) makes
the builder unusable. After `finish` has succeeded, every further call raises BadState.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np

from neurald.hal.api_arguments import (
    flag,
    instance,
    integer,
    integers,
    member,
    shown,
)
from neurald.hal.device import Device
from neurald.hal.errors import BadData, BadState, UnexpectedNull, WrongType
from neurald.hal.memory.pool import Memory, checked_range
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.extension import Extension, check_extension_name, extension_of
from neurald.hal.model.graph import Location, Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations.vendor import definition_of
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import validate_model
from neurald.hal.validation.operand_rules import validate_operand_type
from neurald.hal.wording import counted
from neurald.runtime.devices.discovery import devices
from neurald.runtime.devices.extensions import find_extension
from neurald.runtime.model.assembly import pooled_constants, referenced_graphs
from neurald.runtime.model.defaults import without_defaults
from neurald.runtime.model.finished import finished_model
from neurald.runtime.model.given_values import constant_size, given_channel_quant, given_scale, stored_value
from neurald.runtime.model.topological_order import execution_order

#: Maximum size of constants that are copied immediately. Larger ones are copied by `finish`.
MAX_IMMEDIATELY_COPIED_BYTES = 128


class ModelBuilder:
    """Builds one model. Not thread-safe.

    Args:
        devices: devices whose vendor extensions the model may use; None for all devices that
            `neurald.devices()` lists when an extension is used.
    """

    def __init__(self, devices: Sequence[Device] | None = None) -> None:
        self._devices = devices
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._inputs: tuple[int, ...] = ()
        self._outputs: tuple[int, ...] = ()
        self._relaxed = False
        self._large: dict[int, np.ndarray[Any, Any]] = {}
        self._referenced: dict[int, Model] = {}
        self._memories: list[Memory] = []
        self._state = "open"

    def __repr__(self) -> str:
        operands, operations = (
            counted(len(self._operands), "operand"),
            counted(len(self._operations), "operation"),
        )
        return f"<ModelBuilder of {operands} and {operations}, {self._state}>"

    def __copy__(self) -> "ModelBuilder":
        # Both are built on, so that they share no lists.
        copied = ModelBuilder(self._devices)
        vars(copied).update({name: copy(value) for name, value in vars(self).items()})
        return copied

    def add_operand(
        self,
        operand_type: OperandType,
        dimensions: Iterable[int] = (),
        *,
        scale: float = 0.0,
        zero_point: int = 0,
        channel_quant: tuple[int, Sequence[float]] | None = None,
        name: str = "",
    ) -> int:
        """Adds an operand and returns its index.

        Args:
            operand_type: the type.
            dimensions: the shape; 0 for an unknown dimension, empty for a tensor of unknown rank.
            scale, zero_point: real value = (quantised value - zero_point) * scale.
            channel_quant: the quant for TENSOR_QUANT8_SYMM_PER_CHANNEL, the channel dimension and
                the scale of each channel.
            name: name of an input or output, for `.npz` files and messages.

        Raises:
            BadData: type, dimensions, scale and zero point do not match.
            BadState: the model is finished.
        """
        self._require_open()
        index = len(self._operands)
        operand_type = member(operand_type, OperandType, "the operand type")
        shape = integers(dimensions, f"operand {index}: the shape")
        operand = Operand(
            type=operand_type,
            dimensions=None if operand_type.is_tensor and not shape else shape,
            scale=given_scale(scale, f"operand {index}: the scale"),
            zero_point=integer(zero_point, f"operand {index}: the zero point"),
            channel_quant=None
            if channel_quant is None
            else given_channel_quant(channel_quant, f"operand {index}: channel_quant"),
            name=instance(name, str, f"operand {index}: the name"),
        )
        validate_operand_type(operand, f"operand {index}")
        self._operands.append(operand)
        return index

    def extension_operand_type(self, extension: str, code: int) -> OperandType:
        """Returns the operand type of a vendor's extension by its code, for `add_operand`.

        Raises:
            BadData: no device lists the extension, two devices declare it differently, or it has no
                such type.
        """
        return self._extension(extension).operand_type(integer(code, "the code"))

    def extension_operation_type(self, extension: str, code: int) -> OperationType:
        """Returns an operation of a vendor's extension by its code, for `add_operation`.

        Raises:
            BadData: no device lists the extension, two devices declare it differently, or it has no
                such operation.
        """
        return self._extension(extension).operation_type(integer(code, "the code"))

    def _extension(self, name: str) -> Extension:
        check_extension_name(name)
        return find_extension(name, devices() if self._devices is None else self._devices)

    def set_operand_extension_data(self, index: int, data: bytes | None) -> None:
        """Attaches the vendor's type parameters to an operand of an extension type.

        Args:
            index: the index of the operand.
            data: the parameters; None removes them.

        Raises:
            BadData: there is no such operand, it has no extension type, or the data is too long.
            BadState: the model is finished.
        """
        self._require_open()
        (checked,) = self._indexes((index,), "extension data")
        if data is not None and not isinstance(data, bytes | bytearray | memoryview):
            raise WrongType(f"operand {index}: its extension data is {shown(data)}; bytes are expected")
        operand = replace(self._operands[checked], extension_data=bytes(data or b""))
        if extension_of(operand.type) is None:
            raise BadData(
                f"operand {index}: {operand.type.name} takes no extension data; only types of vendor "
                "extensions do"
            )
        validate_operand_type(operand, f"operand {index}")
        self._operands[checked] = operand

    def set_operand_value(self, index: int, value: Any) -> None:
        """Makes an operand a constant, or an omitted optional argument if `value` is None.

        Args:
            index: the index of the operand.
            value: an array of the operand's element type and size, a number, nested lists of
                numbers, or None. A value of at most 128 bytes is copied now; a larger array must
                stay unchanged until `finish` returns.

        Raises:
            BadData: there is no such operand, it is not fully specified, it is an input or output,
                or the value has the wrong type or size.
            BadState: the model is finished.
        """
        self._require_open()
        index = integer(index, "the operand index")
        operand = self._constant_operand(index)
        if value is None:
            self._put(index, replace(operand, lifetime=Lifetime.NO_VALUE, value=b"", location=None))
            return
        array = stored_value(value, operand, f"operand {index}")
        if array.nbytes <= MAX_IMMEDIATELY_COPIED_BYTES:
            new = replace(operand, lifetime=Lifetime.CONSTANT_COPY, value=array.tobytes(), location=None)
            self._put(index, new)
        else:
            self._put(
                index,
                replace(operand, lifetime=Lifetime.CONSTANT_COPY, value=b"", location=None),
            )
            self._large[index] = array

    def set_operand_value_from_memory(self, index: int, memory: Memory, offset: int, length: int) -> None:
        """Makes an operand a constant whose bytes are in `memory`. The bytes are never copied.

        Args:
            index: the index of the operand.
            memory: holds the bytes.
            offset, length: the range of the bytes.

        Raises:
            BadData: there is no such operand, the range is outside the memory, or its length is not
                the operand's size.
            BadState: the model is finished.
            UnexpectedNull: `memory` is None.
        """
        self._require_open()
        if memory is None:
            raise UnexpectedNull("memory is None; a Memory is expected")
        instance(memory, Memory, "the memory")
        offset, length = integer(offset, "the offset"), integer(length, "the length")
        index = integer(index, "the operand index")
        operand = self._constant_operand(index)
        if isinstance(memory, DeviceBuffer):
            raise BadData(
                f"operand {index}: a constant cannot be in device memory; use host or shared memory"
            )
        checked_range(offset, length, memory.size, f"operand {index}")
        expected = constant_size(operand, f"operand {index}")
        if length != expected:
            raise BadData(f"operand {index}: the value has {length} bytes; {expected} are expected")
        known = [pool is memory for pool in self._memories]
        pool = known.index(True) if True in known else len(self._memories)
        if pool == len(self._memories):
            self._memories.append(memory)
        location = Location(pool=pool, offset=offset, length=length)
        new = replace(operand, lifetime=Lifetime.CONSTANT_POOL, value=b"", location=location)
        self._put(index, new)

    def set_operand_value_from_model(self, index: int, model: Model) -> None:
        """Makes an operand of type MODEL refer to a finished model, for IF and WHILE.

        Args:
            index: the index of an operand of type MODEL.
            model: a finished model, the branch or body of the operation.

        Raises:
            BadData: there is no such operand, or it is not of type MODEL.
            BadState: this model is finished, or the other one is not.
            UnexpectedNull: `model` is None.
        """
        self._require_open()
        model = finished_model(model)
        index = integer(index, "the operand index")
        operand = self._constant_operand(index)
        if operand.type is not OperandType.MODEL:
            raise BadData(f"operand {index} has type {operand.type.name}; MODEL is expected")
        self._put(index, replace(operand, lifetime=Lifetime.SUBGRAPH))
        self._referenced[index] = model

    def add_operation(
        self, operation_type: OperationType, inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        """Adds an operation that reads and writes the operands with those indexes.

        Args:
            operation_type: what the operation does.
            inputs, outputs: indexes of its operands, in the order of its signature.

        Raises:
            BadData: the operation or an operand is unknown, or the operands do not match the
                operation's signature.
            BadState: the model is finished.
        """
        self._require_open()
        operation_type = member(operation_type, OperationType, "the operation type")
        definition = definition_of(operation_type)
        if definition is None:
            raise BadData(
                f"operation {operation_type.name} is not implemented; docs/operations.md lists the operations"
            )
        operation = Operation(
            type=operation_type,
            inputs=self._indexes(inputs, operation_type.name),
            outputs=self._indexes(outputs, operation_type.name),
        )
        definition.bind(operation, self._operands, values_known=False)
        self._operations.append(operation)

    def identify_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Declares the inputs and outputs of the model, in order.

        Raises:
            BadData: an operand is unknown, a constant, listed twice, or already an input or output.
            BadState: the model is finished.
        """
        self._require_open()
        new_inputs = self._indexes(inputs, "inputs")
        new_outputs = self._indexes(outputs, "outputs")
        seen: set[int] = set()
        for index in (*new_inputs, *new_outputs):
            if index in seen:
                raise BadData(f"operand {index} is listed twice among inputs and outputs")
            seen.add(index)
            lifetime = self._operands[index].lifetime
            if lifetime is not Lifetime.TEMPORARY_VARIABLE:
                raise BadData(f"operand {index} cannot be an input or output: it is {lifetime.name}")
        for indexes, lifetime in (
            (new_inputs, Lifetime.SUBGRAPH_INPUT),
            (new_outputs, Lifetime.SUBGRAPH_OUTPUT),
        ):
            for index in indexes:
                self._operands[index] = replace(self._operands[index], lifetime=lifetime)
        self._inputs, self._outputs = new_inputs, new_outputs

    def relax_computation_float32_to_float16(self, allow: bool = True) -> None:
        """Allows float32 to be computed with the range and precision of float16.

        Args:
            allow: whether to allow it.

        Raises:
            BadState: the model is finished.
        """
        self._require_open()
        self._relaxed = flag(allow, "whether float16 is allowed")

    def finish(self) -> Model:
        """Sorts the operations, validates everything and returns the model.

        Raises:
            BadData: the model is invalid; the module says when the builder remains usable.
            BadState: the model is finished, or the builder is unusable.
        """
        self._require_open()
        if not self._operands or not self._operations:
            raise BadData("the model is empty: it has no operand or no operation")
        try:
            order = execution_order(self._operands, self._operations)
        except BadData:
            self._state = "broken"
            raise
        operations = [replace(self._operations[position], number=position) for position in order]
        model = self._assemble([without_defaults(operation, self._operands) for operation in operations])
        validate_model(model)
        self._state = "finished"
        self._large.clear()
        self._referenced.clear()
        return model

    def _assemble(self, operations: Sequence[Operation]) -> Model:
        """Builds the model: puts large constants into one pool and drops unused operands."""
        used = {i for operation in operations for i in (*operation.inputs, *operation.outputs)}
        used.update(self._inputs, self._outputs)
        kept = sorted(used)
        position_of = {index: position for position, index in enumerate(kept)}
        large = {index: array for index, array in self._large.items() if index in used}
        models = {index: model for index, model in self._referenced.items() if index in used}
        pools, locations = pooled_constants(large, self._memories)
        referenced, pools, graph_of = referenced_graphs(models, pools)
        operands = [
            replace(
                self._operands[i],
                lifetime=Lifetime.CONSTANT_POOL if i in locations else self._operands[i].lifetime,
                location=locations.get(i, self._operands[i].location),
                subgraph=graph_of.get(i),
                number=i,
            )
            for i in kept
        ]

        def moved(indexes: Iterable[int]) -> tuple[int, ...]:
            return tuple(position_of[index] for index in indexes)

        graph = Subgraph(
            operands=tuple(operands),
            operations=tuple(
                replace(operation, inputs=moved(operation.inputs), outputs=moved(operation.outputs))
                for operation in operations
            ),
            inputs=moved(self._inputs),
            outputs=moved(self._outputs),
        )
        return Model(
            main=graph,
            referenced=referenced,
            pools=pools,
            relaxed=self._relaxed,
            input_names=tuple(self._operands[i].name or f"input_{n}" for n, i in enumerate(self._inputs)),
            output_names=tuple(self._operands[i].name or f"output_{n}" for n, i in enumerate(self._outputs)),
        )

    def _require_open(self) -> None:
        if self._state == "finished":
            raise BadState("the model is finished and cannot change; build another with a new ModelBuilder")
        if self._state == "broken":
            raise BadState("the operations of the model could not be sorted; build a new model")

    def _put(self, index: int, operand: Operand) -> None:
        self._operands[index] = operand
        self._large.pop(index, None)
        self._referenced.pop(index, None)

    def _indexes(self, indexes: Sequence[int], what: str) -> tuple[int, ...]:
        if indexes is None:
            raise UnexpectedNull(f"{what}: the list of operands is None; a sequence of indexes is expected")
        result = integers(indexes, f"{what}: the list of operands")
        for index in result:
            if not 0 <= index < len(self._operands):
                raise BadData(
                    f"{what}: there is no operand {index}; the model has "
                    f"{counted(len(self._operands), 'operand')}"
                )
        return result

    def _constant_operand(self, index: int) -> Operand:
        self._indexes((index,), "value")
        operand = self._operands[index]
        if operand.lifetime in (Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT):
            raise BadData(f"operand {index} is an input or output of the model and cannot have a value")
        return operand
