"""Copies arguments in device memory to the host, for a device that cannot access them."""

from msgspec import Struct

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import value_size
from neurald.hal.records import replace
from neurald.hal.validation.request_rules import merge_dimensions


class HostRequest(Struct, frozen=True, kw_only=True):
    """A request with all values on the host.

    Attributes:
        original: the original request.
        request: the one to run instead.
    """

    original: Request
    request: Request

    def write_back(self, result: ExecutionResult) -> None:
        """Copies the outputs of a sufficient result to their device memory.

        Raises:
            Error: a device failed.
        """
        if not result.is_sufficient:
            return
        for argument, host_argument, shape in zip(
            self.original.outputs, self.request.outputs, result.output_shapes, strict=True
        ):
            target, source = _pool(self.original, argument), _pool(self.request, host_argument)
            if isinstance(target, DeviceBuffer) and source is not None:
                target.write(source, shape.dimensions)


def copy_to_host(graph: Subgraph, request: Request) -> HostRequest:
    """Copies inputs in device memory to the host, and allocates host memory for such outputs.

    Args:
        graph: graph of the request.
        request: its arguments in device memory hold values of their declared dimensions.

    Raises:
        OpFailed: the size of an output in device memory is not known.
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
    return HostRequest(original=request, request=moved)


def execute_on_host(
    prepared_model: PreparedModel, graph: Subgraph, request: Request, options: ExecuteOptions
) -> ExecutionResult:
    """Executes a request on a device that can only access host memory, such as the CPU device.

    Raises:
        OpFailed: the size of an output in device memory is not known.
        Error: the execution failed, or the device that owns the memory.
    """
    if not any(isinstance(pool, DeviceBuffer) for pool in request.pools):
        return prepared_model.execute(request, options)
    host = copy_to_host(graph, request)
    result = prepared_model.execute(host.request, options)
    host.write_back(result)
    return result


def _size(operand: Operand, argument: Argument) -> int:
    dimensions = merge_dimensions(operand.dimensions, argument.dimensions, "an argument in device memory")
    size = value_size(operand.type, dimensions)
    if size is None:
        raise OpFailed("a value in device memory cannot be brought to the host: its size is not known")
    return size


def _pool(request: Request, argument: Argument) -> Memory | None:
    return None if argument.pool is None else request.pools[argument.pool]
