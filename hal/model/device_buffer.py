"""Memory of a device's own, in which values stay on the device from one execution to the next (`IBuffer.aidl`)."""

from abc import ABC, abstractmethod

from neurald.hal.errors import Unmappable
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Dimensions


class DeviceBuffer(Memory, ABC):
    """Memory that only its device can reach. Drivers derive from it what `Device.allocate` returns, unless that is host memory.

    An argument that lies in one has offset and length 0: it is the whole buffer, and its dimensions say how much of that
    counts. Whether it holds a value, which one, and who uses it meanwhile is checked before a driver sees it
    (`neurald.hal.buffers.tracked_buffer`). Methods may be called by any thread.

    Args:
        size_bytes: what it takes of the device's memory, 0 where that is not known.
    """

    def __init__(self, size_bytes: int = 0) -> None:
        super().__init__(memoryview(bytearray()))
        self._size_bytes = size_bytes

    @property
    def size(self) -> int:
        """Bytes that it takes, 0 where that is not known."""
        return self._size_bytes

    @property
    def is_lost(self) -> bool:
        """Whether it is gone for good with the driver that it belonged to, as far as can be seen without a call."""
        return False

    def view(self, offset: int = 0, length: int | None = None) -> memoryview:
        """Its bytes are not here.

        Raises:
            Unmappable: always.
        """
        raise Unmappable("memory of a device cannot be mapped; copy it to host memory")

    @abstractmethod
    def write(self, source: Memory, dimensions: Dimensions = None) -> None:
        """Takes a value (`IBuffer.copyFrom`).

        Args:
            source: memory of the host with exactly the value's bytes.
            dimensions: of the value, fully specified; may be missing where they were when it was allocated.

        Raises:
            DeadObject: the driver is gone.
            Error: anything else that went wrong; it then holds no value.
        """

    @abstractmethod
    def read(self, target: Memory) -> None:
        """Gives its value (`IBuffer.copyTo`) to memory of the host that has exactly as many bytes.

        Raises:
            DeadObject: the driver is gone.
            Error: anything else that went wrong.
        """
