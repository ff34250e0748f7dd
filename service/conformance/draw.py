"""Chance for generated cases: everything follows from a seed."""

import random
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from neurald.hal.operations.call import Array, Shape
from neurald.hal.types import OperandType

_T = TypeVar("_T")

#: Lengths of a dimension; odd ones, since whoever vectorises has his remainders there.
_LENGTHS = (1, 2, 3, 3, 4, 5, 7)


class Draw:
    """Choices that follow from a seed."""

    def __init__(self, *seed: object) -> None:
        self._random = random.Random(":".join(map(str, seed)))  # noqa: S311 - repeatable, no secret
        self._generator = np.random.default_rng(self._random.getrandbits(64))

    def integer(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return self._random.randint(low, high)

    def chance(self, share: float) -> bool:
        """True in that share of cases."""
        return self._random.random() < share

    def choice(self, options: Sequence[_T]) -> _T:
        """One of them."""
        return self._random.choice(options)

    def sample(self, options: Sequence[_T], count: int) -> list[_T]:
        """So many different ones, in any order."""
        return self._random.sample(list(options), count)

    def length(self) -> int:
        """A small length of a dimension."""
        return self.choice(_LENGTHS)

    def real(self, low: float, high: float) -> float:
        """A number between the two."""
        return float(np.float32(self._random.uniform(low, high)))

    def shape(self, low: int, high: int) -> Shape:
        """A shape of a rank from `low` to `high`, but seldom of more than 4; one in twelve has no elements."""
        most = min(high, 6 if self.chance(0.1) else 4)
        lengths = [self.length() for _ in range(self.integer(min(low, most), most))]
        if lengths and self.chance(1 / 12):
            lengths[self.integer(0, len(lengths) - 1)] = 0
        return tuple(lengths)

    def partner(self, shape: Shape, low: int = 0) -> Shape:
        """A shape that broadcasts with another one to that, of a rank of at least `low`."""
        lengths = [1 if self.chance(0.3) else length for length in shape]
        dropped = self.integer(0, len(lengths) - low) if self.chance(0.4) and len(lengths) >= low else 0
        return tuple(lengths[dropped:])

    def array(self, kind: OperandType, shape: Shape) -> Array:
        """Random elements as they are stored: integers of 8 and 16 bits over their whole range, wider ones small."""
        dtype = kind.dtype
        if dtype.kind == "b":
            return self._generator.random(shape) < 0.5
        if dtype.kind == "c":
            parts = self._generator.normal(size=(2, *shape))
            return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
        if dtype.kind == "f":
            return np.asarray(self._generator.normal(scale=2.0, size=shape)).astype(dtype)
        if dtype.itemsize > 2:
            low = 0 if dtype.kind == "u" else -9
            return np.asarray(self._generator.integers(low, 10, shape)).astype(dtype)
        limits = np.iinfo(dtype.name)
        return np.asarray(self._generator.integers(limits.min, limits.max + 1, shape)).astype(dtype)
