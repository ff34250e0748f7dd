"""Memory owned by a device, in which values stay between executions (`IBuffer.aidl`)."""

from abc import ABC, abstractmethod

from neurald.hal.errors import Unmappable
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Dimensions


class DeviceBuffer(Memory, ABC):
    """Memory that only its device can access; the base class for results of `Device.allocate`.

    Drivers that allocate host memory need no subclass. An argument in such a buffer has offset and
    length 0: it is the whole buffer, and its dimensions determine how much of it is used. Whether
    the buffer holds a value, which one, and whether it is in use is checked before a driver sees it
    (`neurald.hal.buffers.tracked_buffer`). Methods may be called by any thread.

    Args:
        size_bytes: its size in the device's memory, 0 if unknown.
    """

    def __init__(self, size_bytes: int = 0) -> None:
        super().__init__(memoryview(bytearray()))
        self._size_bytes = size_bytes

    @property
    def size(self) -> int:
        """The size in bytes, 0 if unknown."""
        return self._size_bytes

    @property
    def is_lost(self) -> bool:
        """True if it was lost with its driver, as far as is known without a call."""
        return False

    def view(self, offset: int = 0, length: int | None = None) -> memoryview:
        """Always fails: the bytes are not in this process.

        Raises:
            Unmappable: always.
        """
        raise Unmappable("memory of a device cannot be mapped; copy it to host memory")

    @abstractmethod
    def write(self, source: Memory, dimensions: Dimensions = None) -> None:
        """Copies a value from host memory (`IBuffer.copyFrom`).

        Args:
            source: host memory with exactly the value's bytes.
            dimensions: the dimensions of the value, fully specified; optional if they were
                specified at allocation.

        Raises:
            DeadObject: the driver is gone.
            Error: any other failure; the buffer then holds no value.
        """

    @abstractmethod
    def read(self, target: Memory) -> None:
        """Copies its value to host memory of exactly the same size (`IBuffer.copyTo`).

        Raises:
            DeadObject: the driver is gone.
            Error: any other failure.
        """
