"""The values that nodes read and write: dense arrays of one scalar type."""

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from neurald.drivers.compiler.ir.scalar import Scalar

Shape = tuple[int, ...]


class Value(Struct, eq=False, weakref=True):
    """A dense row-major array. Compared by identity.

    Attributes:
        constant: the elements, if they are known at compile time.
        name: the name for diagnostics.
    """

    shape: Shape
    type: "Scalar"
    constant: np.ndarray | None = None
    name: str = ""

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Size of all elements as stored."""
        return self.count * self.type.size_bytes
