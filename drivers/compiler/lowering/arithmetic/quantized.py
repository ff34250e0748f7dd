"""What lowerings of quantised operands share: stored values as numbers and back, tables, and changes of scale."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neurald.drivers.compiler.analysis.single_rounding import rounded_once
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, constant, load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.hal.model.types import FusedActivation, Operand
from neurald.hal.operations.arithmetic.fixed_point import (
    Rounding,
    quantize_multiplier,
    quantize_multipliers,
    short_mantissas,
)
from neurald.hal.operations.arithmetic.quantized import is_quantized, stored_limits
from neurald.hal.operations.machinery.call import Call

Array = np.ndarray[Any, np.dtype[Any]]

#: Of a multiplier that is rounded once.
_LARGEST_EXPONENT_ONCE = 15

_LIMITS: dict[FusedActivation, tuple[float | None, float | None]] = {
    FusedActivation.NONE: (None, None),
    FusedActivation.RELU: (0.0, None),
    FusedActivation.RELU1: (-1.0, 1.0),
    FusedActivation.RELU6: (0.0, 6.0),
}


def activate(value: Expression, activation: FusedActivation) -> Expression:
    """A fused activation on a float."""
    low, high = _LIMITS[activation]
    if low is not None:
        value = apply(Op.MAXIMUM, value, constant(low, value.type))
    if high is not None:
        value = apply(Op.MINIMUM, value, constant(high, value.type))
    return value


def real(value: Expression, operand: Operand) -> Expression:
    """An element as FLOAT32 to compute with, whatever it is stored as."""
    if not is_quantized(operand):
        return value.to(Scalar.FLOAT32)
    return (value.to(Scalar.INT32) - operand.zero_point).to(Scalar.FLOAT32) * operand.scale


def store(value: Expression, operand: Operand) -> Expression:
    """A FLOAT32 as the operand stores it: quantised, rounded away from zero at ties, or converted."""
    if not is_quantized(operand):
        return value.to(Scalar.of(operand.type.dtype))
    low, high = (limit - operand.zero_point for limit in stored_limits(operand))
    # Cut off before it is converted, so that nothing overflows; the zero point comes last, so that NaN is stored as 0.
    scaled = clamp(apply(Op.ROUND_AWAY, value / operand.scale), float(low), float(high)).to(Scalar.INT32)
    return (scaled + operand.zero_point).to(Scalar.of(operand.type.dtype))


def saturate(
    value: Expression, operand: Operand, activation: FusedActivation = FusedActivation.NONE
) -> Expression:
    """An integer that is already at the operand's scale and zero point, cut to what it can hold, and stored."""
    low, high = stored_limits(operand, activation)
    return clamp(value, low, high).to(Scalar.of(operand.type.dtype))


def rescale(value: Expression, multiplier: float) -> Expression:
    """An INT64 within int32's range × a real multiplier, rounded as `fixed_point.multiply` does: INT64."""
    mantissa, exponent = quantize_multiplier(multiplier)
    return fixed_point(value, constant(mantissa, Scalar.INT32), constant(exponent, Scalar.INT32))


def fixed_point(value: Expression, mantissa: Expression, exponent: Expression) -> Expression:
    """An INT64 within int32's range × mantissa × 2^(exponent - 31), both INT32; rounded as `fixed_point.multiply` does."""
    return apply(Op.FIXED_POINT, value.to(Scalar.INT64), mantissa, exponent, type=Scalar.INT64)


def requantized(
    value: Expression, mantissa: Expression, exponent: Expression, rounding: Rounding
) -> Expression:
    """An INT64 × mantissa × 2^(exponent - 31), both INT32, rounded that way: INT64.

    For `Rounding.ONCE` and `Rounding.SHORT` the value is below 2^47 and the exponent below 16; for those that round twice
    the value is within int32's range.
    """
    if rounding is Rounding.TWICE:
        return fixed_point(value, mantissa, exponent)
    if rounding is Rounding.TWICE_UP:
        return apply(Op.FIXED_POINT_UP, value, mantissa, exponent, type=Scalar.INT64)
    return rounded_once(value, mantissa, exponent)


class Rescaling:
    """Sums of products as stored values: bias, multiplier, zero point and range, as `fixed_point.Requantization`.

    Args:
        builder: of the operation.
        call: the operation.
        scales: of a sum, one for each output channel or one for all.
        rounding: of products with the multiplier.

    Raises:
        Unsupported: a multiplier is too large for that rounding.
    """

    def __init__(
        self, builder: Builder, call: Call, scales: Sequence[float], rounding: Rounding = Rounding.TWICE
    ) -> None:
        self._output = call.operand("output")
        self._activation = call.activation if "activation" in call.binding.inputs else FusedActivation.NONE
        reals = np.array(scales, np.float64) / self._output.scale
        mantissas, exponents = quantize_multipliers(reals)
        if rounding is Rounding.SHORT:
            mantissas = short_mantissas(mantissas)
        if rounding in (Rounding.ONCE, Rounding.SHORT) and exponents.max() > _LARGEST_EXPONENT_ONCE:
            raise Unsupported(f"a multiplier of {reals.max():g} that is rounded once has no kernel")
        self._rounding = rounding
        self._single = (int(mantissas[0]), int(exponents[0])) if len(reals) == 1 else None
        self._mantissas = builder.constant(mantissas.astype(np.int32))
        self._exponents = builder.constant(exponents.astype(np.int32))

    def __call__(self, total: Expression, channel: Expression) -> Expression:
        """The stored value of a sum, bias included, of an output channel."""
        if self._single is not None:
            mantissa: Expression = constant(self._single[0], Scalar.INT32)
            exponent: Expression = constant(self._single[1], Scalar.INT32)
        else:
            mantissa, exponent = load(self._mantissas, (channel,)), load(self._exponents, (channel,))
        scaled = requantized(total, mantissa, exponent, self._rounding)
        return saturate(scaled + self._output.zero_point, self._output, self._activation)
