"""Helpers for quantised operands: conversion, tables and changes of scale."""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.analysis.single_rounding import rounded_once
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    clamp,
    constant,
    load,
    maximum,
    select,
)
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.hal.model.graph import Operand
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation
from neurald.hal.operations.arithmetic.fixed_point import (
    Rounding,
    quantize_multiplier,
    quantize_multipliers,
    short_mantissas,
)
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call

#: Largest exponent of a multiplier with a single rounding.
_MAX_EXPONENT_ONCE = 15

_LIMITS: dict[FusedActivation, tuple[float | None, float | None]] = {
    FusedActivation.NONE: (None, None),
    FusedActivation.RELU: (0.0, None),
    FusedActivation.RELU1: (-1.0, 1.0),
    FusedActivation.RELU6: (0.0, 6.0),
}


def activate(value: Expression, activation: FusedActivation) -> Expression:
    """Applies a fused activation to a float."""
    low, high = _LIMITS[activation]
    if low is not None:
        value = apply(Op.MAXIMUM, value, constant(low, value.type))
    if high is not None:
        value = apply(Op.MINIMUM, value, constant(high, value.type))
    return value


def real(value: Expression, operand: Operand) -> Expression:
    """Returns an element as a FLOAT32 real number, dequantising it if necessary."""
    if not is_quantized(operand):
        return value.to(Scalar.FLOAT32)
    return (value.to(Scalar.INT32) - operand.zero_point).to(Scalar.FLOAT32) * operand.scale


def store(value: Expression, operand: Operand) -> Expression:
    """Converts a FLOAT32 to the operand's stored form; quantised with ties away from zero."""
    if not is_quantized(operand):
        return value.to(Scalar.of(operand.type.dtype))
    low, high = (limit - operand.zero_point for limit in quantized_limits(operand))
    # Clamping precedes the conversion to avoid overflow. The zero point is added last, so that NaN
    # is stored as 0.
    scaled = clamp(apply(Op.ROUND_AWAY, value / operand.scale), float(low), float(high)).to(Scalar.INT32)
    return (scaled + operand.zero_point).to(Scalar.of(operand.type.dtype))


def saturate(
    value: Expression, operand: Operand, activation: FusedActivation = FusedActivation.NONE
) -> Expression:
    """Clamps an integer at the operand's scale and zero point to its range, and stores it."""
    low, high = quantized_limits(operand, activation)
    return clamp(value, low, high).to(Scalar.of(operand.type.dtype))


def rescale(value: Expression, multiplier: float) -> Expression:
    """Multiplies an INT64 in int32's range by a real number, as `fixed_point.multiply`: INT64."""
    mantissa, exponent = quantize_multiplier(multiplier)
    return fixed_point(value, constant(mantissa, Scalar.INT32), constant(exponent, Scalar.INT32))


def fixed_point(value: Expression, mantissa: Expression, exponent: Expression) -> Expression:
    """Computes value × mantissa × 2^(exponent - 31) as `fixed_point.multiply` does.

    The value is an INT64 in int32's range; mantissa and exponent are INT32.
    """
    return apply(Op.FIXED_POINT, value.to(Scalar.INT64), mantissa, exponent, type=Scalar.INT64)


def requantized(
    value: Expression, mantissa: Expression, exponent: Expression, rounding: Rounding
) -> Expression:
    """Computes an INT64 × mantissa × 2^(exponent - 31) with this rounding, as INT64.

    Mantissa and exponent are INT32. Double rounding requires a value in int32's range, other
    rounding a value below 2^47 and an exponent below 16.
    """
    if rounding is Rounding.TWICE:
        return fixed_point(value, mantissa, exponent)
    if rounding is Rounding.TWICE_UP:
        return apply(Op.FIXED_POINT_UP, value, mantissa, exponent, type=Scalar.INT64)
    if rounding is Rounding.ONCE_AWAY:
        magnitude = rounded_once(maximum(value, -value), mantissa, exponent)
        return select(value < 0, -magnitude, magnitude)
    return rounded_once(value, mantissa, exponent)


class Requantizer:
    """Requantises sums: bias, multiplier, zero point and range, as `fixed_point.Requantization`.

    Args:
        builder: the builder of the operation.
        call: the operation.
        scales: the scales of the sums, one per output channel or one for all.
        rounding: the rounding of products with the multiplier.

    Raises:
        Unsupported: a multiplier is too large for the rounding.
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
        if not rounding.is_twice and exponents.max() > _MAX_EXPONENT_ONCE:
            raise Unsupported(
                f"a requantisation multiplier of {reals.max():g} is too large for single rounding"
            )
        self._rounding = rounding
        self._single = (int(mantissas[0]), int(exponents[0])) if len(reals) == 1 else None
        self._mantissas = builder.constant(mantissas.astype(np.int32))
        self._exponents = builder.constant(exponents.astype(np.int32))

    def __call__(self, total: Expression, channel: Expression) -> Expression:
        """Requantises a sum, including the bias, of an output channel."""
        if self._single is not None:
            mantissa: Expression = constant(self._single[0], Scalar.INT32)
            exponent: Expression = constant(self._single[1], Scalar.INT32)
        else:
            mantissa, exponent = load(self._mantissas, (channel,)), load(self._exponents, (channel,))
        scaled = requantized(total, mantissa, exponent, self._rounding)
        return saturate(scaled + self._output.zero_point, self._output, self._activation)
