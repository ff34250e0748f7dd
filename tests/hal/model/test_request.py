"""Arguments have addresses only where all of their bytes lie inside their memory."""

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument

pytestmark = pytest.mark.quick

MEMORY = HostMemory(np.zeros(16, np.uint8))


@sweep(("offset", "size"), [(0, 16), (4, 12), (16, 0), (5, 0)], ids=range(4))
def test_an_argument_inside_its_memory(offset: int, size: int) -> None:
    argument = Argument(pool=0, offset=offset, length=size)
    assert argument.address_in(MEMORY, size) == MEMORY.address + offset


@sweep(("offset", "size"), [(0, 17), (1, 16), (17, 0), (-1, 4), (1 << 63, 1)], ids=range(5))
def test_an_argument_that_exceeds_its_memory(offset: int, size: int) -> None:
    argument = Argument(pool=0, offset=offset, length=size)
    with pytest.raises(BadData, match=f"{size} bytes at offset {offset} exceeds its memory of 16 bytes"):
        argument.address_in(MEMORY, size)
