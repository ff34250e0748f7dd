"""Functions of fixed-point numbers, bit for bit as gemmlowp computes them: what quantised recurrent cells are made of.

A 16-bit number with k integer bits stands for stored × 2^(k - 15). Products keep the high half, rounded to the nearest, ties
upwards. The curves are built from such products, so they differ from the real ones by a few units in the last place; as there
are only 2^16 arguments, each is computed once as a table.
"""

import math
from functools import lru_cache

import numpy as np

from neurald.hal.operations.machinery.call import Array

_INT16 = np.iinfo(np.int16)
_INT32 = np.iinfo(np.int32)
#: 1 with no integer bits, as near as it can be.
_ONE = int(_INT16.max)
#: Powers of two x whose e^-x are factors of e^-(a number), by their exponents.
_EXP_FACTORS = range(-2, 5)
#: Steps of Newton and Raphson that give an inverse square root.
NEWTON_STEPS = 5
#: The root of 1/2 with no integer bits, of 32 bits.
HALF_ROOT = round(math.sqrt(0.5) * (1 << 31))
#: Beyond -32, e^x is 0.
_EXP_LIMIT = 32


def saturate16(values: Array) -> Array:
    """Integers cut to 16 bits; the type stays."""
    return np.clip(values, _INT16.min, _INT16.max)


def shift_right(values: Array, bits: int) -> Array:
    """Integers over 2^bits, rounded to the nearest, ties away from zero."""
    if bits == 0:
        return values
    half = 1 << (bits - 1)
    return (values + half - (values < 0)) >> bits


def product16(first: Array | int, second: Array | int) -> Array:
    """The product of 16-bit fixed-point numbers, which has as many integer bits as both together; int64."""
    products = np.asarray(first, np.int64) * second + (1 << 14)
    return np.asarray(np.minimum(products >> 15, _ONE))


def _product32(first: Array | int, second: Array | int) -> Array:
    """The same of 32-bit numbers."""
    products = np.asarray(first, np.int64) * second + (1 << 30)
    return np.asarray(np.minimum(products >> 31, _INT32.max))


def sigmoid16(values: Array) -> Array:
    """The logistic function.

    Args:
        values: int16 with 3 integer bits.

    Returns:
        int16 with no integer bits.
    """
    table: Array = _sigmoid_table()[values.astype(np.intp) - _INT16.min]
    return table


def tanh16(values: Array, integer_bits: int) -> Array:
    """The hyperbolic tangent.

    Args:
        values: int16.
        integer_bits: of the values, 0 to 6.

    Returns:
        int16 with no integer bits.
    """
    table: Array = _tanh_table(integer_bits)[values.astype(np.intp) - _INT16.min]
    return table


@lru_cache(maxsize=1)
def _sigmoid_table() -> Array:
    values = np.arange(_INT16.min, _INT16.max + 1, dtype=np.int64)
    # 1 / (1 + e^-|x|), of the division's 1 integer bit.
    positive = saturate16(_inverse_of_half_sum(_exp(-np.abs(values), 3)) << 1)
    table = np.where(values > 0, positive, _ONE - positive)
    return np.where(values == 0, 1 << 14, table).astype(np.int16)


@lru_cache(maxsize=7)
def _tanh_table(integer_bits: int) -> Array:
    values = np.arange(_INT16.min, _INT16.max + 1, dtype=np.int64)
    # (1 - e^-2|x|) / (1 + e^-2|x|); twice a number is the same bits with one more integer bit.
    quotient = _inverse_of_half_sum(_exp(-np.abs(values), integer_bits + 1)) - (1 << 13)
    magnitude = saturate16(quotient << 2)
    table = np.where(values < 0, -magnitude, magnitude)
    return np.where(values == 0, 0, table).astype(np.int16)


def _exp(values: Array, integer_bits: int) -> Array:
    """e^x with no integer bits, of numbers that are not positive."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    # x = (a number from -1/4 on) - (a multiple of 1/4, whose bits each stand for a factor).
    low = (values & (quarter - 1)) - quarter
    multiple = low - values
    result = _exp_from_quarter(low << integer_bits)
    for exponent in _EXP_FACTORS:
        if exponent < integer_bits:
            factor = round(math.exp(-(2.0**exponent)) * (1 << 15))
            is_set = multiple & (1 << (fraction + exponent))
            result = np.where(is_set, product16(result, factor), result)
    result = np.where(values < -(_EXP_LIMIT << fraction), 0, result)
    return np.where(values == 0, _ONE, result)


def _exp_from_quarter(values: Array) -> Array:
    """e^x for -1/4 ≤ x < 0, all with no integer bits: Taylor's series around -1/8 up to the fourth power."""
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
    """2 / (1 + x) with 2 integer bits, for 0 ≤ x ≤ 1 with none: Newton and Raphson's division."""
    divisor = (values + _ONE + 1) >> 1
    x = round(48 / 17 * (1 << 13)) + product16(divisor, round(-32 / 17 * (1 << 13)))
    for _ in range(3):
        error = (1 << 13) - product16(divisor, x)
        x = x + saturate16(product16(x, error) << 2)
    return x


def inverse_square_root(values: Array) -> tuple[Array, Array]:
    """1 / √values as multipliers for `fixed_point.multiply`.

    Args:
        values: integers from 0 to 2^31 - 1; 0 counts as 1.

    Returns:
        Mantissas and exponents, int64.
    """
    values = values.astype(np.int64)
    # A number times 4^pairs lies between 2^27 and 2^29; its root is then shifted by as many bits as there are pairs.
    is_large = values >= 1 << 29
    scaled = np.where(is_large, values >> 2, np.maximum(values, 2))
    pairs = (31 - np.frexp(scaled.astype(np.float64))[1].astype(np.int64)) // 2 - 1
    shift = 11 + is_large - pairs
    number = (scaled << (2 * pairs)) >> 1
    half = shift_right(number, 1)
    one_and_half = 3 << 27
    root = np.full_like(values, 1 << 28)
    for _ in range(NEWTON_STEPS):  # with 3 integer bits
        cube = _saturate32(_product32(_product32(root, root), root) << 6)
        root = _saturate32((_product32(one_and_half, root) - _product32(half, cube)) << 3)
    root = _product32(root, HALF_ROOT)
    mantissas = np.where(values <= 1, _INT32.max, root << np.maximum(-shift, 0))
    return mantissas, np.where(values <= 1, 0, -np.maximum(shift, 0))


def _saturate32(values: Array) -> Array:
    return np.clip(values, _INT32.min, _INT32.max)
