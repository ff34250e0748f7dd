"""The arguments of one execution, as the places of their bytes in memories."""

from msgspec import Struct

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


class Request(Struct, frozen=True, kw_only=True, weakref=True):
    """The arguments of one execution, in the order of the model's inputs and outputs."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    pools: tuple[Memory, ...]
