import numpy as np
import pytest
from support.compiler.elementwise import computed
from support.cpu.native import RUNNABLE

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.target.target import Target


@pytest.mark.parametrize("kind", [Scalar.INT8, Scalar.UINT8], ids=lambda kind: kind.name)
@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_the_low_bytes_keep_their_order(target: Target, kind: Scalar) -> None:
    random = np.random.default_rng(3)
    for count in (64, 128, 200):
        x = random.integers(-(2**31), 2**31, count, dtype=np.int64).astype(np.int32)
        x[:4] = -1, -129, 255, -(2**31)
        (got,) = computed([lambda value: (value + 1).to(kind)], [x], target)
        np.testing.assert_array_equal(got, (x + 1).astype(kind.dtype))
