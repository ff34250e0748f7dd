"""Random choices for generated cases, which a seed determines."""

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Shape

_T = TypeVar("_T")

#: Lengths of a dimension. Most are odd, to exercise the remainders of vectorised loops.
_LENGTHS = (1, 2, 3, 3, 4, 5, 7)

#: Choices that can be pinned besides the values of parameters:
#: - the number of inputs, and the rank of the first tensor;
#: - whether a dimension has length 0, and whether one is long;
#: - the name of an optional input to omit, or to give;
#: - how two tensors broadcast, see `BROADCASTS`;
#: - the scale of quantised tensors.
COUNT, RANK, EMPTY, LONG = "#count", "#rank", "#empty", "#long"
OMITTED, GIVEN, BROADCAST, SCALE = "#omitted", "#given", "#broadcast", "#scale"
#: How two tensors broadcast: equal shapes, a lower rank of one, or lengths of 1 in one or both.
BROADCASTS = ("equal", "lower second", "lower first", "ones in second", "ones in first", "ones in both")
#: A length that exceeds the vectors of all processors and is not a multiple of theirs.
LONG_LENGTH = 67
_LONG_CHANNELS = 67


class Draw:
    """Makes random choices, which a seed determines.

    Args:
        seed: the seed, any values that `str` distinguishes.
        pinned: choices that are made in advance: values by parameter name, and the choices above,
            whose names begin with #.
    """

    def __init__(self, *seed: object, pinned: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.pinned = pinned
        self._random = random.Random(":".join(map(str, seed)))  # noqa: S311 - repeatable, no secret
        self._generator = np.random.default_rng(self._random.getrandbits(64))

    def integer(self, low: int, high: int) -> int:
        """Returns an integer from `low` to `high`, inclusive."""
        return self._random.randint(low, high)

    def chance(self, probability: float) -> bool:
        """Returns True with this probability."""
        return self._random.random() < probability

    def choice(self, options: Sequence[_T]) -> _T:
        """Returns one of the options."""
        return self._random.choice(options)

    def sample(self, options: Sequence[_T], count: int) -> list[_T]:
        """Returns this many different options, in random order."""
        return self._random.sample(list(options), count)

    def length(self) -> int:
        """Returns a small length of a dimension."""
        return self.choice(_LENGTHS)

    def real(self, low: float, high: float) -> float:
        """Returns a float from `low` to `high`, rounded to float32."""
        return float(np.float32(self._random.uniform(low, high)))

    def batches(self, maximum: int = 2) -> int:
        """Returns the number of images, which is 0 if an empty tensor is pinned."""
        return 0 if self.pinned.get(EMPTY) else self.integer(1, maximum)

    def channels(self, maximum: int) -> int:
        """Returns a number of channels, which is high if a long dimension is pinned.

        Use it for dimensions that are not summed over, since long sums depend on the order of
        additions.
        """
        return _LONG_CHANNELS if self.pinned.get(LONG) else self.integer(1, maximum)

    def lengths(self, low: int, high: int) -> Shape:
        """Returns a shape with elements and a rank from `low` to `high`.

        A pinned rank replaces the drawn one. A pinned choice can make a dimension empty or long.
        """
        rank = self.integer(low, high) if (pinned := self.pinned.get(RANK)) is None else pinned
        # A recipe may support fewer ranks than the operation, so the pinned one may exceed `high`.
        lengths = [self.length() for _ in range(rank if rank >= low else low)]
        if lengths and self.pinned.get(LONG):
            lengths[-1] = LONG_LENGTH
        if lengths and self.pinned.get(EMPTY):
            lengths[self.integer(0, len(lengths) - 1)] = 0
        return tuple(lengths)

    def shape(self, low: int, high: int) -> Shape:
        """Returns a shape with a rank from `low` to `high`, rarely above 4.

        Without pinned choices, one in twelve shapes has no elements.
        """
        if self.pinned:
            fits = low <= self.pinned.get(RANK, low) <= high
            return self.lengths(low, min(high, 4) if low <= 4 else low) if fits else self._small(low, high)
        most = min(high, 6 if self.chance(0.1) else 4)
        lengths = [self.length() for _ in range(self.integer(min(low, most), most))]
        if lengths and self.chance(1 / 12):
            lengths[self.integer(0, len(lengths) - 1)] = 0
        return tuple(lengths)

    def _small(self, low: int, high: int) -> Shape:
        return tuple(self.length() for _ in range(self.integer(low, max(low, min(high, 4)))))

    def pair(self, low: int, high: int) -> tuple[Shape, Shape]:
        """Returns two shapes that broadcast, in the pinned way if there is one."""
        whole = self.shape(low, high)
        how = self.pinned.get(BROADCAST)
        if how is None:
            first, second = self.partner(whole, low), self.partner(whole, low)
            return (whole, second) if self.chance(0.5) else (first, whole)
        ones = tuple(1 if self.chance(0.5) else length for length in whole)
        lower = whole[1:] if len(whole) > low else whole
        even = tuple(1 if i % 2 else length for i, length in enumerate(whole))
        odd = tuple(length if i % 2 else 1 for i, length in enumerate(whole))
        return {
            "equal": (whole, whole),
            "lower second": (whole, lower),
            "lower first": (lower, whole),
            "ones in second": (whole, ones),
            "ones in first": (ones, whole),
            "ones in both": (even, odd),
        }[str(how)]

    def partner(self, shape: Shape, low: int = 0) -> Shape:
        """Returns a shape with a rank of at least `low` that broadcasts to `shape`."""
        lengths = [1 if self.chance(0.3) else length for length in shape]
        dropped = self.integer(0, len(lengths) - low) if self.chance(0.4) and len(lengths) >= low else 0
        return tuple(lengths[dropped:])

    def array(self, kind: OperandType, shape: Shape, spread: float = 2.0, step: float = 0.0) -> Array:
        """Returns random elements of a tensor.

        Integers of 8 and 16 bits have any value, wider integers have small values.

        Args:
            kind: the type of the tensor.
            shape: its shape.
            spread: the standard deviation of floats.
            step: floats are multiples of this number; 0 draws any floats.
        """
        dtype = kind.dtype
        if dtype.kind == "b":
            return np.asarray(self._generator.random(shape) < 0.5)
        if dtype.kind == "c":
            parts = self._generator.normal(size=(2, *shape))
            return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
        if dtype.kind == "f":
            floats = np.asarray(self._generator.normal(scale=spread, size=shape))
            # Adding 0 converts negative zero to zero.
            return (np.round(floats / step) * step + 0.0 if step else floats).astype(dtype)
        if dtype.itemsize > 2:
            low = 0 if dtype.kind == "u" else -9
            return np.asarray(self._generator.integers(low, 10, shape)).astype(dtype)
        limits = np.iinfo(dtype.name)
        return np.asarray(self._generator.integers(limits.min, limits.max + 1, shape)).astype(dtype)
