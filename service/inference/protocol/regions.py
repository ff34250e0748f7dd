"""The facts about shared memory that parsing a request needs."""

from collections.abc import Mapping
from typing import Final, Protocol

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import Parameter, RegionPart, quoted

#: The parameter of a tensor with the name of its region.
REGION: Final = "shared_memory_region"
#: Why no call for shared memory is answered.
SHARED_MEMORY_IS_DISABLED: Final = (
    "Client shared memory is disabled. The operator of this service can allow it with --allow-client-shm."
)


#: The parameter of a tensor with the size of its part of the region.
PART_SIZE: Final = "shared_memory_byte_size"


class RegionTable(Protocol):
    """The regions of shared memory that clients have registered."""

    def part_of(self, tensor: str, parameters: Mapping[str, Parameter]) -> RegionPart | None:
        """Returns the part of a region that a tensor's parameters name; None if they name none.

        Raises:
            ServiceError: there is no such region, or the part is not in it.
        """


class NoRegions:
    """The table of a service that has no shared memory."""

    def part_of(self, tensor: str, parameters: Mapping[str, Parameter]) -> RegionPart | None:
        """See `RegionTable.part_of`."""
        if REGION not in parameters:
            return None
        raise ServiceError(
            Status.INVALID,
            f"{quoted(tensor)} is in shared memory: {SHARED_MEMORY_IS_DISABLED}",
        )
