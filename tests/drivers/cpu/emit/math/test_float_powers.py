"""Powers of floats are nearly correctly rounded for bases and exponents of all magnitudes."""

import numpy as np
import pytest
from support.compiler.elementwise import computed
from support.cpu.native import RUNNABLE, Array

from neurald.drivers.compiler.ir.expression import Expression, apply
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.cpu.target.target import Target

_COUNT = 1 << 16
_RANDOM = np.random.default_rng(11)


def _power(x: Expression, y: Expression) -> Expression:
    return apply(Op.POWER, x, y)


def _bases() -> Array:
    """Returns positive floats: of all magnitudes, denormal, around powers of two, and near 1."""
    bits = _RANDOM.integers(1, int(np.float32(np.inf).view(np.uint32)), _COUNT)
    near_one = 1 + _RANDOM.uniform(-1, 1, _COUNT) * 2.0 ** _RANDOM.integers(-23, 0, _COUNT)
    around = 2.0 ** _RANDOM.integers(-60, 60, _COUNT) * (1 + _RANDOM.integers(-3, 4, _COUNT) * 2.0**-23)
    small = _RANDOM.integers(1, 1 << 23, _COUNT)
    found = [
        bits.astype(np.uint32).view(np.float32),
        near_one,
        around,
        small.astype(np.uint32).view(np.float32),
    ]
    return np.concatenate(found).astype(np.float32)


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_errors_on_each_target(target: Target) -> None:
    x = _bases()
    # Exponents for which results are from the denormal numbers to beyond the largest one.
    with np.errstate(divide="ignore"):
        y = (_RANDOM.uniform(-160, 140, len(x)) / np.log2(x.astype(np.float64))).astype(np.float32)
    y[~np.isfinite(y)] = 1
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        rounded = exact.astype(np.float32)
    got = computed([_power], [x, y], target)[0]
    finite = np.isfinite(rounded) & np.isfinite(got)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(rounded))
    off = np.abs(got[finite] - exact[finite]) / np.spacing(np.abs(rounded[finite])).astype(np.longdouble)
    assert off.max() <= 0.51
