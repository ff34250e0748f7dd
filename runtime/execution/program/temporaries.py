"""Manages the storage of the values of one execution.

A value is stored in a buffer of the client, in a constant, in the arena, or in memory that grows.

The size of some values is only known after their step has run. Such a value starts with the size of
its inferred shape, or of one element if no shape can be inferred. If the device reports that this
was too small, the step runs again with the size of the reported shape, or with twice the previous
size if no shape is known (AOSP `DynamicTemporaries`). The memory must grow each time; otherwise the
device is at fault.
"""

import weakref
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from neurald.hal.device import OutputShape
from neurald.hal.errors import OpFailed, OutOfMemory
from neurald.hal.memory.alignment import ALIGNMENT, align
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import MAX_OPERAND_BYTES, Dimensions, OperandType
from neurald.hal.process.fork import forkable_lock
from neurald.hal.validation.request_rules import merge_dimensions
from neurald.runtime.plan.plan import CompoundBody, PlanValue
from neurald.runtime.plan.residency import Residence

#: Memory for values of unknown size is reused if it is at most this many times the required size
#: (AOSP's rule).
_REUSE_FACTOR = 1.2
#: Number of workspaces that a plan keeps for its next executions.
_MAX_FREE_WORKSPACES = 4


class ValueStorage:
    """Storage of a value and its current state.

    Attributes:
        memory: None if not allocated yet, and for an omitted argument.
        offset: the offset of the first byte.
        capacity: available bytes.
        dimensions: current shape; before the value is written, the shape that it must have.
        length: bytes in use.
        key: the key of memory that may grow; None for other memory.
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
            Error: the value is in a device buffer that cannot be read.
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
            Error: the value is in a device buffer that cannot be written.
        """
        assert self.memory is not None  # noqa: S101 - the caller has reserved it
        if isinstance(self.memory, DeviceBuffer):
            self.memory.write(content, dimensions)
        else:
            np.asarray(self.memory.view(self.offset, content.size))[...] = np.asarray(content.view())


class FixedRun(Struct, frozen=True, kw_only=True):
    """Requests and shapes of all runs of a plan for one request of the client, if sizes are known.

    Attributes:
        requests: the requests of the steps, by position.
        shapes: the shapes of the outputs.
    """

    requests: Sequence[Request]
    shapes: tuple[OutputShape, ...]


class Workspace(Struct):
    """Memory for the temporaries of one execution at a time.

    Attributes:
        arena: the arena for values of known size; None if there are none.
        growable: memory for values of unknown size, by the key of their storage.
        resident: buffers for values that stay on a device, by the number of the value.
    """

    shares_memory: bool
    arena: Memory | None
    growable: dict[int, Memory] = field(default_factory=dict)
    resident: dict[int, DeviceBuffer] = field(default_factory=dict)
    _requests: tuple["weakref.ref[Request]", dict[Hashable, Request]] | None = None
    _fixed: tuple["weakref.ref[Request]", list[FixedRun]] | None = None

    def requests_of(self, client: Request) -> dict[Hashable, Request]:
        """Returns the cache of step requests for a request of the client.

        The cache lives as long as the client's request, and only the last request has one.
        """
        cached = self._requests
        if cached is None or cached[0]() is not client:
            requests: dict[Hashable, Request] = {}
            cached = self._requests = weakref.ref(client, lambda _: requests.clear()), requests
        return cached[1]

    def keep_fixed_run(self, client: Request, run: FixedRun) -> None:
        """Keeps what all runs for a request of the client have in common, as long as it lives."""
        runs = [run]
        self._fixed = weakref.ref(client, lambda _: runs.clear()), runs

    def fixed_run(self, client: Request) -> FixedRun | None:
        """Returns what was kept for a request of the client, if it was the last one."""
        kept = self._fixed
        return kept[1][0] if kept is not None and kept[0]() is client else None

    def growable_memory(self, key: int, size_bytes: int) -> Memory:
        """Returns memory of at least that many bytes.

        The key's previous memory is reused unless it is too small or far too large.

        Raises:
            OutOfMemory: allocation failed, or more than 2^32 - 1 bytes are requested.
        """
        previous = self.growable.get(key)
        if previous is not None and size_bytes <= previous.size <= max(ALIGNMENT, size_bytes * _REUSE_FACTOR):
            return previous
        memory = self.growable[key] = allocate(size_bytes, shares_memory=self.shares_memory)
        return memory

    @property
    def abandoned(self) -> tuple[SharedMemory, ...]:
        """The workspace's memories that a failed driver may still write to."""
        memories = self.growable.values() if self.arena is None else (self.arena, *self.growable.values())
        return tuple(m for m in memories if isinstance(m, SharedMemory) and m.is_abandoned)

    def replace(self, old: Memory) -> Memory:
        """Replaces `old` by other memory with the same content."""
        new = allocate(old.size, shares_memory=self.shares_memory)
        np.asarray(new.view(0, old.size))[...] = np.asarray(old.view())
        if self.arena is old:
            self.arena = new
        self.growable = {key: new if memory is old else memory for key, memory in self.growable.items()}
        return new


class Workspaces:
    """The reusable workspaces of one plan. Thread-safe."""

    def __init__(self, body: CompoundBody, residences: Mapping[int, Residence]) -> None:
        self._residences = residences
        self._shares_memory = body.shares_memory
        self._arena_bytes = body.arena.size_bytes
        self._free: list[Workspace] = []
        self._lock = forkable_lock()

    def acquire(self) -> Workspace:
        """Returns a workspace for exclusive use until it is released."""
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

    def release(self, workspace: Workspace) -> None:
        """Makes a workspace available to the next execution.

        The workspace of a failed execution must not be released, since a device may still write to
        it.
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
        raise OutOfMemory(
            f"an operand between steps needs {size_bytes} bytes; at most {MAX_OPERAND_BYTES} are allowed"
        )
    size_bytes = max(ALIGNMENT, align(size_bytes))
    if shares_memory:
        return SharedMemory.working(size_bytes)
    try:
        return HostMemory(aligned_zeros(size_bytes))
    except MemoryError as error:
        raise OutOfMemory(f"cannot allocate {size_bytes} bytes for operands between steps: {error}") from None


class Temporaries:
    """The storage of all values in one execution.

    Args:
        body: the body of the plan.
        request: the client's request.
        workspace: the workspace for the exclusive use of this execution.

    Attributes:
        storage: the storage of each value; a loop swaps that of its carried values.
        insufficient: indices of the client's outputs that were too small.
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
        self._deferred_outputs: dict[int, ValueStorage] = {}
        self.storage: list[ValueStorage] = [
            self._initial_storage(number, value) for number, value in enumerate(body.values)
        ]
        self._required_shapes = [storage.dimensions for storage in self.storage]
        self.insufficient: set[int] = set()

    def _initial_storage(self, number: int, value: PlanValue) -> ValueStorage:
        if value.client_input is not None:
            storage = self._client_storage(value, self._request.inputs[value.client_input], is_output=False)
            return self._shared_copy(number, storage)
        if value.client_output is not None:
            storage = self._client_storage(value, self._request.outputs[value.client_output], is_output=True)
            if number not in self._shared or isinstance(storage.memory, SharedMemory | DeviceBuffer):
                return storage
            self._deferred_outputs[number] = storage
            return ValueStorage(None, dimensions=storage.dimensions, key=number)
        if value.constant is not None:
            constant = value.constant
            length = constant.length
            storage = ValueStorage(constant.memory, constant.offset, length, value.dimensions, length)
            return self._shared_copy(number, storage)
        if value.is_omitted or value.is_bound:
            return ValueStorage(None)
        if number in self._workspace.resident:
            # The device chooses the size of its own buffer.
            buffer = self._workspace.resident[number]
            return ValueStorage(buffer, 0, MAX_OPERAND_BYTES, value.dimensions)
        if number in self._offsets:
            size = value.size_bytes or 0
            return ValueStorage(self._workspace.arena, self._offsets[number], size, value.dimensions)
        return ValueStorage(None, dimensions=value.dimensions, key=number)

    def _shared_copy(self, number: int, storage: ValueStorage) -> ValueStorage:
        """Returns a copy of the value in shared memory, if a device needs it there."""
        is_usable_in_place = isinstance(storage.memory, SharedMemory | DeviceBuffer) or storage.memory is None
        if number not in self._shared or is_usable_in_place:
            return storage
        memory = self._workspace.growable_memory(number, storage.length)
        copy = ValueStorage(memory, 0, memory.size, storage.dimensions, storage.length)
        copy.fill(storage.content(), storage.dimensions)
        return copy

    def copy_back(self) -> None:
        """Copies outputs from shared memory to the client's buffers, unless one is too small."""
        for number, target in self._deferred_outputs.items():
            storage, output = self.storage[number], self._values[number].client_output
            if output is not None and storage.length > target.capacity:
                self.insufficient.add(output)
        if not self.insufficient:
            for number, target in self._deferred_outputs.items():
                target.fill(self.storage[number].content(), self.storage[number].dimensions)

    def _client_storage(self, value: PlanValue, argument: Argument, *, is_output: bool) -> ValueStorage:
        if argument.pool is None:
            return ValueStorage(None)
        what = f"{'output' if is_output else 'input'} {value.operand}"
        dimensions = merge_dimensions(value.dimensions, argument.dimensions, what)
        memory = self._request.pools[argument.pool]
        # The device chooses the size of its own buffer.
        capacity = MAX_OPERAND_BYTES if isinstance(memory, DeviceBuffer) else argument.length
        storage = ValueStorage(memory, argument.offset, capacity, dimensions)
        if not is_output:
            shape = OutputShape(dimensions=dimensions, length=argument.length)
            storage.length = shape.size_bytes(value.type) or 0
        return storage

    def reserve(self, number: int, size_bytes: int | None) -> None:
        """Ensures that a value of unknown size has that many bytes.

        With None it gets at least one element, and as much memory as it had before.
        """
        storage = self.storage[number]
        if storage.key is None:
            return
        if size_bytes is None:
            size_bytes = max(storage.capacity, _one_element(self._values[number].type))
            previous = self._workspace.growable.get(storage.key)
            size_bytes = size_bytes if previous is None else max(size_bytes, previous.size)
        if storage.memory is None or storage.capacity < size_bytes:
            storage.memory = self._workspace.growable_memory(storage.key, size_bytes)
            storage.capacity = storage.memory.size

    @property
    def has_abandoned(self) -> bool:
        """True if a failed driver may still write to memory of this execution."""
        return bool(self._workspace.abandoned)

    def replace_abandoned(self) -> None:
        """Replaces memory that a failed driver may still read or write.

        The values are copied to new memory. Late writes of the failed driver go to the old memory,
        which nothing reads any more.
        """
        for old in self._workspace.abandoned:
            new = self._workspace.replace(old)
            for storage in self.storage:
                if storage.memory is old:
                    storage.memory = new

    def grow(self, number: int, shape: OutputShape) -> None:
        """Enlarges a value that did not fit; a client's output moves to memory that can grow.

        Raises:
            OpFailed: the device's report is inconsistent, or demands no more memory than before.
            OutOfMemory: allocation failed.
        """
        storage, value = self.storage[number], self._values[number]
        self._check(number, shape.dimensions)
        is_known = shape.dimensions is not None and 0 not in shape.dimensions
        size_bytes = shape.size_bytes(value.type) if is_known else None
        is_client = storage.key is None and value.client_output is not None
        if (storage.key is None and not is_client) or (
            size_bytes is not None and size_bytes <= storage.capacity
        ):
            raise OpFailed(
                f"{value}: the device reports that {storage.capacity} bytes are too few, "
                f"which contradicts the reported shape {shape.dimensions}"
            )
        if is_client and value.client_output is not None:
            self.insufficient.add(value.client_output)
            storage = self.storage[number] = ValueStorage(None, capacity=storage.capacity, key=number)
        self.reserve(number, 2 * max(storage.capacity, 1) if size_bytes is None else size_bytes)

    def record_written(self, number: int, shape: OutputShape) -> None:
        """Records the shape of a value that a step has written.

        Raises:
            OpFailed: the shape contradicts the operand's declaration outside of the step's graph.
        """
        self._check(number, shape.dimensions)
        storage = self.storage[number]
        storage.dimensions = shape.dimensions
        storage.length = shape.size_bytes(self._values[number].type) or 0
        if number in self._workspace.resident:
            self._stale.add(number)

    @property
    def has_residents(self) -> bool:
        """True if any value stays on a device."""
        return bool(self._workspace.resident)

    def storage_on_host(self, number: int) -> ValueStorage:
        """Returns the storage of a value in host memory.

        A value on a device is copied to the host on the first use after it was written.

        Raises:
            Error: the device's buffer cannot be read.
        """
        storage = self.storage[number]
        buffer = self._workspace.resident.get(number)
        if buffer is None:
            return storage
        memory = self._workspace.growable_memory(-1 - number, storage.length)
        if number in self._stale:
            buffer.read(HostMemory(memory.view(0, storage.length)))
            self._stale.discard(number)
            self.host_copies += 1
        return ValueStorage(memory, 0, memory.size, storage.dimensions, storage.length)

    def copy(self, source: int, target: int) -> None:
        """Copies one value to another, at the end of a loop.

        Raises:
            OpFailed: the shapes of their operands differ.
            OutOfMemory: allocation failed.
        """
        origin = self.storage[source]
        content = origin.content()
        shape = OutputShape(dimensions=origin.dimensions, length=origin.length)
        self._check(target, shape.dimensions)
        self.reserve(target, origin.length)
        if self.storage[target].capacity < origin.length:
            self.grow(target, shape)
        self.storage[target].fill(content, origin.dimensions)
        self.record_written(target, shape)

    def _check(self, number: int, dimensions: Dimensions) -> None:
        require_agreement(self._required_shapes[number], dimensions, self._values[number])

    def output_shapes(self, count: int) -> tuple[OutputShape, ...]:
        """Returns the shapes of the model's `count` outputs."""
        shapes: dict[int, OutputShape] = {}
        for value, storage in zip(self._values, self.storage, strict=True):
            if value.client_output is not None:
                shapes[value.client_output] = OutputShape(
                    dimensions=storage.dimensions,
                    sufficient=value.client_output not in self.insufficient,
                    length=storage.length if value.type is OperandType.TENSOR_STRING else None,
                )
        return tuple(shapes[number] for number in range(count))


def require_agreement(declared: Dimensions, actual: Dimensions, what: object) -> None:
    """Raises OpFailed unless the actual shape agrees with the declared dimensions."""
    if actual is None or declared is None or declared == actual:
        return
    if len(declared) != len(actual) or any(d not in (0, a) for d, a in zip(declared, actual, strict=True)):
        raise OpFailed(f"{what} has shape {list(actual)}; {list(declared)} is declared (0 allows any size)")


def _one_element(operand_type: OperandType) -> int:
    return 1 if operand_type is OperandType.TENSOR_STRING else operand_type.dtype.itemsize
