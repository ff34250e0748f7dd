"""One value in the memories of several devices, which are kept coherent.

Each device that has memory of its own has a *place* there; all others share a place on the host,
which they can map. A step that writes the value writes it to its device's place, and all other
places are stale. A step that reads it from a stale place has it copied there first. So a value is
copied only if it is read elsewhere than where it was written, and once for each such place.
"""

from collections.abc import Callable, Mapping, Sequence

from neurald.hal.errors import DeadObject, LostValue, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions, OperandType, byte_size
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.hal.validation.request_rules import merge_dimensions

#: Key of the place on the host; those of devices are what `id` returns.
HOST = 0


class CoherentMemory(DeviceBuffer):
    """A value in several places. Thread-safe for readers; a writer is alone.

    Args:
        places: allocates the memory of each place, by `id` of its device or `HOST`.
        size_bytes: the size in bytes of the value, 0 if unknown.

    Attributes:
        copies: how often the value was copied from one place to another.
        copied_bytes: how many bytes that were.
    """

    def __init__(self, places: Mapping[int, Callable[[], Memory]], size_bytes: int = 0) -> None:
        super().__init__(size_bytes)
        self._allocate = dict(places)
        self._places = {key: allocate() for key, allocate in places.items()}
        self._valid: set[int] = set()
        self._dimensions: Dimensions = None
        self._lock = forkable_lock()
        self.copies = 0
        self.copied_bytes = 0

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys of the places."""
        return tuple(self._allocate)

    @property
    def is_lost(self) -> bool:
        """True if a place was lost with its driver."""
        return any(isinstance(each, DeviceBuffer) and each.is_lost for each in self._places.values())

    def forget_lost(self) -> bool:
        """Forgets lost places, which are allocated when they are needed again.

        Returns:
            Whether the value still is in another place.
        """
        with self._lock:
            for key, memory in tuple(self._places.items()):
                if isinstance(memory, DeviceBuffer) and memory.is_lost:
                    self._valid.discard(key)
                    del self._places[key]
            return bool(self._valid)

    def place_of(self, device: int) -> int:
        """Returns the place that a device uses."""
        return device if device in self._allocate else HOST

    def for_reading(self, device: int, kind: OperandType, dimensions: tuple[int, ...]) -> Memory:
        """Returns the memory in which a device reads the value, with the value copied if necessary.

        Args:
            device: its `id`.
            kind, dimensions: the kind and dimensions of the value.

        Raises:
            OpFailed: there is no value, or no such place.
            LostValue: the places that had the value are lost with their devices.
            Error: the device failed.
        """
        place = self.place_of(device)
        with self._lock:
            target = self._place(place)
            if place not in self._valid:
                size = byte_size(kind, dimensions)
                self._copy_to(target, size, dimensions)
                self.copies += 1
                self.copied_bytes += size
                self._valid.add(place)
            return target

    def for_writing(self, device: int) -> Memory:
        """Returns the memory to which a device writes the value; it holds none until `wrote`.

        Raises:
            OpFailed: there is no such place.
        """
        with self._lock:
            self._valid.clear()
            return self._place(self.place_of(device))

    def wrote(self, device: int) -> None:
        """Records that a device has written the value."""
        with self._lock:
            self._valid = {self.place_of(device)}

    def write(self, source: Memory, dimensions: Dimensions = None) -> None:
        """See `DeviceBuffer.write`. The value is on the host then, if there is such a place."""
        with self._lock:
            place = HOST if HOST in self._allocate else next(iter(self._allocate))
            self._valid.clear()
            _copy(source, self._place(place), source.size, dimensions)
            self._valid.add(place)

    def read(self, target: Memory) -> None:
        """See `DeviceBuffer.read`."""
        with self._lock:
            self._copy_to(target, target.size, None)

    def _place(self, key: int) -> Memory:
        found = self._places.get(key)
        if found is None and key in self._allocate:
            found = self._places[key] = self._allocate[key]()
        if found is None:
            raise OpFailed("the memory has no place for this device; it was not declared for it")
        return found

    def _copy_to(self, target: Memory, size: int, dimensions: Dimensions) -> None:
        """Copies the value from a place that has it, or from another one if that is lost."""
        while True:
            key = self._valid_place()
            try:
                _copy(self._places[key], target, size, dimensions)
            except LostValue:
                self._valid.discard(key)
                if not self._valid:
                    raise
            else:
                return

    def _valid_place(self) -> int:
        # Data on the host are copied once, and data in a device are copied twice if they go to
        # another one.
        if HOST in self._valid:
            return HOST
        if not self._valid:
            raise OpFailed("the memory holds no value in any of its places")
        return min(self._valid)


def _copy(source: Memory, target: Memory, size: int, dimensions: Dimensions) -> None:
    """Copies a value of this many bytes from one memory to another.

    Raises:
        LostValue: the source is lost with its device.
        Error: a device failed.
    """
    if isinstance(target, DeviceBuffer):
        if isinstance(source, DeviceBuffer):
            # Devices cannot access each other's memory.
            bounce = HostMemory(bytearray(size))
            _read(source, bounce)
            source = bounce
        target.write(HostMemory(source.view(0, size)), dimensions)
    elif isinstance(source, DeviceBuffer):
        _read(source, HostMemory(target.view(0, size)))
    else:
        target.view(0, size)[:] = source.view(0, size)


def _read(source: DeviceBuffer, target: Memory) -> None:
    try:
        source.read(target)
    except DeadObject as error:
        raise LostValue(
            f"the only copy of a value was in a device's memory, which is lost: {error}; write it again"
        ) from None


class PlacedRequest:
    """A request for one device, with the memories of its places instead of coherent ones.

    Args:
        request: the request for the device.
        graph: the graph of the request.
        device: its `id`, or `HOST`.

    Attributes:
        request: the one to run instead.

    Raises:
        OpFailed: an input has no value.
        LostValue: an input's value is lost with another device.
        Error: the device failed during a copy.
    """

    def __init__(self, request: Request, graph: Subgraph, device: int) -> None:
        self._device = device
        pools = list(request.pools)
        self._written: list[CoherentMemory] = []

        def placed(argument: Argument, memory: Memory, length: int) -> Argument:
            pools.append(memory)
            length = 0 if isinstance(memory, DeviceBuffer) else length
            return replace(argument, pool=len(pools) - 1, offset=0, length=length)

        inputs = list(request.inputs)
        for position, (argument, index) in enumerate(zip(inputs, graph.inputs, strict=True)):
            memory = _coherent(request, argument)
            if memory is not None:
                operand = graph.operands[index]
                dimensions = (
                    merge_dimensions(operand.dimensions, argument.dimensions, f"input {position}") or ()
                )
                found = memory.for_reading(device, operand.type, dimensions)
                inputs[position] = placed(argument, found, byte_size(operand.type, dimensions))
        outputs = list(request.outputs)
        for position, argument in enumerate(outputs):
            memory = _coherent(request, argument)
            if memory is not None:
                found = memory.for_writing(device)
                outputs[position] = placed(argument, found, found.size)
                self._written.append(memory)
        self.request = Request(inputs=tuple(inputs), outputs=tuple(outputs), pools=tuple(pools))

    def wrote(self) -> None:
        """Records that the device has written its outputs."""
        for memory in self._written:
            memory.wrote(self._device)


def is_coherent(pools: Sequence[Memory]) -> bool:
    """Returns whether any of the memories is one of several places."""
    return any(isinstance(pool, CoherentMemory) for pool in pools)


def _coherent(request: Request, argument: Argument) -> CoherentMemory | None:
    pool = None if argument.pool is None else request.pools[argument.pool]
    return pool if isinstance(pool, CoherentMemory) else None
