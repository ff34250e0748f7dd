"""Device memory under supervision: what it may be used for, whether it holds a value, and who uses it now.

A device memory starts without a value. It gets one from an execution that writes it or from a copy into it, and loses it
when such an execution or copy fails. The dimensions of the value are kept, and must be those of its next use. The runtime
keeps this account for the application's own memories, and a driver daemon again for those of each client.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neurald.hal.errors import BadData, BadState, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory, aligned_zeros
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.types import Dimensions, Operand, byte_size, value_size
from neurald.hal.process.fork import forkable_lock
from neurald.hal.validation.validate import merge_dimensions, validate_operand_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A use that was declared: input or output `index` of `owner`, which is a compilation or a prepared model."""

    owner: object
    index: int
    is_output: bool

    def __str__(self) -> str:
        return f"{'output' if self.is_output else 'input'} {self.index}"


def described_operand(uses: Sequence[tuple[str, Operand]], dimensions: Dimensions) -> Operand:
    """What a buffer for all these uses holds: an operand as specific as they and `dimensions` are together.

    Args:
        uses: operands, each with what messages call it.
        dimensions: that the buffer is described with; 0 and None leave them to the uses.

    Raises:
        BadData: there is no use, uses differ in type or quantisation, dimensions cannot be merged, or a scalar is given
            some.
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


def bytes_for(device: str, uses: Sequence[tuple[str, Operand]], dimensions: Dimensions) -> int:
    """Returns how many bytes a buffer for these uses takes, for a device that needs to know.

    Args:
        device: its name, for messages.
        uses, dimensions: see `described_operand`.

    Raises:
        BadData: there is no use, or uses contradict each other.
        OpFailed: a dimension stays open.
    """
    operand = described_operand(uses, dimensions)
    size = value_size(operand.type, operand.dimensions)
    if size is None:
        raise OpFailed(f"{device} allocates no memory for values of unknown size")
    return size


def host_memory_for(device: str, uses: Sequence[tuple[str, Operand]], dimensions: Dimensions) -> HostMemory:
    """Returns memory of the host for uses of a buffer, for a device that computes there; see `bytes_for`."""
    return HostMemory(aligned_zeros(bytes_for(device, uses, dimensions)))


class ManagedBuffer(DeviceBuffer):
    """Device memory with an account of its use. Thread-safe.

    What is written at the time is used by nobody else; a use that would overlap is refused.

    Args:
        memory: where the values are: the device's, or the host's.
        operand: what it holds; dimensions may be open.
        roles: what executions may use it for.
    """

    def __init__(self, memory: Memory, operand: Operand, roles: frozenset[Role]) -> None:
        super().__init__(value_size(operand.type, operand.dimensions) or memory.size)
        self.memory = memory
        self.operand = operand
        self.roles = roles
        self._dimensions: tuple[int, ...] | None = None
        self._lock = forkable_lock()
        self._readers = 0
        self._is_written = False

    @property
    def dimensions(self) -> tuple[int, ...] | None:
        """Of the value that it holds; None while it holds none."""
        return self._dimensions

    @property
    def value_bytes(self) -> int:
        """How many bytes the value that it holds has.

        Raises:
            OpFailed: it holds none.
        """
        if self._dimensions is None:
            raise OpFailed("device memory is read before anything was written to it")
        return byte_size(self.operand.type, self._dimensions)

    def require_role(self, role: Role) -> None:
        """Raises BadData unless that use was declared."""
        if role not in self.roles:
            raise BadData(f"{role}: its device memory was not allocated for that role")

    def set_value(self, dimensions: Dimensions) -> None:
        """Says that it holds a value of these dimensions now, or with None that it holds none.

        Raises:
            OpFailed: they cannot be those of its values; it then holds none.
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
            BadData: other dimensions or bytes than the memory has.
            BadState: it is in use.
            Error: the device failed; it then holds no value.
        """
        if dimensions and not self.operand.type.is_tensor:
            raise BadData(f"dimensions {list(dimensions)}; {self.operand.type.name} is a scalar, it has none")
        merged = merge_dimensions(self.operand.dimensions, dimensions, "the copy's dimensions")
        expected = value_size(self.operand.type, merged)
        if expected is None:
            raise BadData("a copy to device memory of open dimensions must say which ones its value has")
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
            BadState: it is written just now.
            OpFailed: it holds no value.
            Error: the device failed.
        """
        with self._in_use(writing=False):
            expected = self.value_bytes
            if target.readonly:
                raise BadData("device memory is copied to memory that is read-only")
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
            BadState: somebody writes it, or is to write it while others read.
        """
        with self._lock:
            if self._is_written or (writing and self._readers):
                raise BadState("device memory is in use by another execution or copy")
            if writing:
                self._is_written = True
            else:
                self._readers += 1

    def release(self, *, writing: bool) -> None:
        """Ends a use."""
        with self._lock:
            if writing:
                self._is_written = False
            else:
                self._readers -= 1
