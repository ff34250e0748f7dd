"""Logistic function and hyperbolic tangent of int16 numbers, by TFLite's table of 256 entries.

The table holds the logistic function at multiples of 1/24, in fractions of 2^16, for interpolation.
Arguments are first scaled to 3 × 2^12 times their real values. Results are fractions of 2^15.
"""

import math

import numpy as np

from neurald.hal.operations.machinery.call import Array

_ENTRIES = 256
_STEPS_PER_UNIT = 24
_UNIT = 3 << 12
#: Limits for the multiplier of an argument, and for its shift in bits.
_MAX_MULTIPLIER = 32767 / 2
_MAX_SHIFT = 31
#: Tolerance for the logarithm of a scale that counts as a power of two.
_TOLERANCE = 1e-3


def _table() -> Array:
    """Builds the table, offset by half of the interpolation error in the middle of a step.

    The last entry is the largest number below 1.
    """
    values = 1 / (1 + np.exp(-np.arange(_ENTRIES) / _STEPS_PER_UNIT))
    curvature = values * (1 - values) * (2 * values - 1)
    table = np.floor((1 << 16) * (values + curvature / (16 * _STEPS_PER_UNIT**2)) + 0.5).astype(np.int64)
    table[-1] = (1 << 16) - 1
    return table


_TABLE = _table()


def logistic16(values: Array, scale: float) -> Array:
    """Computes 1 / (1 + e^-x).

    Args:
        values: int16.
        scale: the scale of the values.

    Returns:
        int16, fractions of 2^15.
    """
    arguments = _argument(values, scale, max_shift=0)
    magnitudes = np.abs(arguments)
    results = _interpolate(magnitudes, 9, ((1 << 15) - 1) << 10)
    half = 1 << 9
    results = np.where(arguments >= 0, results + half, (1 << 25) - results + half - 1)
    return (results >> 10).astype(np.int16)


def tanh16(values: Array, scale: float) -> Array:
    """Computes the hyperbolic tangent, as twice the logistic function of 2 x, minus 1.

    Args:
        values: int16.
        scale: the scale of the values.

    Returns:
        int16, fractions of 2^15.
    """
    arguments = _argument(values, scale, max_shift=1)
    magnitudes = np.abs(arguments)
    results = _interpolate(magnitudes, 8, ((1 << 16) - 1) << 8) - (1 << 23)
    half = 1 << 7
    results = np.where(arguments >= 0, results + half, half - 1 - results)
    return (results >> 8).astype(np.int16)


def _argument(values: Array, scale: float, *, max_shift: int) -> Array:
    """Scales values to 3 × 2^12 times the real ones.

    Exact if the scale is a power of two that needs a shift of 0 to `max_shift` bits.
    """
    logarithm = math.log2(scale)
    left = 12 + round(logarithm)
    if abs(logarithm - round(logarithm)) < _TOLERANCE and 0 <= left <= max_shift:
        return values.astype(np.int64) * (3 << left)
    multiplier, shift = scale * _UNIT, 0
    while multiplier <= _MAX_MULTIPLIER and shift < _MAX_SHIFT:
        multiplier, shift = multiplier * 2, shift + 1
    half = (1 << shift) >> 1
    # Larger multipliers saturate anyway.
    products = values.astype(np.int64) * min(int(multiplier), 1 << 31)
    return np.asarray((products + half) >> shift)


def _interpolate(magnitudes: Array, fraction_bits: int, saturated: int) -> Array:
    """Interpolates the table at `magnitudes` / 2^fraction_bits.

    The result is scaled by 2^fraction_bits.
    """
    index = magnitudes >> fraction_bits
    inside = np.minimum(index, _ENTRIES - 2)
    fraction = magnitudes & ((1 << fraction_bits) - 1)
    low = _TABLE[inside]
    results = (low << fraction_bits) + fraction * (_TABLE[inside + 1] - low)
    return np.where(index >= _ENTRIES - 1, saturated, results)
