"""DeviceMemory: memory allocated for declared roles, which `nd.MemoryDesc` describes.

The application does not see whether the bytes are on a device or on the host. It can only use the
memory in executions, as a whole and in the declared roles, and copy it.
"""

import contextlib
from collections.abc import Callable, Iterator

from neurald.hal.buffers.buffer_use import BufferUse, buffers_in_use
from neurald.hal.buffers.coherent_memory import CoherentMemory
from neurald.hal.buffers.tracked_buffer import Role, TrackedBuffer
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions
from neurald.hal.process.fork import forkable_lock
from neurald.hal.validation.request_rules import merge_dimensions, validate_argument


class DeviceMemory(TrackedBuffer):
    """Memory for declared roles. Thread-safe.

    `MemoryDesc.allocate` allocates it, `Execution.set_input_from_memory` and
    `set_output_from_memory` bind it with offset and length 0, and `Memory.copy` copies it.
    `neurald.hal.buffers.tracked_buffer` documents its states.

    Args:
        memory, operand, roles: see `TrackedBuffer`.
        renew: allocates a replacement for memory whose device is gone.
    """

    def __init__(
        self, memory: Memory, operand: Operand, roles: frozenset[Role], renew: Callable[[], Memory]
    ) -> None:
        super().__init__(memory, operand, roles)
        self._renew = renew
        self._renewal = forkable_lock()

    def recover(self) -> bool:
        """Replaces the memory by an empty one if it was lost with its device.

        Returns:
            True if it was replaced.

        Raises:
            Error: no replacement could be allocated.
        """
        with self._renewal:
            if not (isinstance(self.memory, DeviceBuffer) and self.memory.is_lost):
                return False
            if isinstance(self.memory, CoherentMemory):
                if not self.memory.forget_lost():
                    self.set_value(None)
                return True
            self.set_value(None)
            self.memory = self._renew()
            return True

    @property
    def copies(self) -> int:
        """The number of copies of its value between devices, or between a device and the host.

        A memory with roles on several devices has a place for each one that cannot map the others'.
        The value is copied when an execution reads it elsewhere than where it was written.
        """
        return self.memory.copies if isinstance(self.memory, CoherentMemory) else 0

    @property
    def copied_bytes(self) -> int:
        """The number of bytes of the copies."""
        return self.memory.copied_bytes if isinstance(self.memory, CoherentMemory) else 0

    @property
    def is_on_device(self) -> bool:
        """True if its bytes are in a device's own memory."""
        return isinstance(self.memory, DeviceBuffer)

    def argument(
        self, role: Role, operand: Operand, offset: int, length: int, dimensions: Dimensions
    ) -> Argument:
        """Builds the argument for a request in which this memory is the only pool.

        Args:
            role: role in which the memory is used.
            operand: operand of the model.
            offset, length: both 0.
            dimensions: shape given by the application.

        Raises:
            BadData: the role was not declared, offset or length is not 0, or the dimensions do not
                match.
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
        """Copies the value of another memory into this one; see `Memory.copy`."""
        self.recover()
        if not isinstance(source, DeviceMemory):
            super().write(source, dimensions)
            return
        for name in ("type", "scale", "zero_point", "channel_quant"):
            found, expected = getattr(source.operand, name), getattr(self.operand, name)
            if found != expected:
                name = name.replace("_", " ")
                raise BadData(
                    f"cannot copy device memory of {name} {found!r} to device memory of {name} {expected!r}"
                )
        held = source.dimensions
        if held is None:
            raise _unwritten()
        merge_dimensions(self.operand.dimensions, held, "the source of the copy")
        # Devices cannot access each other's memory.
        bounce = HostMemory(bytearray(source.value_bytes))
        source.read(bounce)
        super().write(bounce, held)

    def read(self, target: Memory) -> None:
        """Copies its value to host memory; see `Memory.copy`."""
        if self.dimensions is None:
            raise _unwritten()
        super().read(target)


def _unwritten() -> BadData:
    """Returns the error of a copy of memory without a value."""
    return BadData(
        "device memory that nothing was written to cannot be copied; run an execution that writes it first"
    )


@contextlib.contextmanager
def device_memories_in_use(compilation: object, graph: Subgraph, request: Request) -> Iterator[BufferUse]:
    """Marks the device memories of a request as in use by an execution; see `buffers_in_use`.

    Raises:
        BadData: a memory is bound to two outputs, or to an input and an output.
        BadState: a memory is in use by another execution or copy.
        OpFailed: an input holds no value, or one of other dimensions.
    """
    with buffers_in_use(compilation, graph, request, mismatch=OpFailed) as use:
        yield use


def recover_device_memories(request: Request) -> bool:
    """Replaces the device memories of a request that were lost with their devices.

    Returns:
        True if any was replaced.

    Raises:
        Error: no replacement could be allocated.
    """
    recovered = [pool.recover() for pool in request.pools if isinstance(pool, DeviceMemory)]
    return any(recovered)


def has_device_memory(request: Request) -> bool:
    """Returns True if an argument of the request is in device memory."""
    return any(isinstance(pool, DeviceMemory) for pool in request.pools)
