"""The arguments of one execution, as the places of their bytes in memories."""

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Dimensions


class Argument(Struct, frozen=True, kw_only=True):
    """One input or output of a request.

    Attributes:
        pool: index into the request's pools; None for an omitted optional argument.
        offset, length: the bytes of the argument in that pool.
        dimensions: its shape; None for the model's. Outputs may have unspecified dimensions (0).
        padding: number of bytes after the argument that the device may read or overwrite.
    """

    pool: int | None = None
    offset: int = 0
    length: int = 0
    dimensions: Dimensions = None
    padding: int = 0

    def address_in(self, memory: Memory, size_bytes: int) -> int:
        """Returns the address of the argument.

        Args:
            memory: its pool, which is memory of the host.
            size_bytes: how many bytes are read or written.

        Raises:
            BadData: these bytes do not lie inside the memory.
        """
        if not 0 <= self.offset <= memory.size - size_bytes:
            raise BadData(
                f"an argument of {size_bytes} bytes at offset {self.offset} exceeds its memory of {memory.size} bytes"
            )
        return memory.address + self.offset


class Request(Struct, frozen=True, kw_only=True, weakref=True):
    """The arguments of one execution, in the order of the model's inputs and outputs."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    pools: tuple[Memory, ...]
