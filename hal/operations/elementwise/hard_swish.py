"""HARD_SWISH: x * min(max(x + 3, 0), 6) / 6.

Quantised values use TFLite's 16-bit arithmetic, where numbers are fractions of 2^15. The input is
scaled by 128 for precision and multiplied twice: once to the output's scale, except for a power of
two, and once to the factor beside x in the definition, in which 3 is represented by 2^15. Their
product is shifted to the output's scale.
"""

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier
from neurald.hal.operations.arithmetic.quantized import saturate
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, shape_of_input
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, tensor

_PRECISION_BITS = 7
_FRACTION_BITS = 15


def _saturate_int16(values: Array) -> Array:
    limits = np.iinfo(np.int16)
    return np.clip(values, limits.min, limits.max)


def _multiplier(real: float) -> tuple[int, int]:
    """Converts `real` to (mantissa, exponent), the mantissa a fraction of 2^15."""
    mantissa, exponent = quantize_multiplier(real)
    return min((mantissa + (1 << 15)) >> 16, np.iinfo(np.int16).max), exponent


def _product(values: Array, mantissa: int) -> Array:
    """Multiplies two fractions, rounded to nearest; cannot overflow with a positive mantissa."""
    return (values * mantissa + (1 << _FRACTION_BITS - 1)) >> _FRACTION_BITS


def _shift_right(values: Array, bits: int) -> Array:
    """Shifts right, rounded to nearest, ties away from zero."""
    half = (1 << bits) >> 1
    return np.where(values < 0, -((-values + half) >> bits), (values + half) >> bits)


def _factor(precise: Array, scale: float) -> Array:
    """Computes min(max(x + 3, 0), 6) / 6 as a fraction, from x at that scale."""
    mantissa, exponent = _multiplier(scale * (1 << _FRACTION_BITS) / 3)
    # One bit of a left shift is applied last, so that the saturation before it is no tighter than
    # the one after.
    early, late = max(exponent - 1, 0), min(max(exponent, 0), 1)
    factor = _product(_saturate_int16(precise << early), mantissa)
    factor = _shift_right(_saturate_int16(factor << late), max(-exponent, 0))
    return (factor + (1 << _FRACTION_BITS)) >> 1


def _table(operand: Operand, output: Operand) -> Array:
    """Returns the results for the 256 quantised values in ascending order."""
    limits = np.iinfo(operand.type.dtype.name)
    precise = (np.arange(limits.min, limits.max + 1) - operand.zero_point) << _PRECISION_BITS
    scale = operand.scale / (1 << _PRECISION_BITS)
    mantissa, exponent = _multiplier(scale / output.scale)
    products = _factor(precise, scale) * _product(precise, mantissa)
    # This product alone is rounded towards zero.
    result = np.sign(products) * (np.abs(products) >> _FRACTION_BITS)
    result = np.clip(result << max(exponent, 0), -(1 << _FRACTION_BITS), 1 << _FRACTION_BITS)
    return saturate(_shift_right(result, max(-exponent, 0)) + output.zero_point, output)


def _reference(call: Call) -> tuple[Array, ...]:
    operand, output, values = call.operand("input"), call.operand("output"), call.array("input")
    if is_quantized(output):
        return (_table(operand, output)[values.astype(np.intp) - np.iinfo(values.dtype).min],)
    real = values.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return ((real * np.clip(real + 3, 0, 6) / 6).astype(output.type.dtype),)


DEFINITIONS = (
    Definition(
        type=OperationType.HARD_SWISH,
        forms=(Form(inputs=(tensor("input", rank=ANY_RANK),), outputs=(tensor("output", rank=ANY_RANK),)),),
        rows=data_rows(FeatureLevel.LEVEL_4, quant8=FeatureLevel.LEVEL_4),
        shape=shape_of_input,
        reference=_reference,
        arithmetic=frozenset({"input"}),
    ),
)
