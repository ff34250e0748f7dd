"""Fills string outputs, which are arrays of objects, from buffers that grow as needed."""

import math
from collections.abc import Mapping

from neurald.hal.device import ExecutionResult
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.string_memory import StringMemory
from neurald.hal.model.strings import decode_strings, least_bytes
from neurald.hal.model.types import OperandType
from neurald.hal.records import replace

#: Initial number of bytes per string.
_FIRST_BYTES = 32


class StringOutput:
    """One string output of an execution.

    Args:
        array: C-contiguous, of objects. If the model leaves the shape open, the strings are stored
            from the start of the array.

    Attributes:
        memory: the buffer that a device writes the strings to.
    """

    def __init__(self, array: Array) -> None:
        self._array = array
        self.memory = self._memory(least_bytes(array.size) + _FIRST_BYTES * array.size)

    def holds(self, dimensions: tuple[int, ...] | None) -> bool:
        """Returns True if the array has an element for each string of an output of that shape."""
        return dimensions is not None and math.prod(dimensions) <= self._array.size

    def grow(self, size_bytes: int) -> None:
        """Replaces the buffer by one of at least that many bytes."""
        self.memory = self._memory(size_bytes)

    def fill(self, dimensions: tuple[int, ...]) -> None:
        """Decodes the strings that a device has written to the buffer.

        Raises:
            OpFailed: the bytes are not valid strings of that shape.
        """
        try:
            strings = decode_strings(self.memory.view(), dimensions)
        except BadData as error:
            raise OpFailed(f"the device wrote invalid strings: {error}") from None
        self.memory.strings[: strings.size] = strings.reshape(-1)

    def _memory(self, size_bytes: int) -> StringMemory:
        return StringMemory(np.zeros(size_bytes, np.uint8), self._array)


def checked_result(result: ExecutionResult, outputs: Mapping[int, StringOutput]) -> ExecutionResult:
    """Marks outputs as insufficient if their arrays have too few elements for the strings."""
    found = result.output_shapes
    short = [
        n for n, output in outputs.items() if found[n].sufficient and not output.holds(found[n].dimensions)
    ]
    if not short:
        return result
    shapes = tuple(
        replace(shape, sufficient=False) if position in short else shape
        for position, shape in enumerate(found)
    )
    return replace(result, output_shapes=shapes)


def grow_outputs(result: ExecutionResult, outputs: Mapping[int, StringOutput]) -> bool:
    """Enlarges the buffers of string outputs that were too small.

    Returns:
        False, and changes nothing, if there are none, if another output was too small, or if an
            array has too few elements.
    """
    short = [n for n, shape in enumerate(result.output_shapes) if not shape.sufficient]
    if not short or not all(
        n in outputs and outputs[n].holds(result.output_shapes[n].dimensions) for n in short
    ):
        return False
    for position in short:
        size_bytes = result.output_shapes[position].size_bytes(OperandType.TENSOR_STRING)
        outputs[position].grow(size_bytes or 0)
    return True
