"""What quantised references share: real numbers to stored ones and back, and fused activations of both."""

import numpy as np

from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation, Operand
from neurald.hal.operations.machinery.call import Array, Call

_LIMITS: dict[FusedActivation, tuple[float | None, float | None]] = {
    FusedActivation.NONE: (None, None),
    FusedActivation.RELU: (0.0, None),
    FusedActivation.RELU1: (-1.0, 1.0),
    FusedActivation.RELU6: (0.0, 6.0),
}


def activate(values: Array, activation: FusedActivation) -> Array:
    """A fused activation on real numbers."""
    low, high = _LIMITS[activation]
    return values if low is None and high is None else np.clip(values, low, high)


def stored_limits(operand: Operand, activation: FusedActivation = FusedActivation.NONE) -> tuple[int, int]:
    """The smallest and largest stored value of a quantised output after a fused activation."""
    info = np.iinfo(operand.type.dtype.name)
    low, high = _LIMITS[activation]
    stored_low = info.min if low is None else _to_stored(low, operand)
    stored_high = info.max if high is None else _to_stored(high, operand)
    return max(stored_low, info.min), min(stored_high, info.max)


def _to_stored(value: float, operand: Operand) -> int:
    """TFLite's `TfLiteRound(value / scale)` (float32, away from zero at ties) plus the zero point."""
    with np.errstate(all="ignore"):
        # A scale too small for float32 is 0 there: what follows from it is large, or 0, but finite.
        ratio = float(np.nan_to_num(np.float32(value) / np.float32(operand.scale)))
    return int(np.copysign(np.floor(abs(ratio) + 0.5), ratio)) + operand.zero_point


def saturate(values: Array, operand: Operand, activation: FusedActivation = FusedActivation.NONE) -> Array:
    """Integers already at the output's scale and zero point, cut to what the output can hold, and stored."""
    low, high = stored_limits(operand, activation)
    return np.clip(values, low, high).astype(operand.type.dtype)


def round_away(values: Array) -> Array:
    """Rounds to the nearest integer, ties away from zero, as C's `round`."""
    rounded: Array = np.trunc(values + np.copysign(0.5, values))
    return rounded


def quantize(values: Array, operand: Operand) -> Array:
    """Real numbers as stored values of a per-tensor quantised operand, rounded away from zero at ties."""
    scaled = round_away(np.asarray(values, np.float64) / operand.scale) + operand.zero_point
    return saturate(scaled, operand)


def dequantize(values: Array, operand: Operand) -> Array:
    """Stored values of a per-tensor quantised operand as float64."""
    return (values.astype(np.float64) - operand.zero_point) * operand.scale


def real(call: Call, name: str) -> Array:
    """An input as floating point to compute with: float32 for floats, float64 for what was quantised."""
    operand = call.operand(name)
    values = call.array(name)
    if is_quantized(operand):
        return dequantize(values, operand)
    return values.astype(np.float32, copy=False)


def store(values: Array, operand: Operand) -> Array:
    """Real numbers as the output's stored type: quantised, or cast."""
    if is_quantized(operand):
        return quantize(values, operand)
    return values.astype(operand.type.dtype, copy=False)
