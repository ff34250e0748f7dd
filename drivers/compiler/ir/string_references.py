"""Strings in the form that kernels compute with: references, which are moved like other numbers.

A reference is an INT64 that names a *source* and a position among its strings:
source × 2^32 + position. Source 0 has the constant strings of a step, of which the first one is
empty, so that 0 refers to an empty string. Each input of strings is another source. The strings
stay where they are: only kernels that compare them read their bytes, by the addresses in the memory
of the step. A reference to a string that does not exist, which only damaged constants can contain,
stands for the empty string.
"""

from collections.abc import Iterable
from typing import Any, Final

from neurald.hal.lazy_numpy import Array as Array
from neurald.hal.lazy_numpy import np
from neurald.hal.model.types import OperandType, byte_size

#: The bits of a reference below its source.
POSITION_BITS: Final = 32
_REFERENCE: Final = "<i8"


def is_string(kind: OperandType) -> bool:
    """Returns True for tensors of strings."""
    return kind is OperandType.TENSOR_STRING


def stored_dtype(kind: OperandType) -> "np.dtype[Any]":
    """Returns the type of an operand's elements in the memory of a step."""
    return np.dtype(_REFERENCE) if is_string(kind) else kind.dtype


def stored_bytes(kind: OperandType, dimensions: tuple[int, ...]) -> int:
    """Returns the size of an operand in the memory of a step."""
    if is_string(kind):
        return byte_size(OperandType.TENSOR_INT64, dimensions)
    return byte_size(kind, dimensions)


class StringConstants:
    """Numbers the constant strings of a step while it is compiled."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {b"": 0}

    @property
    def strings(self) -> tuple[bytes, ...]:
        """The strings but the first, which is empty, in the order of their positions."""
        return tuple(self._numbers)[1:]

    def references(self, strings: Array) -> Array:
        """Returns references to the strings of an array."""
        numbers = self._numbers
        found = [numbers.setdefault(each, len(numbers)) for each in strings.reshape(-1).tolist()]
        return np.array(found, _REFERENCE).reshape(strings.shape)

    def of(self, references: Array) -> Array:
        """Returns the constant strings that references refer to."""
        return as_array(map(tuple(self._numbers).__getitem__, references.reshape(-1).tolist()), references)


def as_array(strings: Iterable[bytes], like: Array) -> Array:
    """Returns strings as an array of the shape of another."""
    return np.fromiter(strings, object, like.size).reshape(like.shape)
