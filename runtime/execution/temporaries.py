"""Where the values of one execution are stored.

The storage is the client's buffers, constants, the arena, or memory that grows.

A value whose size is only known after its step has run starts with a guess: the size of its
inferred shape, else one element. If the device reports that this was too small, the step runs again
with the size of the reported shape, or with twice the size if no shape is known (AOSP
`DynamicTemporaries`). The memory must grow each time, otherwise the device is at fault.
"""

import weakref
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from neurald.hal.device import OutputShape
from neurald.hal.errors import OpFailed, OutOfMemory
from neurald.hal.memory.pool import ALIGNMENT, HostMemory, Memory, SharedMemory, align, aligned_zeros
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.types import (
    MAX_OPERAND_BYTES,
    Argument,
    Dimensions,
    OperandType,
    Request,
)
from neurald.hal.process.fork import forkable_lock
from neurald.hal.validation.request_rules import merge_dimensions
from neurald.runtime.plan.plan import CompoundBody, Value
from neurald.runtime.plan.residency import Residence

#: Memory for values of unknown size is reused if it is at most this many times the required size
#: (AOSP's rule).
_REUSE_FACTOR = 1.2
#: Number of workspaces that a plan keeps for its next executions.
_MAX_FREE_WORKSPACES = 4


class Place:
    """Storage of a value and its current state.

    Attributes:
        memory: None if not allocated yet, and for an omitted argument.
        offset: of the first byte.
        capacity: available bytes.
        dimensions: current shape; before the value is written, the shape that it must have.
        length: bytes in use.
        key: of memory that may grow; None for other memory.
    """

    __slots__ = ("capacity", "dimensions", "key", "length", "memory", "offset")

    def __init__(
        self,
        memory: Memory | None,
        offset: int = 0,
        capacity: int = 0,
        dimensions: Dimensions = None,
        length: int = 0,
        key: int | None = None,
    ) -> None:
        self.memory = memory
        self.offset = offset
        self.capacity = capacity
        self.dimensions = dimensions
        self.length = length
        self.key = key

    def content(self) -> Memory:
        """Returns the bytes of the value in host memory.

        Raises:
            OpFailed: the argument is omitted.
            Error: the value lies in a device buffer that cannot be read.
        """
        if self.memory is None:
            raise OpFailed("an argument of control flow is omitted")
        if not isinstance(self.memory, DeviceBuffer):
            return HostMemory(self.memory.view(self.offset, self.length))
        copy = HostMemory(np.empty(self.length, np.uint8))
        self.memory.read(copy)
        return copy

    def fill(self, content: Memory, dimensions: Dimensions) -> None:
        """Copies a value from host memory. The capacity must suffice.

        Raises:
            Error: the value lies in a device buffer that cannot be written.
        """
        assert self.memory is not None  # noqa: S101 - there is room
        if isinstance(self.memory, DeviceBuffer):
            self.memory.write(content, dimensions)
        else:
            np.asarray(self.memory.view(self.offset, content.size))[...] = np.asarray(content.view())


@dataclass(slots=True)
class Workspace:
    """Memory for the temporaries of one execution at a time.

    Attributes:
        arena: for values of known size; None if there are none.
        growing: for values of other sizes, by the key of their place.
        resident: for values that stay on a device, by the number of the value.
    """

    shares_memory: bool
    arena: Memory | None
    growing: dict[int, Memory] = field(default_factory=dict)
    resident: dict[int, DeviceBuffer] = field(default_factory=dict)
    _requests: tuple["weakref.ref[Request]", dict[Hashable, Request]] | None = None

    def requests_of(self, client: Request) -> dict[Hashable, Request]:
        """Returns the cached step requests of the client's request; dropped when that one is."""
        kept = self._requests
        if kept is None or kept[0]() is not client:
            found: dict[Hashable, Request] = {}
            kept = self._requests = weakref.ref(client, lambda _: found.clear()), found
        return kept[1]

    def room(self, key: int, size_bytes: int) -> Memory:
        """Returns memory of at least that many bytes.

        Reuses the key's memory unless far too large.

        Raises:
            OutOfMemory: allocation failed, or more than 2^32 - 1 bytes are requested.
        """
        kept = self.growing.get(key)
        if kept is not None and size_bytes <= kept.size <= max(ALIGNMENT, size_bytes * _REUSE_FACTOR):
            return kept
        memory = self.growing[key] = allocate(size_bytes, shares_memory=self.shares_memory)
        return memory

    @property
    def abandoned(self) -> tuple[SharedMemory, ...]:
        """Its memories that a failed driver may still write to."""
        memories = self.growing.values() if self.arena is None else (self.arena, *self.growing.values())
        return tuple(m for m in memories if isinstance(m, SharedMemory) and m.is_abandoned)

    def replace(self, old: Memory) -> Memory:
        """Replaces `old` by other memory with the same content."""
        new = allocate(old.size, shares_memory=self.shares_memory)
        np.asarray(new.view(0, old.size))[...] = np.asarray(old.view())
        if self.arena is old:
            self.arena = new
        self.growing = {key: new if memory is old else memory for key, memory in self.growing.items()}
        return new


class Workspaces:
    """The reusable workspaces of one plan. Thread-safe."""

    def __init__(self, body: CompoundBody, residences: Mapping[int, Residence]) -> None:
        self._residences = residences
        self._shares_memory = body.shares_memory
        self._arena_bytes = body.arena.size_bytes
        self._free: list[Workspace] = []
        self._lock = forkable_lock()

    def take(self) -> Workspace:
        """Returns a workspace for exclusive use until it is given back."""
        while True:
            with self._lock:
                if not self._free:
                    break
                found = self._free.pop()
            if not any(buffer.is_lost for buffer in found.resident.values()):
                return found
        shares_memory = self._shares_memory
        arena = allocate(self._arena_bytes, shares_memory=shares_memory) if self._arena_bytes else None
        workspace = Workspace(shares_memory, arena)
        for number, residence in self._residences.items():
            buffer = residence.allocate()
            if buffer is not None:
                workspace.resident[number] = buffer
        return workspace

    def give_back(self, workspace: Workspace) -> None:
        """Takes back a workspace that no device uses.

        Do not return one of a failed execution: a device may still write to it.
        """
        with self._lock:
            if len(self._free) < _MAX_FREE_WORKSPACES:
                self._free.append(workspace)


def allocate(size_bytes: int, *, shares_memory: bool) -> Memory:
    """Allocates at least that many bytes.

    Raises:
        OutOfMemory: allocation failed, or the size exceeds that of any operand.
    """
    if size_bytes > MAX_OPERAND_BYTES:
        raise OutOfMemory(f"{size_bytes} bytes for operands between steps; at most 2^32 - 1 are allowed")
    size_bytes = max(ALIGNMENT, align(size_bytes))
    if shares_memory:
        return SharedMemory.working(size_bytes)
    try:
        return HostMemory(aligned_zeros(size_bytes))
    except MemoryError as error:
        raise OutOfMemory(f"{size_bytes} bytes for operands between steps: {error}") from None


class Temporaries:
    """The places of all values in one execution.

    Args:
        body: the body of the plan.
        request: the client's request.
        workspace: for the exclusive use of this execution.

    Attributes:
        places: by value; a loop swaps those of its carried values.
        short: numbers of the client's outputs that were too small.
        host_copies: number of values copied from a device because another device needs them.
    """

    def __init__(self, body: CompoundBody, request: Request, workspace: Workspace) -> None:
        self._values = body.values
        self._request = request
        self._workspace = workspace
        self._offsets = body.arena.offsets
        self._shared = body.shared
        #: Values on devices whose host copies, if any, are out of date.
        self._stale: set[int] = set()
        self.host_copies = 0
        self._kept_back: dict[int, Place] = {}
        self.places = [self._place(number, value) for number, value in enumerate(body.values)]
        self._demanded = [place.dimensions for place in self.places]
        self.short: set[int] = set()

    def _place(self, number: int, value: Value) -> Place:
        if value.client_input is not None:
            place = self._client_place(value, self._request.inputs[value.client_input], is_output=False)
            return self._shared_copy(number, place)
        if value.client_output is not None:
            place = self._client_place(value, self._request.outputs[value.client_output], is_output=True)
            if number not in self._shared or isinstance(place.memory, SharedMemory | DeviceBuffer):
                return place
            self._kept_back[number] = place
            return Place(None, dimensions=place.dimensions, key=number)
        if value.constant is not None:
            constant = value.constant
            length = constant.length
            place = Place(constant.memory, constant.offset, length, value.dimensions, length)
            return self._shared_copy(number, place)
        if value.is_omitted or value.is_bound:
            return Place(None)
        if number in self._workspace.resident:
            # The device chooses the size of its own buffer.
            buffer = self._workspace.resident[number]
            return Place(buffer, 0, MAX_OPERAND_BYTES, value.dimensions)
        if number in self._offsets:
            size = value.size_bytes or 0
            return Place(self._workspace.arena, self._offsets[number], size, value.dimensions)
        return Place(None, dimensions=value.dimensions, key=number)

    def _shared_copy(self, number: int, place: Place) -> Place:
        """Returns a copy of the value in shared memory, if a device needs it there."""
        lies_well = isinstance(place.memory, SharedMemory | DeviceBuffer) or place.memory is None
        if number not in self._shared or lies_well:
            return place
        memory = self._workspace.room(number, place.length)
        copy = Place(memory, 0, memory.size, place.dimensions, place.length)
        copy.fill(place.content(), place.dimensions)
        return copy

    def copy_back(self) -> None:
        """Copies outputs from shared memory to the client's buffers, unless any is too small."""
        for number, target in self._kept_back.items():
            place, output = self.places[number], self._values[number].client_output
            if output is not None and place.length > target.capacity:
                self.short.add(output)
        if not self.short:
            for number, target in self._kept_back.items():
                target.fill(self.places[number].content(), self.places[number].dimensions)

    def _client_place(self, value: Value, argument: Argument, *, is_output: bool) -> Place:
        if argument.pool is None:
            return Place(None)
        what = f"{'output' if is_output else 'input'} {value.operand}"
        dimensions = merge_dimensions(value.dimensions, argument.dimensions, what)
        memory = self._request.pools[argument.pool]
        # The device chooses the size of its own buffer.
        capacity = MAX_OPERAND_BYTES if isinstance(memory, DeviceBuffer) else argument.length
        place = Place(memory, argument.offset, capacity, dimensions)
        if not is_output:
            shape = OutputShape(dimensions=dimensions, length=argument.length)
            place.length = shape.size_bytes(value.type) or 0
        return place

    def reserve(self, number: int, size_bytes: int | None) -> None:
        """Ensures that a growing value has that many bytes; None requires any memory at all."""
        place = self.places[number]
        if place.key is None:
            return
        if size_bytes is None:
            size_bytes = max(place.capacity, _one_element(self._values[number].type))
            kept = self._workspace.growing.get(place.key)
            size_bytes = size_bytes if kept is None else max(size_bytes, kept.size)
        if place.memory is None or place.capacity < size_bytes:
            place.memory = self._workspace.room(place.key, size_bytes)
            place.capacity = place.memory.size

    def leave_abandoned(self) -> None:
        """Replaces memory that a failed driver may still read or write.

        The device that took over has computed the same values from the same inputs. The old memory
        keeps those inputs unchanged and is out of reach for later writes.
        """
        for old in self._workspace.abandoned:
            new = self._workspace.replace(old)
            for place in self.places:
                if place.memory is old:
                    place.memory = new

    def grow(self, number: int, shape: OutputShape) -> None:
        """Enlarges a value that did not fit; a client's output moves to memory that can grow.

        Raises:
            OpFailed: the device's report is inconsistent, or demands no more memory than before.
            OutOfMemory: allocation failed.
        """
        place, value = self.places[number], self._values[number]
        self._check(number, shape.dimensions)
        is_known = shape.dimensions is not None and 0 not in shape.dimensions
        size_bytes = shape.size_bytes(value.type) if is_known else None
        is_client = place.key is None and value.client_output is not None
        if (place.key is None and not is_client) or (size_bytes is not None and size_bytes <= place.capacity):
            raise OpFailed(f"{value}: {place.capacity} bytes are said not to suffice, for no reason")
        if is_client and value.client_output is not None:
            self.short.add(value.client_output)
            place = self.places[number] = Place(None, capacity=place.capacity, key=number)
        self.reserve(number, 2 * max(place.capacity, 1) if size_bytes is None else size_bytes)

    def written(self, number: int, shape: OutputShape) -> None:
        """Records the shape that a step has written.

        Raises:
            OpFailed: the shape contradicts the operand's declaration outside of the step's graph.
        """
        self._check(number, shape.dimensions)
        place = self.places[number]
        place.dimensions = shape.dimensions
        place.length = shape.size_bytes(self._values[number].type) or 0
        if number in self._workspace.resident:
            self._stale.add(number)

    @property
    def has_residents(self) -> bool:
        """True if any value stays on a device."""
        return bool(self._workspace.resident)

    def place_on_host(self, number: int) -> Place:
        """Returns the place of a value in host memory. A value on a device is copied.

        The copy is made on first use after the value was written.

        Raises:
            Error: the device's buffer cannot be read.
        """
        place = self.places[number]
        buffer = self._workspace.resident.get(number)
        if buffer is None:
            return place
        memory = self._workspace.room(-1 - number, place.length)
        if number in self._stale:
            buffer.read(HostMemory(memory.view(0, place.length)))
            self._stale.discard(number)
            self.host_copies += 1
        return Place(memory, 0, memory.size, place.dimensions, place.length)

    def copy(self, source: int, target: int) -> None:
        """Copies one value to another, at the end of a loop.

        Raises:
            OpFailed: the shapes of their operands differ.
            OutOfMemory: allocation failed.
        """
        origin = self.places[source]
        content = origin.content()
        shape = OutputShape(dimensions=origin.dimensions, length=origin.length)
        self._check(target, shape.dimensions)
        self.reserve(target, origin.length)
        if self.places[target].capacity < origin.length:
            self.grow(target, shape)
        self.places[target].fill(content, origin.dimensions)
        self.written(target, shape)

    def demanded(self, number: int) -> Dimensions:
        """Returns the shape that the model, and for an output the client, demand of a value."""
        return self._demanded[number]

    def _check(self, number: int, dimensions: Dimensions) -> None:
        require_agreement(self._demanded[number], dimensions, self._values[number])

    def output_shapes(self, count: int) -> tuple[OutputShape, ...]:
        """Returns the shapes of the model's `count` outputs."""
        shapes: dict[int, OutputShape] = {}
        for value, place in zip(self._values, self.places, strict=True):
            if value.client_output is not None:
                shapes[value.client_output] = OutputShape(
                    dimensions=place.dimensions,
                    sufficient=value.client_output not in self.short,
                    length=place.length if value.type is OperandType.TENSOR_STRING else None,
                )
        return tuple(shapes[number] for number in range(count))


def require_agreement(declared: Dimensions, actual: Dimensions, what: object) -> None:
    """Raises OpFailed unless the actual shape agrees with the declared dimensions."""
    if actual is None or declared is None or declared == actual:
        return
    if len(declared) != len(actual) or any(d not in (0, a) for d, a in zip(declared, actual, strict=True)):
        raise OpFailed(f"{what} has shape {list(actual)}; {list(declared)} is declared (0: any)")


def _one_element(operand_type: OperandType) -> int:
    return 1 if operand_type is OperandType.TENSOR_STRING else operand_type.dtype.itemsize
