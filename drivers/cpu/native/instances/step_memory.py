"""The memory of an instance of a step."""

import array
import mmap
from typing import Any

from neurald.hal.accounting.account import reserve
from neurald.hal.errors import OutOfMemory
from neurald.hal.memory.private_memory import anonymous, buffer_address


class StepMemory:
    """Zeroed, page-aligned memory.

    Attributes:
        address: the address of its first byte.
    """

    def __init__(self, size_bytes: int) -> None:
        self._reservation = reserve(size_bytes, "values of a compiled step")
        try:
            self._memory = anonymous(max(mmap.PAGESIZE, size_bytes))
        except OSError as error:
            raise OutOfMemory(f"cannot map {size_bytes} bytes for values: {error}") from None
        self._content = memoryview(self._memory)
        self.address = buffer_address(self._content)

    def words(self, offset: int, count: int, kind: str) -> memoryview:
        """Returns words of a type of the module `array`."""
        content: Any = self._content[offset : offset + count * array.array(kind).itemsize]
        words: memoryview = content.cast(kind)
        return words
