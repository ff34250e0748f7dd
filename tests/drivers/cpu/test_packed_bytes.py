import numpy as np
import pytest
from support.elementwise import computed
from support.native import RUNNABLE

from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.cpu.target import TARGETS, Target


@pytest.mark.parametrize("kind", [Scalar.INT8, Scalar.UINT8], ids=lambda kind: kind.name)
@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_the_lowest_bytes_of_integers_are_kept_in_order(target: Target, kind: Scalar) -> None:
    random = np.random.default_rng(3)
    for count in (64, 128, 200):
        x = random.integers(-(2**31), 2**31, count, dtype=np.int64).astype(np.int32)
        x[:4] = -1, -129, 255, -(2**31)
        (got,) = computed([lambda value: (value + 1).to(kind)], [x], target)
        np.testing.assert_array_equal(got, (x + 1).astype(kind.dtype))


@pytest.mark.skipif(TARGETS["avx512"] not in RUNNABLE, reason="this processor has no AVX-512")
def test_bytes_are_computed_in_as_many_lanes_as_a_register_has() -> None:
    x = np.arange(-500, 500, dtype=np.float32)
    (got,) = computed([lambda value: (value.to(Scalar.INT32) + 7).to(Scalar.INT8)], [x], TARGETS["avx512"])
    np.testing.assert_array_equal(got, (x.astype(np.int32) + 7).astype(np.int8))
