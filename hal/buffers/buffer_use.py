"""The device memories of one execution.

Checks them, passes them to the device, and tracks their values.
"""

import contextlib
from collections.abc import Iterator, Sequence

from neurald.hal.buffers.tracked_buffer import Role, TrackedBuffer
from neurald.hal.device import ExecutionResult, OutputShape
from neurald.hal.errors import BadData, Error, OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions, byte_size
from neurald.hal.records import replace
from neurald.hal.validation.request_rules import merge_dimensions


class BufferUse:
    """The device memories of one execution.

    Attributes:
        request: the request with the devices' own memories instead of the tracked ones.
    """

    def __init__(self, request: Request, outputs: Sequence[TrackedBuffer | None]) -> None:
        self.request = request
        self._outputs = outputs

    def wrote(self, result: ExecutionResult) -> None:
        """Records the result of the execution.

        Written memories hold values unless an output did not fit.

        Raises:
            OpFailed: a value does not fit its memory's declaration.
        """
        shapes: Sequence[OutputShape] = result.output_shapes if result.is_sufficient else ()
        for buffer, shape in zip(self._outputs, shapes, strict=False):
            if buffer is not None:
                buffer.set_value(shape.dimensions)


@contextlib.contextmanager
def buffers_in_use(
    owner: object, graph: Subgraph, request: Request, mismatch: type[Error] = BadData
) -> Iterator[BufferUse]:
    """Marks the device memories of a request as in use by an execution.

    Memories that the execution writes lose their values; `BufferUse.wrote` sets the new ones.

    Args:
        owner: the object that the memories' roles refer to.
        graph: graph of the request.
        request: a valid request.
        mismatch: error type for a value whose dimensions differ from the request's.

    Raises:
        BadData: a memory is used in a role that was not declared, for two outputs, or for an input
            and an output.
        BadState: a memory is in use elsewhere.
        OpFailed: an input holds no value.
    """
    if not any(isinstance(pool, TrackedBuffer) for pool in request.pools):
        yield BufferUse(request, ())
        return
    inputs = [_buffer(request, argument) for argument in request.inputs]
    outputs = [_buffer(request, argument) for argument in request.outputs]
    _require_roles(owner, inputs, outputs)
    with contextlib.ExitStack() as stack:
        for writing, buffers in ((False, inputs), (True, outputs)):
            for buffer in filter(None, buffers):
                buffer.acquire(writing=writing)
                stack.callback(buffer.release, writing=writing)
        pools = tuple(pool.memory if isinstance(pool, TrackedBuffer) else pool for pool in request.pools)
        resolved = [
            argument if buffer is None else resolve(buffer, argument, graph.operands[index], what, mismatch)
            for buffers, arguments, indexes, resolve, what in (
                (inputs, request.inputs, graph.inputs, _resolved_input, "input"),
                (outputs, request.outputs, graph.outputs, _resolved_output, "output"),
            )
            # The runtime adds the variables of a stateful model, which come last, only later.
            for buffer, argument, index in zip(buffers, arguments, indexes, strict=False)
        ]
        for buffer in filter(None, outputs):
            buffer.set_value(None)
        count = len(request.inputs)
        yield BufferUse(
            Request(inputs=tuple(resolved[:count]), outputs=tuple(resolved[count:]), pools=pools), outputs
        )


def _buffer(request: Request, argument: Argument) -> TrackedBuffer | None:
    pool = None if argument.pool is None else request.pools[argument.pool]
    return pool if isinstance(pool, TrackedBuffer) else None


def _require_roles(
    owner: object, inputs: Sequence[TrackedBuffer | None], outputs: Sequence[TrackedBuffer | None]
) -> None:
    for is_output, buffers in ((False, inputs), (True, outputs)):
        for index, buffer in enumerate(buffers):
            if buffer is not None:
                buffer.require_role(Role(owner=owner, index=index, is_output=is_output))
    written: set[Memory] = set()
    for index, buffer in enumerate(outputs):
        if buffer is None:
            continue
        if buffer in written or buffer in inputs:
            other = "another output" if buffer in written else "an input"
            raise BadData(f"output {index}: its device memory is also {other} of this execution")
        written.add(buffer)


def _resolved_input(
    buffer: TrackedBuffer, argument: Argument, operand: Operand, what: str, mismatch: type[Error]
) -> Argument:
    held = buffer.dimensions
    if held is None:
        reason = "nothing was written to it, or its device was lost with what it held"
        raise OpFailed(f"{what}: its device memory holds no value: {reason}; write to it first")
    try:
        wanted = merge_dimensions(operand.dimensions, argument.dimensions, what)
        if merge_dimensions(held, wanted, what) != held:
            raise BadData(f"{what}: shape {wanted}; its device memory holds {list(held)}")
    except BadData as error:
        raise mismatch(str(error)) from None
    return _placed(buffer, argument, held, byte_size(operand.type, held))


def _resolved_output(
    buffer: TrackedBuffer, argument: Argument, operand: Operand, what: str, mismatch: type[Error]
) -> Argument:
    try:
        wanted = merge_dimensions(operand.dimensions, argument.dimensions, what)
        wanted = merge_dimensions(buffer.operand.dimensions, wanted, what)
    except BadData as error:
        raise mismatch(str(error)) from None
    return _placed(buffer, argument, wanted, buffer.memory.size)


def _placed(buffer: TrackedBuffer, argument: Argument, dimensions: Dimensions, length: int) -> Argument:
    """Returns the argument for the device: host memory with its bytes, device memory as a whole."""
    length = 0 if isinstance(buffer.memory, DeviceBuffer) else length
    return replace(argument, offset=0, length=length, dimensions=dimensions)
