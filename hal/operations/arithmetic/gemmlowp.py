"""Fixed-point functions of quantised recurrent cells, bit for bit as in gemmlowp.

A 16-bit number with k integer bits represents raw × 2^(k - 15). Products keep the high half,
rounded to nearest, ties upwards. The functions are composed of such products, so they differ from
the exact ones by a few units in the last place; each is precomputed as a table of its 2^16
arguments.
"""

import math
from functools import lru_cache

import numpy as np

from neurald.hal.operations.arithmetic.fixed_point import saturate32
from neurald.hal.operations.machinery.call import Array

_INT16 = np.iinfo(np.int16)
_INT32 = np.iinfo(np.int32)
#: The largest number with no integer bits, an approximation of 1.
_ONE = int(_INT16.max)
#: Exponents of the powers of two x for which e^-x is a factor of e^-(a number).
_EXP_FACTORS = range(-2, 5)
#: Number of Newton-Raphson iterations for an inverse square root.
NEWTON_STEPS = 5
#: The square root of 1/2, 32 bits with no integer bits.
HALF_ROOT = round(math.sqrt(0.5) * (1 << 31))
#: e^x is 0 below -32.
_MAX_EXP_MAGNITUDE = 32


def saturate16(values: Array) -> Array:
    """Clamps integers to 16 bits; the type stays."""
    return np.clip(values, _INT16.min, _INT16.max)


def shift_right(values: Array, bits: int) -> Array:
    """Divides integers by 2^bits, rounded to nearest, ties away from zero."""
    if bits == 0:
        return values
    half = 1 << (bits - 1)
    return (values + half - (values < 0)) >> bits


def product16(first: Array | int, second: Array | int) -> Array:
    """Multiplies 16-bit fixed-point numbers.

    The result is int64 with the sum of their integer bits.
    """
    products = np.asarray(first, np.int64) * second + (1 << 14)
    return np.asarray(np.minimum(products >> 15, _ONE))


def _product32(first: Array | int, second: Array | int) -> Array:
    """Multiplies 32-bit fixed-point numbers like `product16`."""
    products = np.asarray(first, np.int64) * second + (1 << 30)
    return np.asarray(np.minimum(products >> 31, _INT32.max))


def sigmoid16(values: Array) -> Array:
    """Computes the logistic function.

    Args:
        values: int16 with 3 integer bits.

    Returns:
        int16 with no integer bits.
    """
    table: Array = _sigmoid_table()[values.astype(np.intp) - _INT16.min]
    return table


def tanh16(values: Array, integer_bits: int) -> Array:
    """Computes the hyperbolic tangent.

    Args:
        values: int16.
        integer_bits: the integer bits of the values, 0 to 6.

    Returns:
        int16 with no integer bits.
    """
    table: Array = _tanh_table(integer_bits)[values.astype(np.intp) - _INT16.min]
    return table


@lru_cache(maxsize=1)
def _sigmoid_table() -> Array:
    values = np.arange(_INT16.min, _INT16.max + 1, dtype=np.int64)
    # 1 / (1 + e^-|x|); the division has 1 integer bit.
    positive = saturate16(_inverse_of_half_sum(_exp(-np.abs(values), 3)) << 1)
    table = np.where(values > 0, positive, _ONE - positive)
    return np.where(values == 0, 1 << 14, table).astype(np.int16)


@lru_cache(maxsize=7)
def _tanh_table(integer_bits: int) -> Array:
    values = np.arange(_INT16.min, _INT16.max + 1, dtype=np.int64)
    # (1 - e^-2|x|) / (1 + e^-2|x|); doubling a number adds an integer bit to the same bits.
    quotient = _inverse_of_half_sum(_exp(-np.abs(values), integer_bits + 1)) - (1 << 13)
    magnitude = saturate16(quotient << 2)
    table = np.where(values < 0, -magnitude, magnitude)
    return np.where(values == 0, 0, table).astype(np.int16)


def _exp(values: Array, integer_bits: int) -> Array:
    """Computes e^x with no integer bits, for numbers that are not positive."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    # x = (a number in [-1/4, 0)) - (a multiple of 1/4, each bit of which is a factor).
    low = (values & (quarter - 1)) - quarter
    multiple = low - values
    result = _exp_from_quarter(low << integer_bits)
    for exponent in _EXP_FACTORS:
        if exponent < integer_bits:
            factor = round(math.exp(-(2.0**exponent)) * (1 << 15))
            is_set = multiple & (1 << (fraction + exponent))
            result = np.where(is_set, product16(result, factor), result)
    result = np.where(values < -(_MAX_EXP_MAGNITUDE << fraction), 0, result)
    return np.where(values == 0, _ONE, result)


def _exp_from_quarter(values: Array) -> Array:
    """Computes e^x for -1/4 ≤ x < 0, all with no integer bits.

    A Taylor series around -1/8, degree 4.
    """
    middle = round(math.exp(-1 / 8) * (1 << 15))
    third = round((1 << 15) / 3)
    x = values + (1 << 12)
    square = product16(x, x)
    cube = product16(square, x)
    fourth = product16(square, square)
    # x^4 / 24 + x^3 / 6 + x^2 / 2
    higher = shift_right(product16(shift_right(fourth, 2) + cube, third) + square, 1)
    return saturate16(middle + product16(middle, x + higher))


def _inverse_of_half_sum(values: Array) -> Array:
    """Computes 2 / (1 + x) with 2 integer bits, for 0 ≤ x ≤ 1 with none (Newton-Raphson)."""
    divisor = (values + _ONE + 1) >> 1
    x = round(48 / 17 * (1 << 13)) + product16(divisor, round(-32 / 17 * (1 << 13)))
    for _ in range(3):
        error = (1 << 13) - product16(divisor, x)
        x = x + saturate16(product16(x, error) << 2)
    return x


def inverse_square_root(values: Array) -> tuple[Array, Array]:
    """Computes 1 / √values as multipliers for `fixed_point.multiply`.

    Args:
        values: integers from 0 to 2^31 - 1; 0 is treated as 1.

    Returns:
        Mantissas and exponents, int64.
    """
    values = values.astype(np.int64)
    # Scaled by 4^pairs to between 2^27 and 2^29; the root is shifted by `pairs` bits afterwards.
    is_large = values >= 1 << 29
    scaled = np.where(is_large, values >> 2, np.maximum(values, 2))
    pairs = (31 - np.frexp(scaled.astype(np.float64))[1].astype(np.int64)) // 2 - 1
    shift = 11 + is_large - pairs
    number = (scaled << (2 * pairs)) >> 1
    half = shift_right(number, 1)
    one_and_half = 3 << 27
    root = np.full_like(values, 1 << 28)
    for _ in range(NEWTON_STEPS):  # with 3 integer bits
        cube = saturate32(_product32(_product32(root, root), root) << 6)
        root = saturate32((_product32(one_and_half, root) - _product32(half, cube)) << 3)
    root = _product32(root, HALF_ROOT)
    mantissas = np.where(values <= 1, _INT32.max, root << np.maximum(-shift, 0))
    return mantissas, np.where(values <= 1, 0, -np.maximum(shift, 0))
