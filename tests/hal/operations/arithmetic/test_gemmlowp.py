import zlib
from fractions import Fraction

import numpy as np
from support.operations.exact import away_from_zero
from support.sweeps import sweep

from neurald.hal.operations.arithmetic.gemmlowp import (
    inverse_square_root,
    product16,
    saturate16,
    shift_right,
    sigmoid16,
    tanh16,
)

EVERY = np.arange(-(1 << 15), 1 << 15).astype(np.int16)
#: Checksums of gemmlowp's results for all arguments, as little-endian 16-bit numbers.
SIGMOID_CHECKSUM = 0x89B3F38E
TANH_CHECKSUMS = [0xA348DAF8, 0xC979DD1D, 0x742F59B7, 0x70B28DFE, 0x215077B2, 0x3A695108, 0x32E074AE]


def test_sigmoid() -> None:
    result = sigmoid16(EVERY)
    assert result.dtype == np.int16
    exact = 1 / (1 + np.exp(-EVERY.astype(np.float64) / (1 << 12)))
    assert np.abs(result - exact * (1 << 15)).max() < 7
    assert zlib.crc32(result.astype("<i2").tobytes()) == SIGMOID_CHECKSUM


@sweep("integer_bits", range(7))
def test_tanh(integer_bits: int) -> None:
    result = tanh16(EVERY, integer_bits)
    assert result.dtype == np.int16
    exact = np.tanh(EVERY.astype(np.float64) / (1 << (15 - integer_bits)))
    assert np.abs(result - exact * (1 << 15)).max() < 13
    assert zlib.crc32(result.astype("<i2").tobytes()) == TANH_CHECKSUMS[integer_bits]


def test_functions_keep_the_shape() -> None:
    assert sigmoid16(np.zeros((2, 0, 3), np.int64)).shape == (2, 0, 3)
    assert tanh16(np.array([[0, 1 << 12]]), 3).tolist() == [[0, tanh16(np.array([1 << 12]), 3)[0]]]


@sweep(
    ("value", "mantissa", "exponent"),
    [
        (0, 2147483647, 0),
        (1, 2147483647, 0),
        (2, 1518498372, 0),
        (3, 1239850284, 0),
        (7, 811672556, 0),
        (100, 214748363, 0),
        (957, 277673151, -2),
        (15860, 272833859, -4),
        (1058689, 267150282, -7),
        (231849008, 288839906, -11),
    ],
)
def test_inverse_square_roots_of_gemmlowp(value: int, mantissa: int, exponent: int) -> None:
    mantissas, exponents = inverse_square_root(np.array([value]))
    assert (int(mantissas[0]), int(exponents[0])) == (mantissa, exponent)


def test_inverse_square_roots_of_every_magnitude() -> None:
    powers = [1 << bits for bits in range(1, 31)]
    values = np.array([*powers, *(p - 1 for p in powers[1:]), *(p + 1 for p in powers), (1 << 31) - 1])
    mantissas, exponents = inverse_square_root(values)
    roots = np.ldexp(mantissas.astype(np.float64), exponents - 31)
    np.testing.assert_allclose(roots, 1 / np.sqrt(values.astype(np.float64)), rtol=2e-6)


@sweep("bits", [0, 1, 4, 15])
def test_shifts_round_away_from_zero(bits: int) -> None:
    values = np.array([0, 1, -1, 7, 8, 9, -7, -8, -9, 32767, -32768, 1 << 30, -(1 << 30)])
    expected = [away_from_zero(Fraction(value, 1 << bits)) for value in values.tolist()]
    assert shift_right(values, bits).tolist() == expected


def test_products_round_upwards_at_ties() -> None:
    values = np.array([1, -1, 3, -3, 32767, -32768])
    expected = [(value * (1 << 14) + (1 << 14)) // (1 << 15) for value in values.tolist()]
    assert product16(values, 1 << 14).tolist() == expected
    assert product16(np.array([-32768]), -32768).tolist() == [32767]
    assert saturate16(np.array([40000, -40000, 5])).tolist() == [32767, -32768, 5]
