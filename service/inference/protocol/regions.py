"""What parsing a request needs to know of shared memory."""

from collections.abc import Mapping
from typing import Protocol

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import Parameter, RegionPart, quoted


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
        if "shared_memory_region" not in parameters:
            return None
        raise ServiceError(
            Status.INVALID,
            f"{quoted(tensor)} is in shared memory, which this service does not use; its operator can allow "
            "it with --allow-client-shm",
        )
