"""Binds each input and output of a model to memory for one execution."""

import math
from collections.abc import Mapping

from msgspec import Struct

from neurald.hal.api_arguments import dimensions as check_dimensions
from neurald.hal.api_arguments import instance, integer, integers, shown
from neurald.hal.buffers.tracked_buffer import Role, TrackedBuffer
from neurald.hal.errors import BadData, BadState, UnexpectedNull, WrongType
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.memory.string_memory import StringMemory
from neurald.hal.model.elements import as_elements
from neurald.hal.model.graph import Operand
from neurald.hal.model.masked_elements import require_unmasked
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.strings import as_strings, encode_strings
from neurald.hal.model.types import Dimensions, OperandType, value_size
from neurald.hal.records import replace
from neurald.hal.validation.request_rules import merge_dimensions, validate_argument
from neurald.hal.wording import counted
from neurald.runtime.execution.binding.arrays import input_label, output_label
from neurald.runtime.execution.binding.device_memory import DeviceMemory
from neurald.runtime.execution.binding.string_output import StringOutput


class _BoundArgument(Struct, frozen=True):
    """An argument and its memory, which is None for an omitted input."""

    argument: Argument
    memory: Memory | None


class ExecutionArguments:
    """Binds the inputs and outputs of a model, each once. Not thread-safe.

    Args:
        model: the model whose visible inputs and outputs are bound.
        owner: the compilation that the roles of device memory refer to.
    """

    def __init__(self, model: Model, owner: object = None) -> None:
        self._owner = owner
        self._model = model
        self._has_padding = False
        self._input_operands = list(model.input_operands)
        self._output_operands = list(model.output_operands)
        self._inputs: dict[int, _BoundArgument] = {}
        self._outputs: dict[int, _BoundArgument] = {}
        self._string_outputs: dict[int, StringOutput] = {}

    @property
    def output_operands(self) -> list[Operand]:
        """The operands of the model's visible outputs, in order."""
        return self._output_operands

    @property
    def string_outputs(self) -> Mapping[int, StringOutput]:
        """The outputs that are arrays of strings, by index."""
        return self._string_outputs

    def enable_padding(self, enable: bool) -> None:
        """Allows memory to be larger than its data.

        See `Execution.enable_input_and_output_padding`.

        Raises:
            BadState: an input or output is already bound.
        """
        if self._inputs or self._outputs:
            raise BadState("padding must be enabled before any input or output is bound")
        self._has_padding = enable

    def set_input(self, index: int, array: Array | None, dimensions: Dimensions = None) -> None:
        """Binds an array as an input; see `Execution.set_input`.

        Raises:
            BadData: there is no such input, or the array is not C-contiguous or has another type or
                shape than the model's.
            BadState: the input is already bound.
        """
        operand = self._unbound_operand(self._inputs, self._input_operands, index, "input")
        what = self._label(index, is_output=False)
        if array is None:
            self._inputs[index] = _BoundArgument(Argument(), None)
            return
        memory = _array_memory(array, operand, what)
        shape = array.shape if operand.type.is_tensor else ()
        if dimensions is not None:
            shape = integers(dimensions, f"{what}: the shape")
        argument = self._padded(operand, Argument(pool=0, length=memory.size, dimensions=shape), what)
        validate_argument(argument, operand, (memory,), what, is_output=False)
        self._inputs[index] = _BoundArgument(argument, memory)

    def set_output(self, index: int, array: Array, dimensions: Dimensions = None) -> None:
        """Binds an array as an output; see `Execution.set_output`.

        Raises:
            BadData: there is no such output, or the array is read-only, not C-contiguous, or of
                another type or size than the model's.
            BadState: the output is already bound.
            UnexpectedNull: `array` is None.
        """
        operand = self._unbound_operand(self._outputs, self._output_operands, index, "output")
        if array is None:
            raise UnexpectedNull(
                f"{self._label(index, is_output=True)}: the array is None; an array for the result is expected"
            )
        what = self._label(index, is_output=True)
        dimensions = check_dimensions(dimensions, f"{what}: the shape")
        if operand.type is OperandType.TENSOR_STRING:
            self._bind_strings(index, operand, array, what)
            return
        memory = _array_memory(array, operand, what)
        self._bind_output(index, operand, memory, Argument(pool=0, length=memory.size, dimensions=dimensions))

    def set_input_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, dimensions: Dimensions = None
    ) -> None:
        """Binds bytes of a memory as an input; see `Execution.set_input_from_memory`.

        Raises:
            BadData: there is no such input, the range is outside the memory, or its length is not
                the input's size.
            BadState: the input is already bound.
            UnexpectedNull: `memory` is None.
        """
        operand = self._unbound_operand(self._inputs, self._input_operands, index, "input")
        what = self._label(index, is_output=False)
        offset, length, dimensions = _checked_range(memory, offset, length, dimensions, what)
        if isinstance(memory, DeviceMemory):
            role = Role(owner=self._owner, index=index, is_output=False)
            self._inputs[index] = _BoundArgument(
                memory.argument(role, operand, offset, length, dimensions), memory
            )
            return
        argument = Argument(pool=0, offset=offset, length=length, dimensions=dimensions)
        argument = self._padded(operand, argument, what)
        validate_argument(argument, operand, (memory,), what, is_output=False)
        self._inputs[index] = _BoundArgument(argument, memory)

    def set_output_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, dimensions: Dimensions = None
    ) -> None:
        """Binds bytes of a memory as an output; see `set_input_from_memory`."""
        operand = self._unbound_operand(self._outputs, self._output_operands, index, "output")
        what = self._label(index, is_output=True)
        offset, length, dimensions = _checked_range(memory, offset, length, dimensions, what)
        if isinstance(memory, DeviceMemory):
            role = Role(owner=self._owner, index=index, is_output=True)
            self._outputs[index] = _BoundArgument(
                memory.argument(role, operand, offset, length, dimensions), memory
            )
            return
        argument = Argument(pool=0, offset=offset, length=length, dimensions=dimensions)
        self._bind_output(index, operand, memory, argument)

    def _bind_strings(self, index: int, operand: Operand, array: Array, what: str) -> None:
        _check_array(array, operand, what)
        if not array.flags.writeable:
            raise BadData(f"{what}: its memory is read-only; an output needs memory that can be written")
        if operand.is_fully_specified and array.size != math.prod(operand.dimensions or ()):
            raise BadData(
                f"{what}: an array of {array.size} strings; {list(operand.dimensions or ())} is expected"
            )
        output = StringOutput(array)
        self._bind_output(index, operand, output.memory, Argument(pool=0, length=output.memory.size))
        self._string_outputs[index] = output

    def _padded(self, operand: Operand, argument: Argument, what: str) -> Argument:
        """Declares the excess length of the argument's memory as padding, if padding is enabled."""
        if not self._has_padding:
            return argument
        size = value_size(operand.type, merge_dimensions(operand.dimensions, argument.dimensions, what))
        if size is None or argument.length <= size:
            return argument
        return replace(argument, length=size, padding=argument.length - size)

    def _bind_output(self, index: int, operand: Operand, memory: Memory, argument: Argument) -> None:
        what = self._label(index, is_output=True)
        argument = self._padded(operand, argument, what)
        validate_argument(argument, operand, (memory,), what, is_output=True)
        self._outputs[index] = _BoundArgument(argument, memory)

    def _unbound_operand(
        self, bound: dict[int, _BoundArgument], operands: list[Operand], index: int, what: str
    ) -> Operand:
        """Returns the operand of an unbound input or output; raises BadData or BadState."""
        if not 0 <= integer(index, f"the index of the {what}") < len(operands):
            raise BadData(f"there is no {what} {index}; the model has {counted(len(operands), what)}")
        if index in bound:
            raise BadState(f"{what} {index} is already bound; an execution binds each input and output once")
        return operands[index]

    def request(self) -> Request:
        """Builds the request of the execution. Arguments in the same memory share a pool.

        Raises:
            BadData: an input or output is not bound, or an output overlaps an input or another
                output. An overlap is not allowed, because devices write outputs in any order and a
                fallback device reads the inputs again.
        """
        for slots, operands, is_output in (
            (self._inputs, self._input_operands, False),
            (self._outputs, self._output_operands, True),
        ):
            missing = [
                self._label(each, is_output=is_output) for each in range(len(operands)) if each not in slots
            ]
            if missing:
                what = "output" if is_output else "input"
                raise BadData(
                    f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not bound; call set_{what} or "
                    f"set_{what}_from_memory"
                )
        self._require_disjoint_outputs()
        pools: dict[int, tuple[int, Memory]] = {}

        def placed(bound: _BoundArgument) -> Argument:
            if bound.memory is None:
                return bound.argument
            pool, _ = pools.setdefault(id(bound.memory), (len(pools), bound.memory))
            argument = bound.argument
            return argument if argument.pool == pool else replace(argument, pool=pool)

        return Request(
            inputs=tuple(placed(self._inputs[n]) for n in range(len(self._inputs))),
            outputs=tuple(placed(self._outputs[n]) for n in range(len(self._outputs))),
            pools=tuple(memory for _, memory in pools.values()),
        )

    def _require_disjoint_outputs(self) -> None:
        ranges = sorted(
            (*address_range, is_output, index)
            for is_output, slots in ((False, self._inputs), (True, self._outputs))
            for index, bound in slots.items()
            if (address_range := _address_range(bound)) is not None
        )
        # The range with the largest end so far.
        last_end, last_is_output, last = 0, False, 0
        for start, end, is_output, index in ranges:
            if start < last_end and (is_output or last_is_output):
                what, other = (
                    self._label(each, is_output=which)
                    for each, which in ((index, is_output), (last, last_is_output))
                )
                raise BadData(f"{what} overlaps {other}; outputs need memory of their own")
            if end > last_end:
                last_end, last_is_output, last = end, is_output, index

    def _label(self, index: int, *, is_output: bool) -> str:
        return (output_label if is_output else input_label)(self._model, index)

    def rebind_string_outputs(self) -> None:
        """Binds the buffers of the string outputs again after they were replaced by larger ones."""
        for index, output in self._string_outputs.items():
            self._outputs[index] = _BoundArgument(Argument(pool=0, length=output.memory.size), output.memory)

    def require_bounded_outputs(self) -> None:
        """Raises BadData unless the memory of every output has its final size already.

        That is the maximum for an output of open dimensions. Strings may need larger memory.
        """
        for index in self._outputs:
            if self._output_operands[index].type is OperandType.TENSOR_STRING:
                raise BadData(
                    f"{self._label(index, is_output=True)}: it has strings, whose size is not known; a fenced execution needs "
                    "the maximum size of every output"
                )


def _address_range(bound: _BoundArgument) -> tuple[int, int] | None:
    """Returns the start and end address of an argument; None if it is not in this process."""
    argument = bound.argument
    if bound.memory is None or isinstance(bound.memory, TrackedBuffer) or not argument.length:
        return None
    start = bound.memory.address + argument.offset
    return start, start + argument.length


def _checked_range(
    memory: Memory, offset: int, length: int, dimensions: Dimensions, what: str
) -> tuple[int, int, Dimensions]:
    """Checks the types of a memory, an offset, a length and a shape.

    Raises:
        BadData: one of them is wrong.
        UnexpectedNull: there is no memory.
    """
    if memory is None:
        raise UnexpectedNull(f"{what}: the memory is None; a Memory is expected")
    instance(memory, Memory, f"{what}: the memory")
    return (
        integer(offset, f"{what}: the offset"),
        integer(length, f"{what}: the length"),
        check_dimensions(dimensions, f"{what}: the shape"),
    )


def _array_memory(array: Array, operand: Operand, what: str) -> HostMemory:
    if isinstance(array, np.ndarray) and type(array) is not np.ndarray:
        require_unmasked(array, what)
    if operand.type is OperandType.TENSOR_STRING and isinstance(array, np.ndarray):
        strings = as_strings(array, what)
        return StringMemory(encode_strings(strings), strings)
    array = as_elements(array, operand.type)
    _check_array(array, operand, what)
    return HostMemory(array)


def _check_array(array: Array, operand: Operand, what: str) -> None:
    """Raises BadData unless the array has the operand's type and is C-contiguous."""
    if not isinstance(array, np.ndarray):
        raise WrongType(f"{what} is {shown(array)}, not a NumPy array; bind numpy.asarray(value)")
    if array.dtype != operand.type.dtype:
        raise BadData(
            f"{what} is an array of {array.dtype}; {operand.type.name} needs an array of {operand.type.dtype}, "
            "which its method astype makes"
        )
    if not array.flags.c_contiguous:
        raise BadData(f"{what}: the array is not C-contiguous; bind a copy: numpy.ascontiguousarray(array)")
