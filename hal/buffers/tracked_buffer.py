"""Tracks device memory: its declared roles, whether it holds a value, and its current use.

Device memory starts without a value. An execution that writes it, or a copy into it, sets the
value; a failed execution or copy clears it. The dimensions of the value are recorded, and the next
use must match them. The runtime tracks the application's own memories, and a driver daemon tracks
those of each client.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.api_arguments import instance
from neurald.hal.device import BufferDescription, BufferRole
from neurald.hal.errors import BadData, BadState, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import Dimensions, byte_size, value_size
from neurald.hal.process.fork import forkable_lock
from neurald.hal.validation.operand_rules import validate_operand_type
from neurald.hal.validation.request_rules import merge_dimensions

#: Time between two looks at whether a conflicting use has ended.
_PAUSE_S: Final = 1e-3


class Role(Struct, frozen=True, kw_only=True):
    """A declared use: input or output `index` of `owner`, a compilation or a prepared model."""

    owner: object
    index: int
    is_output: bool

    def __str__(self) -> str:
        return f"{'output' if self.is_output else 'input'} {self.index}"


def described_operand(uses: Sequence[tuple[str, Operand]], dimensions: Dimensions) -> Operand:
    """Merges the operands of all uses and `dimensions` into the operand that the buffer holds.

    Args:
        uses: operands, each with its name for messages.
        dimensions: the dimensions of the buffer's description; 0 and None leave them to the uses.

    Raises:
        BadData: there is no use, uses differ in type or quantisation, dimensions cannot be merged,
            or dimensions are given for a scalar.
    """
    if not uses:
        raise BadData("a buffer is described that nothing uses; at least one role is expected")
    (_, first), *others = uses
    for what, other in others:
        for name in ("type", "scale", "zero_point", "channel_quant"):
            found, expected = getattr(other, name), getattr(first, name)
            if found != expected:
                name = name.replace("_", " ")
                raise BadData(f"{what}: its {name} is {found!r}; other uses of the memory have {expected!r}")
    if dimensions and not first.type.is_tensor:
        raise BadData(f"dimensions {list(dimensions)}; {first.type.name} is a scalar, it has none")
    merged = dimensions if first.type.is_tensor else ()
    for what, use in uses:
        merged = merge_dimensions(use.dimensions, merged, what)
    operand = Operand(
        type=first.type,
        dimensions=merged,
        scale=first.scale,
        zero_point=first.zero_point,
        channel_quant=first.channel_quant,
    )
    validate_operand_type(operand, "the memory", is_extended=True)
    return operand


def described_uses(
    description: BufferDescription, operand_of: Callable[[BufferRole, bool], Operand]
) -> list[tuple[str, Operand]]:
    """Returns the uses of a description, for `described_operand`.

    Args:
        description: the description.
        operand_of: returns the operand of a role, and True for an output; raises BadData if the
            device did not prepare its model.
    """
    roles = [(role, False) for role in description.input_roles]
    roles += [(role, True) for role in description.output_roles]
    return [
        (f"role {position}", operand_of(role, is_output)) for position, (role, is_output) in enumerate(roles)
    ]


def bytes_for(device: str, uses: Sequence[tuple[str, Operand]], dimensions: Dimensions) -> int:
    """Returns the size of a buffer for these uses, for a device that needs to know it.

    Args:
        device: its name, for messages.
        uses, dimensions: see `described_operand`.

    Raises:
        BadData: there is no use, or uses contradict each other.
        OpFailed: a dimension is unknown.
    """
    operand = described_operand(uses, dimensions)
    size = value_size(operand.type, operand.dimensions)
    if size is None:
        raise OpFailed(f"{device} allocates no memory for values of unknown size")
    return size


def host_memory_for(device: str, uses: Sequence[tuple[str, Operand]], dimensions: Dimensions) -> HostMemory:
    """Allocates host memory for a buffer, for a device that computes there; see `bytes_for`."""
    return HostMemory(aligned_zeros(bytes_for(device, uses, dimensions)))


class TrackedBuffer(DeviceBuffer):
    """Device memory with tracked use. Thread-safe.

    While it is written it has no other user; a conflicting use is rejected.

    Args:
        memory: storage of the values: the device's or the host's.
        operand: describes the values; dimensions may be unknown.
        roles: the uses allowed to executions.
        patience_s: how long a use waits for the end of a conflicting one. That of an execution of
            which the client has seen the end is over only when the device has stopped it.
    """

    def __init__(
        self, memory: Memory, operand: Operand, roles: frozenset[Role], *, patience_s: float = 0.0
    ) -> None:
        super().__init__(value_size(operand.type, operand.dimensions) or memory.size)
        self.memory = memory
        self.operand = operand
        self.roles = roles
        self._dimensions: tuple[int, ...] | None = None
        self._lock = forkable_lock()
        self._readers = 0
        self._is_written = False
        self._patience_s = patience_s

    @property
    def dimensions(self) -> tuple[int, ...] | None:
        """The dimensions of its value; None if it holds none."""
        return self._dimensions

    @property
    def value_bytes(self) -> int:
        """The size of its value in bytes.

        Raises:
            OpFailed: it holds no value.
        """
        if self._dimensions is None:
            raise OpFailed(
                "device memory is read, and nothing has written to it: copy a value to it first, or run what computes it"
            )
        return byte_size(self.operand.type, self._dimensions)

    def require_role(self, role: Role) -> None:
        """Raises BadData unless that use was declared."""
        if role not in self.roles:
            raise BadData(f"{role}: its device memory was not allocated for that role")

    def set_value(self, dimensions: Dimensions) -> None:
        """Records that it holds a value of these dimensions, or none.

        Raises:
            OpFailed: the dimensions contradict its operand; it then holds no value.
        """
        self._dimensions = None
        if dimensions is None:
            return
        try:
            self._dimensions = merge_dimensions(self.operand.dimensions, dimensions, "device memory")
        except BadData as error:
            raise OpFailed(str(error)) from None

    def write(self, source: Memory, dimensions: Dimensions = None) -> None:
        """See `DeviceBuffer.write`.

        Raises:
            BadData: the dimensions or the size differ from the memory's.
            BadState: it is in use.
            Error: the device failed; it then holds no value.
        """
        instance(source, Memory, "a memory to copy")
        if dimensions and not self.operand.type.is_tensor:
            raise BadData(f"dimensions {list(dimensions)}; {self.operand.type.name} is a scalar, it has none")
        merged = merge_dimensions(self.operand.dimensions, dimensions, "the copy's dimensions")
        expected = value_size(self.operand.type, merged)
        if expected is None:
            raise BadData(
                f"device memory of {self.operand.type.name} {list(self.operand.dimensions or ())} is written without "
                "the dimensions of its value, which are expected where the memory leaves them open"
            )
        if source.size != expected:
            raise BadData(f"{source.size} bytes are copied to device memory that holds {expected}")
        with self._in_use(writing=True):
            self.set_value(None)
            self.memory.write(source, merged)
            self.set_value(merged)

    def read(self, target: Memory) -> None:
        """See `DeviceBuffer.read`.

        Raises:
            BadData: the target has another size, or is read-only.
            BadState: it is being written.
            OpFailed: it holds no value.
            Error: the device failed.
        """
        instance(target, Memory, "a memory to copy")
        with self._in_use(writing=False):
            expected = self.value_bytes
            if target.readonly:
                raise BadData(
                    "device memory is copied to memory that is read-only; memory that can be written is expected"
                )
            if target.size != expected:
                raise BadData(f"device memory holds {expected} bytes; the target has {target.size}")
            self.memory.read(target)

    @contextlib.contextmanager
    def _in_use(self, *, writing: bool) -> Iterator[None]:
        self.acquire(writing=writing)
        try:
            yield
        finally:
            self.release(writing=writing)

    def acquire(self, *, writing: bool) -> None:
        """Begins a use.

        Raises:
            BadState: it is being written, or is requested for writing while it is read.
        """
        end_s = None
        while not self._is_acquired(writing=writing):
            now_s = time.monotonic()
            end_s = now_s + self._patience_s if end_s is None else end_s
            if now_s >= end_s:
                raise BadState(
                    "device memory is in use by another execution or copy; wait for its end, or use another memory"
                )
            time.sleep(_PAUSE_S)

    def _is_acquired(self, *, writing: bool) -> bool:
        with self._lock:
            if self._is_written or (writing and self._readers):
                return False
            if writing:
                self._is_written = True
            else:
                self._readers += 1
            return True

    def release(self, *, writing: bool) -> None:
        """Ends a use."""
        with self._lock:
            if writing:
                self._is_written = False
            else:
                self._readers -= 1
