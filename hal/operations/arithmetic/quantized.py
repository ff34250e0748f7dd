"""Conversion of real numbers to quantised values and back, and fused activations of both."""

import math
from functools import cache, lru_cache

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.hal.operations.machinery.call import Array, Call

#: Number of limits of activations that are remembered.
_RATIO_CACHE_SIZE = 1024

_LIMITS: dict[FusedActivation, tuple[float | None, float | None]] = {
    FusedActivation.NONE: (None, None),
    FusedActivation.RELU: (0.0, None),
    FusedActivation.RELU1: (-1.0, 1.0),
    FusedActivation.RELU6: (0.0, 6.0),
}


def activate(values: Array, activation: FusedActivation) -> Array:
    """Applies a fused activation to real numbers."""
    low, high = _LIMITS[activation]
    return values if low is None and high is None else np.clip(values, low, high)


def quantized_limits(operand: Operand, activation: FusedActivation = FusedActivation.NONE) -> tuple[int, int]:
    """Returns the range of a quantised output after a fused activation."""
    smallest, largest = _integers(operand.type)
    low, high = _LIMITS[activation]
    quantized_low = smallest if low is None else _quantize_limit(low, operand)
    quantized_high = largest if high is None else _quantize_limit(high, operand)
    return max(quantized_low, smallest), min(quantized_high, largest)


@cache
def _integers(kind: OperandType) -> tuple[int, int]:
    """Returns the range of a type; NumPy takes microseconds to find it."""
    info = np.iinfo(kind.dtype.name)
    return int(info.min), int(info.max)


def _quantize_limit(value: float, operand: Operand) -> int:
    """Returns a limit at the operand's scale and zero point."""
    return _rounded_ratio(value, operand.scale) + operand.zero_point


@lru_cache(maxsize=_RATIO_CACHE_SIZE)
def _rounded_ratio(value: float, scale: float) -> int:
    """Returns TFLite's `TfLiteRound(value / scale)`, in float32."""
    with np.errstate(all="ignore"):
        ratio = float(np.float32(value) / np.float32(scale))
    if not math.isfinite(ratio):
        # A scale below the range of float32 becomes 0; the result must stay finite.
        ratio = float(np.nan_to_num(np.float32(ratio)))
    return int(math.copysign(math.floor(abs(ratio) + 0.5), ratio))


def saturate(values: Array, operand: Operand, activation: FusedActivation = FusedActivation.NONE) -> Array:
    """Clamps integers at the output's scale and zero point to its range, and casts them."""
    low, high = quantized_limits(operand, activation)
    return np.clip(values, low, high).astype(operand.type.dtype)


def round_away(values: Array) -> Array:
    """Rounds to the nearest integer, ties away from zero, like C's `round`."""
    rounded: Array = np.trunc(values + np.copysign(0.5, values))
    return rounded


def quantize(values: Array, operand: Operand) -> Array:
    """Quantises real numbers for a per-tensor quantised operand, ties away from zero."""
    scaled = round_away(np.asarray(values, np.float64) / operand.scale) + operand.zero_point
    return saturate(scaled, operand)


def dequantize(values: Array, operand: Operand) -> Array:
    """Converts the quantised values of a per-tensor quantised operand to float64."""
    return (values.astype(np.float64) - operand.zero_point) * operand.scale


def real(call: Call, name: str) -> Array:
    """Returns an input in floating point: float32 for floats, float64 for quantised values."""
    operand = call.operand(name)
    values = call.array(name)
    if is_quantized(operand):
        return dequantize(values, operand)
    return values.astype(np.float32, copy=False)


def store(values: Array, operand: Operand) -> Array:
    """Converts real numbers to the output's type: quantised, or cast."""
    if is_quantized(operand):
        return quantize(values, operand)
    return values.astype(operand.type.dtype, copy=False)
