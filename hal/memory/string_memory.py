"""Strings that are both objects of this process and a string buffer.

Devices in this process can use the objects and save the conversion. Others use the buffer, of which
they know no more than of any other memory.
"""

from typing import Any

from neurald.hal.lazy_numpy import Array
from neurald.hal.memory.pool import HostMemory


class StringMemory(HostMemory):
    """The memory of an input or output of strings.

    Args:
        buffer: the string buffer; of an input, the encoded strings.
        strings: C-contiguous array of objects: the `bytes` of an input, which do not change; or
            what receives those of an output, from its start.

    Attributes:
        strings: the array, of rank 1.
    """

    def __init__(self, buffer: Any, strings: Array) -> None:
        super().__init__(buffer)
        self.strings = strings.reshape(-1)
