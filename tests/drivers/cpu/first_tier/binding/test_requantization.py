"""Parameters of requantisation give the results of fixed-point multiplication."""

import numpy as np
import pytest

from neurald.drivers.cpu.first_tier.binding.requantization import requantization, single_requantization
from neurald.drivers.cpu.first_tier.bound_call import NotBound
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier


def _applied(values: np.ndarray, mantissa: int, addend: int, below_zero: int, shift: int) -> np.ndarray:
    products = values.astype(np.int64) * mantissa
    return (products + addend + (below_zero & (products >> 63))) >> shift


@pytest.mark.parametrize("real", [0.9, 0.5, 0.013, 1e-9, 1e-12, 1.7, 5.0])
def test_single_multipliers(real: float) -> None:
    values = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, 5000)
    mantissa, exponent = quantize_multiplier(real)
    words = single_requantization(mantissa, exponent, 1 << 20)
    np.testing.assert_array_equal(_applied(values, *words), multiply(values, mantissa, exponent))


def test_multipliers_that_are_too_large_are_refused() -> None:
    with pytest.raises(NotBound, match="is too large"):
        single_requantization(1 << 30, 12, 1 << 20)
    with pytest.raises(NotBound, match="is not below 1"):
        requantization(np.array([0.5, 1.5]))
