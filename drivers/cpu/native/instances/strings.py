"""The sources of strings of an instance, and conversions of references in Python.

See `neurald.drivers.cpu.target.string_sources` for the words, and
`neurald.drivers.compiler.ir.string_references` for references.
"""

import array
import ctypes
from collections.abc import Sequence
from typing import Any, Final

from neurald.drivers.compiler.ir.string_references import POSITION_BITS
from neurald.drivers.cpu.target.string_sources import HEAD_WORDS, SOURCE_WORDS
from neurald.hal.lazy_numpy import Array, np

_WORD_BYTES: Final = 8
_POSITION_MASK: Final = (1 << POSITION_BITS) - 1


class StringSources:
    """The sources of strings in the memory of an instance.

    Args:
        constants: the constant strings without the first, empty one.
        inputs: number of inputs; each is a source, even if it has no strings.
    """

    def __init__(self, constants: Sequence[bytes], inputs: int) -> None:
        count = 1 + len(constants)
        objects: list[Any] = [b"", *constants]
        self._constants = (ctypes.py_object * count)(*objects)
        self.words: Final = array.array(
            "q", (1 + inputs, count, ctypes.addressof(self._constants), *[0] * (SOURCE_WORDS * inputs))
        )
        self.address, _ = self.words.buffer_info()

    def source(self, port: int) -> int:
        """Returns the address of the words of an input's source."""
        return self.address + _WORD_BYTES * (HEAD_WORDS + SOURCE_WORDS * (1 + port))

    def set_source(self, port: int, count: int, address: int) -> None:
        """Makes strings at an address, which the caller keeps, the source of an input."""
        start = HEAD_WORDS + SOURCE_WORDS * (1 + port)
        self.words[start : start + SOURCE_WORDS] = array.array("q", (count, address))


def first_reference(port: int) -> int:
    """Returns the reference to the first string of an input."""
    return 1 + port << POSITION_BITS


def resolved(references: Array, constants: Sequence[bytes], inputs: Sequence[Array]) -> Array:
    """Returns the strings that references refer to.

    Args:
        references: references of any shape.
        constants: see `StringSources`.
        inputs: the arrays of all inputs.
    """
    flat = references.reshape(-1)
    named = flat >> POSITION_BITS
    result = np.full(flat.size, b"", object)
    for source in np.unique(named).tolist():
        if not 0 <= source <= len(inputs):
            continue
        found = _as_objects(constants) if not source else inputs[source - 1].reshape(-1)
        if found.dtype == object:
            positions = flat & _POSITION_MASK
            chosen = (named == source) & (positions < found.size)
            result[chosen] = found[positions[chosen]]
    return result.reshape(references.shape)


def _as_objects(constants: Sequence[bytes]) -> Array:
    objects = np.empty(1 + len(constants), object)
    objects[:] = (b"", *constants)
    return objects
