"""The calls for shared memory."""

from typing import Any, Protocol

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.messages import message_type
from neurald.service.inference.protocol.regions import SHARED_MEMORY_IS_DISABLED, RegionTable
from neurald.service.inference.protocol.tensors import quoted


class Regions(RegionTable, Protocol):
    """Regions of shared memory that clients register and unregister."""

    def status(self) -> dict[str, tuple[str, int, int]]:
        """Returns the key, the offset and the size of each region by name."""

    def register(self, name: str, key: str, offset: int, size: int) -> None:
        """Registers a region; raises ServiceError if that is not possible."""

    def unregister(self, name: str) -> None:
        """Unregisters a region, if there is one; all of them if the name is empty.

        One that requests use is unregistered when the last of them has ended.
        """


class RegionCalls:
    """Answers the calls for shared memory with messages of the protocol.

    Args:
        regions: None for a service without shared memory.
    """

    def __init__(self, regions: Regions | None = None) -> None:
        self._regions = regions

    def status(self, name: str) -> Any:
        """Returns a SystemSharedMemoryStatusResponse."""
        response = message_type("SystemSharedMemoryStatusResponse")()
        known = {} if self._regions is None else self._regions.status()
        if name and name not in known:
            raise ServiceError(
                Status.NOT_FOUND, f"Unable to find system shared memory region: {quoted(name)}"
            )
        for each, (key, offset, size) in known.items():
            if name in ("", each):
                entry = response.regions[each]
                entry.name, entry.key, entry.offset, entry.byte_size = each, key, offset, size
        return response

    def register(self, name: str, key: str, offset: int, size: int) -> Any:
        """Returns a SystemSharedMemoryRegisterResponse."""
        self._enabled().register(name, key, offset, size)
        return message_type("SystemSharedMemoryRegisterResponse")()

    def unregister(self, name: str) -> Any:
        """Returns a SystemSharedMemoryUnregisterResponse, also without such a region."""
        self._enabled().unregister(name)
        return message_type("SystemSharedMemoryUnregisterResponse")()

    def cuda_status(self, name: str) -> Any:
        """Returns a CudaSharedMemoryStatusResponse, which has no region."""
        if name:
            raise ServiceError(Status.NOT_FOUND, f"Unable to find cuda shared memory region: {quoted(name)}")
        return message_type("CudaSharedMemoryStatusResponse")()

    def register_cuda(self, name: str) -> Any:
        """Raises ServiceError: memory of CUDA cannot be registered."""
        self._enabled()
        raise ServiceError(
            Status.INVALID,
            "failed to register shared memory region: invalid args; failed to register CUDA shared memory region: "
            f"{quoted(name)}, GPUs not supported",
        )

    def unregister_cuda(self) -> Any:
        """Returns a CudaSharedMemoryUnregisterResponse: there is nothing to unregister."""
        self._enabled()
        return message_type("CudaSharedMemoryUnregisterResponse")()

    def _enabled(self) -> Regions:
        if self._regions is None:
            raise ServiceError(Status.UNIMPLEMENTED, SHARED_MEMORY_IS_DISABLED)
        return self._regions
