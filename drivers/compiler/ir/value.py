"""The values that nodes read and give: dense arrays of one type of number."""

import math
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar

Shape = tuple[int, ...]


@dataclass(eq=False, slots=True, weakref_slot=True)
class Value:
    """A dense array, row by row. Compared by identity.

    Attributes:
        constant: its elements, where the model gives them.
        name: for people.
    """

    shape: Shape
    type: Scalar
    constant: np.ndarray | None = None
    name: str = ""

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Of all elements, as they are stored."""
        return self.count * self.type.size_bytes
