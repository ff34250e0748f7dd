"""Parameters of requantisation give the results of fixed-point multiplication."""

import numpy as np
import pytest

from neurald.drivers.cpu.first_tier.binding.convolution.requantization import (
    requantization,
    single_requantization,
)
from neurald.hal.operations.arithmetic.fixed_point import (
    Requantization,
    Rounding,
    multiply,
    quantize_multiplier,
)


def _applied(values: np.ndarray, mantissa: int, addend: int, below_zero: int, shift: int) -> np.ndarray:
    products = values.astype(np.int64) * mantissa
    return (products + addend + (below_zero & (products >> 63))) >> shift


REALS = [0.9, 0.5, 0.013, 1e-9, 1e-12, 1.0, 1.7, 5.0, 700.0]


@pytest.mark.parametrize("real", REALS)
def test_single_multipliers(real: float) -> None:
    values = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, 5000)
    mantissa, exponent = quantize_multiplier(real)
    words = single_requantization(mantissa, exponent)
    np.testing.assert_array_equal(_applied(values, *words), multiply(values, mantissa, exponent))


def test_multipliers_of_channels() -> None:
    mantissas, parameters = requantization(np.array(REALS))
    for real, mantissa, words in zip(REALS, mantissas, parameters.T, strict=True):
        assert (int(mantissa), *map(int, words)) == single_requantization(*quantize_multiplier(real))


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("real", REALS)
def test_sums_may_be_rounded_in_each_way(real: float, rounding: Rounding) -> None:
    values = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, (5000, 1))
    mantissas, parameters = requantization(np.array([real]), rounding)
    expected = np.empty(values.shape, np.int16)
    requantize = Requantization(
        multipliers=np.array([real]),
        bias=np.zeros(1, np.int64),
        zero_point=0,
        low=-(1 << 15),
        high=(1 << 15) - 1,
        dtype=expected.dtype,
        rounding=rounding,
    )
    requantize(values, expected)
    found = _applied(values, int(mantissas[0]), *map(int, parameters[:, 0]))
    np.testing.assert_array_equal(np.clip(found, -(1 << 15), (1 << 15) - 1), expected)
