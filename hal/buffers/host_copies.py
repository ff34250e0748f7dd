"""Requests on device memory, brought to the host for a device that cannot reach it."""

from dataclasses import dataclass, replace

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.types import Argument, Operand, Request, Subgraph, value_size
from neurald.hal.validation.validate import merge_dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHost:
    """A request whose values are all on the host.

    Attributes:
        original: the request as it was.
        request: the one to run instead.
    """

    original: Request
    request: Request

    def write_back(self, result: ExecutionResult) -> None:
        """Copies the outputs of a sufficient result to the device memory that they belong in.

        Raises:
            Error: a device failed.
        """
        if not result.is_sufficient:
            return
        for argument, here, shape in zip(
            self.original.outputs, self.request.outputs, result.output_shapes, strict=True
        ):
            target, source = _pool(self.original, argument), _pool(self.request, here)
            if isinstance(target, DeviceBuffer) and source is not None:
                target.write(source, shape.dimensions)


def bring_to_host(graph: Subgraph, request: Request) -> OnHost:
    """A request with copies of all inputs in device memory, and room for the outputs in it.

    Args:
        graph: that the request is for.
        request: whose arguments in device memory hold values of the dimensions that they tell.

    Raises:
        OpFailed: how large an output in device memory will be is not known.
        Error: a device failed.
    """
    pools = list(request.pools)
    inputs = list(request.inputs)
    outputs = list(request.outputs)
    for arguments, indexes in ((inputs, graph.inputs), (outputs, graph.outputs)):
        for position, (argument, index) in enumerate(zip(arguments, indexes, strict=True)):
            buffer = _pool(request, argument)
            if not isinstance(buffer, DeviceBuffer):
                continue
            size = _size(graph.operands[index], argument)
            memory = HostMemory(bytearray(size))
            if arguments is inputs:
                buffer.read(memory)
            arguments[position] = replace(argument, pool=len(pools), length=size)
            pools.append(memory)
    moved = Request(inputs=tuple(inputs), outputs=tuple(outputs), pools=tuple(pools))
    return OnHost(original=request, request=moved)


def execute_on_host(
    prepared_model: PreparedModel, graph: Subgraph, request: Request, options: ExecuteOptions
) -> ExecutionResult:
    """Executes a request on a device that reaches only the host's memory, the CPU device for example.

    Raises:
        OpFailed: how large an output in device memory will be is not known.
        Error: the execution failed, or the device that the memory is on.
    """
    if not any(isinstance(pool, DeviceBuffer) for pool in request.pools):
        return prepared_model.execute(request, options)
    here = bring_to_host(graph, request)
    result = prepared_model.execute(here.request, options)
    here.write_back(result)
    return result


def _size(operand: Operand, argument: Argument) -> int:
    dimensions = merge_dimensions(operand.dimensions, argument.dimensions, "an argument in device memory")
    size = value_size(operand.type, dimensions)
    if size is None:
        raise OpFailed("a value in device memory cannot be brought to the host: its size is not known")
    return size


def _pool(request: Request, argument: Argument) -> Memory | None:
    return None if argument.pool is None else request.pools[argument.pool]
