"""Keeps the inputs of an execution, which its outputs may overwrite, to repeat it elsewhere."""

from collections.abc import Sequence
from typing import Any, Self, TypeAlias

from msgspec import Struct

from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape, PreparedModel
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import byte_size, value_size
from neurald.hal.records import replace
from neurald.hal.validation.request_rules import merge_dimensions

#: The bytes of each input of a request; None for one that is left out.
Copies: TypeAlias = list[bytes | bytearray | None]

#: How often outputs of unknown sizes are given larger memory.
_MAX_GROWTHS = 8
#: The size of the first buffer for an output of unknown size.
_UNKNOWN_BYTES = 1 << 16


class CapturedRun(Struct, frozen=True, kw_only=True):
    """The inputs of an execution, in memory of their own.

    Attributes:
        model: the model that was executed.
        inputs, pools: as of a request.
    """

    model: Model
    inputs: tuple[Argument, ...]
    pools: tuple[Memory, ...]

    @classmethod
    def of(cls, model: Model, arguments: Sequence[Argument], copies: "Copies") -> Self:
        """Makes a run of the inputs of a request.

        Args:
            model: the model that was executed.
            arguments: the inputs of the request.
            copies: see `copied_inputs`.
        """
        pools = tuple(HostMemory(each) for each in copies if each is not None)
        numbers = iter(range(len(pools)))
        inputs = tuple(
            argument
            if each is None
            else Argument(pool=next(numbers), length=len(each), dimensions=argument.dimensions)
            for argument, each in zip(arguments, copies, strict=True)
        )
        return cls(model=model, inputs=inputs, pools=pools)

    @classmethod
    def on_arrays(cls, model: Model, arrays: Sequence[Array | None]) -> "CapturedRun":
        """Makes a run of a model on arrays; None omits an input."""
        given = [array for array in arrays if array is not None]
        numbers = iter(range(len(given)))
        inputs = tuple(
            Argument()
            if array is None
            else Argument(pool=next(numbers), length=array.nbytes, dimensions=array.shape or None)
            for array in arrays
        )
        return cls(model=model, inputs=inputs, pools=tuple(HostMemory(array) for array in given))

    def input_arrays(self) -> list[Array | None]:
        """Returns the inputs as arrays."""
        graph = self.model.main
        return [
            None
            if argument.pool is None
            else array_of(
                self.pools[argument.pool],
                graph.operands[index].type.dtype,
                argument.dimensions if argument.dimensions is not None else graph.operands[index].dimensions,
            )
            for index, argument in zip(graph.inputs, self.inputs, strict=True)
        ]

    def execute(
        self,
        prepared: PreparedModel,
        options: ExecuteOptions,
        outputs: Sequence[tuple[int, Argument]] | None = None,
    ) -> tuple[ExecutionResult, list[HostMemory]]:
        """Executes a prepared model on the inputs.

        Args:
            prepared: the prepared form of the model.
            options: the options for the execution.
            outputs: size and argument of each output; None for what they need.

        Returns:
            The result, and the memory of each output.

        Raises:
            Error: the execution failed.
        """
        wanted = list(outputs or self._unknown_outputs())
        for _ in range(_MAX_GROWTHS):
            memories = [HostMemory(bytearray(size)) for size, _ in wanted]
            arguments = [
                Argument(pool=len(self.pools) + number, length=size, dimensions=argument.dimensions)
                for number, (size, argument) in enumerate(wanted)
            ]
            request = Request(inputs=self.inputs, outputs=tuple(arguments), pools=(*self.pools, *memories))
            result = prepared.execute(request, options)
            if result.is_sufficient or outputs is not None:
                break
            types = [self.model.main.operands[index].type for index in self.model.main.outputs]
            wanted = [
                (max(size, shape.size_bytes(kind) or 4 * size), argument)
                for (size, argument), shape, kind in zip(wanted, result.output_shapes, types, strict=True)
            ]
        return result, memories

    def _unknown_outputs(self) -> list[tuple[int, Argument]]:
        operands = [self.model.main.operands[index] for index in self.model.main.outputs]
        sizes = [value_size(each.type, each.dimensions) for each in operands]
        return [(_UNKNOWN_BYTES if size is None else size, Argument()) for size in sizes]

    def output_arrays(self, result: ExecutionResult, memories: Sequence[Memory]) -> list[Array]:
        """Returns the outputs of a sufficient result as arrays."""
        return [
            array_of(memory, self.model.main.operands[index].type.dtype, shape.dimensions)
            for index, shape, memory in zip(
                self.model.main.outputs, result.output_shapes, memories, strict=True
            )
        ]


def copied_inputs(model: Model, request: Request) -> Copies | None:
    """Returns copies of the inputs of a request; None if the size of one on a device is unknown.

    Raises:
        Error: a device failed.
    """
    copies: Copies = []
    pools = request.pools
    for index, argument in zip(model.main.inputs, request.inputs, strict=True):
        if argument.pool is None:
            copies.append(None)
            continue
        source = pools[argument.pool]
        if not isinstance(source, DeviceBuffer):
            copies.append(bytes(source.view(argument.offset, argument.length)))
            continue
        operand = model.main.operands[index]
        size = value_size(operand.type, merge_dimensions(operand.dimensions, argument.dimensions, "an input"))
        if size is None:
            return None
        copies.append(bytearray(size))
        source.read(HostMemory(copies[-1]))
    return copies


def outputs_of(model: Model, request: Request, result: ExecutionResult) -> list[Memory]:
    """Returns copies of the outputs of a sufficient result; see `CapturedRun.output_arrays`.

    Raises:
        Error: a device failed.
    """
    found: list[Memory] = []
    for index, argument, shape in zip(model.main.outputs, request.outputs, result.output_shapes, strict=True):
        size = byte_size(model.main.operands[index].type, shape.dimensions or ())
        target = request.pools[argument.pool or 0]
        if isinstance(target, DeviceBuffer):
            memory = HostMemory(bytearray(size))
            target.read(memory)
        else:
            memory = HostMemory(bytes(target.view(argument.offset, size)))
        found.append(memory)
    return found


def output_space(model: Model, request: Request, shapes: Sequence[OutputShape]) -> list[tuple[int, Argument]]:
    """Returns how much space each output of a request has, with its argument."""
    return [
        (
            byte_size(model.main.operands[index].type, shape.dimensions or ())
            if isinstance(request.pools[argument.pool or 0], DeviceBuffer)
            else argument.length,
            argument,
        )
        for index, argument, shape in zip(model.main.outputs, request.outputs, shapes, strict=True)
    ]


def write_outputs(request: Request, result: ExecutionResult, arrays: Sequence[Array]) -> ExecutionResult:
    """Replaces the outputs of an execution; returns its result, without durations.

    Raises:
        Error: a device failed.
    """
    for argument, array in zip(request.outputs, arrays, strict=True):
        target = request.pools[argument.pool or 0]
        if isinstance(target, DeviceBuffer):
            target.write(HostMemory(array), array.shape)
        elif array.nbytes:
            target.view(argument.offset, array.nbytes)[:] = array.reshape(-1).view(np.uint8).data
    return replace(result, timing=type(result.timing)())


def array_of(memory: Memory, dtype: "np.dtype[Any]", dimensions: Sequence[int] | None) -> Array:
    """Returns the first elements of a memory as an array of these dimensions."""
    shape = tuple(dimensions or ())
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.empty(shape, dtype)
    return np.frombuffer(memory.view(), dtype, count).reshape(shape)
