"""Quantises rows of floats, each with its own scale and zero point."""

import numpy as np

from neurald.hal.operations.arithmetic.quantized import round_away
from neurald.hal.operations.machinery.call import Array

#: Largest magnitude of a quantised row element.
MAX_QUANTIZED_MAGNITUDE = 128
_MAX_SYMMETRIC = 127
_LOW, _HIGH = -128, 127


def quantize_rows(rows: Array, *, asymmetric: bool) -> tuple[Array, Array, Array]:
    """Quantises each row by its own range.

    Args:
        rows: float32, (n, length).
        asymmetric: whether rows get a zero point; 0 is always represented exactly.

    Returns:
        The quantised values (int8), scales (float32, (n,)) and zero points (int64, (n,)).
    """
    low = np.fmin.reduce(rows, axis=1, initial=0).astype(np.float64)
    high = np.fmax.reduce(rows, axis=1, initial=0).astype(np.float64)
    with np.errstate(all="ignore"):
        if asymmetric:
            scales, zero_points = _ranges(low, high)
            inverse = np.float32(1) / scales
            quantized_values = rows * inverse[:, np.newaxis] + zero_points.astype(np.float32)[:, np.newaxis]
            least = _LOW
        else:
            largest = np.maximum(-low, high).astype(np.float32)
            is_zero = largest == 0
            scales = np.where(is_zero, np.float32(1), largest / np.float32(_MAX_SYMMETRIC))
            zero_points = np.zeros(len(rows), np.int64)
            quantized_values = (
                rows * np.where(is_zero, 0, np.float32(_MAX_SYMMETRIC) / largest)[:, np.newaxis]
            )
            least = -_MAX_SYMMETRIC
        quantized_values = np.clip(round_away(quantized_values.astype(np.float64)), least, _HIGH)
    # NaN lies in no range; it becomes 0.
    return np.nan_to_num(quantized_values).astype(np.int8), scales, zero_points


def _ranges(low: Array, high: Array) -> tuple[Array, Array]:
    """Computes scales and zero points of rows that range from `low` to `high`, both float64."""
    is_empty = low == high
    scales = np.where(is_empty, 1.0, (high - low) / (_HIGH - _LOW))
    from_low, from_high = low / scales, high / scales
    # The zero point follows from the end of the range with the smaller rounding error.
    is_from_low = abs(_LOW) + np.abs(from_low) < abs(_HIGH) + np.abs(from_high)
    zero_points = np.where(is_from_low, _LOW - from_low, _HIGH - from_high)
    zero_points = np.nan_to_num(np.clip(round_away(zero_points), _LOW, _HIGH))
    return scales.astype(np.float32), np.where(is_empty, 0, zero_points).astype(np.int64)
