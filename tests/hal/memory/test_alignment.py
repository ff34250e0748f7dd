"""The alignment of arguments inside a pool."""

import pytest
from support.sweeps import sweep

from neurald.hal.memory.alignment import align

pytestmark = pytest.mark.quick


@sweep(("size", "aligned"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_align(size: int, aligned: int) -> None:
    assert align(size) == aligned
