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
    low, high = np.fmin.reduce(rows, axis=1, initial=0), np.fmax.reduce(rows, axis=1, initial=0)
    with np.errstate(all="ignore"):
        if asymmetric:
            scales, zero_points = _ranges(low, high)
            inverse = np.float32(1) / scales
            scaled = rows * inverse[:, np.newaxis]
            least = _LOW
        else:
            largest = np.maximum(-low, high)
            is_zero = largest == 0
            scales = np.where(is_zero, np.float32(1), largest / np.float32(_MAX_SYMMETRIC))
            zero_points = np.zeros(len(rows), np.int64)
            scaled = rows * np.where(is_zero, 0, np.float32(_MAX_SYMMETRIC) / largest)[:, np.newaxis]
            least = -_MAX_SYMMETRIC
        # TFLite adds the zero point to what is rounded.
        quantized_values = round_away(scaled.astype(np.float64)) + zero_points[:, np.newaxis]
        quantized_values = np.clip(quantized_values, least, _HIGH)
    # NaN lies in no range; it becomes 0.
    return np.nan_to_num(quantized_values).astype(np.int8), scales, zero_points


def _ranges(low: Array, high: Array) -> tuple[Array, Array]:
    """Computes scales and zero points of rows that range from `low` to `high`, both float32."""
    is_empty = low == high
    scales = np.where(is_empty, np.float32(1), (high - low) / np.float32(_HIGH - _LOW))
    from_low, from_high = low / scales, high / scales
    # The zero point follows from the end of the range with the smaller rounding error.
    is_from_low = abs(_LOW) + np.abs(from_low) < abs(_HIGH) + np.abs(from_high)
    zero_points = np.where(is_from_low, _LOW - from_low, _HIGH - from_high)
    zero_points = np.nan_to_num(np.clip(round_away(zero_points), _LOW, _HIGH))
    return scales, np.where(is_empty, 0, zero_points).astype(np.int64)
