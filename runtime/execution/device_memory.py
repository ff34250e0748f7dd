"""DeviceMemory: memory that an application has allocated for declared roles, as `nd.MemoryDesc` describes it.

Where the bytes are (a device, or the host in its place) is not the application's business: it can only use the memory in
executions, as a whole and in the declared roles, and copy it.
"""

import contextlib
from collections.abc import Callable, Iterator

from neurald.hal.buffers.buffer_use import BufferUse, buffers_in_use
from neurald.hal.buffers.tracked_buffer import ManagedBuffer, Role
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.types import Argument, Dimensions, Operand, Request, Subgraph
from neurald.hal.process.fork import forkable_lock
from neurald.hal.validation.validate import merge_dimensions, validate_argument


class DeviceMemory(ManagedBuffer):
    """Memory for declared roles. Thread-safe; see `neurald.hal.buffers.tracked_buffer` for its states.

    Allocated by `MemoryDesc.allocate`, used by `Execution.set_input_from_memory` and `set_output_from_memory` with offset and
    length 0, and copied by `Memory.copy`.

    Args:
        memory, operand, roles: see `ManagedBuffer`.
        renew: makes other memory in place of one whose device is gone.
    """

    def __init__(
        self, memory: Memory, operand: Operand, roles: frozenset[Role], renew: Callable[[], Memory]
    ) -> None:
        super().__init__(memory, operand, roles)
        self._renew = renew
        self._renewal = forkable_lock()

    def recover(self) -> bool:
        """Takes other memory, which holds no value yet, if its device is gone with the old one; whether that was so.

        Raises:
            Error: there is no other memory.
        """
        with self._renewal:
            if not (isinstance(self.memory, DeviceBuffer) and self.memory.is_lost):
                return False
            self.set_value(None)
            self.memory = self._renew()
            return True

    @property
    def is_on_device(self) -> bool:
        """Whether its bytes are in memory of a device's own."""
        return isinstance(self.memory, DeviceBuffer)

    def argument(
        self, role: Role, operand: Operand, offset: int, length: int, dimensions: Dimensions
    ) -> Argument:
        """How it takes part in a request as its only pool.

        Args:
            role: that it is used in.
            operand: of the model.
            offset, length: both 0.
            dimensions: those that the application gives.

        Raises:
            BadData: the role was not declared, it is used in part, or for other dimensions.
        """
        argument = Argument(pool=0, offset=offset, length=length, dimensions=dimensions)
        self.require_role(role)
        validate_argument(argument, operand, (self,), str(role), is_output=role.is_output)
        if dimensions and not operand.type.is_tensor:
            raise BadData(f"{role}: shape {list(dimensions)}; {operand.type.name} is a scalar")
        merge_dimensions(
            self.operand.dimensions, merge_dimensions(operand.dimensions, dimensions, str(role)), str(role)
        )
        return argument

    def write(self, source: Memory, dimensions: Dimensions = None) -> None:
        """Takes the value of another memory; see `Memory.copy`."""
        self.recover()
        if not isinstance(source, DeviceMemory):
            super().write(source, dimensions)
            return
        for name in ("type", "scale", "zero_point", "channel_quant"):
            found, expected = getattr(source.operand, name), getattr(self.operand, name)
            if found != expected:
                name = name.replace("_", " ")
                raise BadData(f"device memory of {name} {found!r} is copied to one of {expected!r}")
        held = source.dimensions
        if held is None:
            raise BadData("device memory is copied before anything was written to it")
        merge_dimensions(self.operand.dimensions, held, "the copy's source")
        # No device reaches the memory of another one.
        bounce = HostMemory(bytearray(source.value_bytes))
        source.read(bounce)
        super().write(bounce, held)

    def read(self, target: Memory) -> None:
        """Gives its value to memory of the host; see `Memory.copy`."""
        if self.dimensions is None:
            raise BadData("device memory is copied before anything was written to it")
        super().read(target)


@contextlib.contextmanager
def device_memories_in_use(compilation: object, graph: Subgraph, request: Request) -> Iterator[BufferUse]:
    """The time in which an execution uses the device memories of its request; see `buffers_in_use`.

    Raises:
        BadData: a memory is two outputs, or input and output.
        BadState: a memory is in use by another execution or copy.
        OpFailed: an input holds no value, or one of other dimensions.
    """
    with buffers_in_use(compilation, graph, request, mismatch=OpFailed) as use:
        yield use


def recover_device_memories(request: Request) -> bool:
    """Gives device memories of a request other memory where their devices are gone; whether any was.

    Raises:
        Error: there is no other memory.
    """
    recovered = [pool.recover() for pool in request.pools if isinstance(pool, DeviceMemory)]
    return any(recovered)


def has_device_memory(request: Request) -> bool:
    """Whether an argument of the request lies in device memory."""
    return any(isinstance(pool, DeviceMemory) for pool in request.pools)
