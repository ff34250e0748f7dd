"""SOFTMAX and LOG_SOFTMAX with all types and ranks of TFLite."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier
from neurald.hal.operations.arithmetic.quantized import real, store
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.rules import fixed_scale, resolve_axis
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, Parameter, scalar, tensor
from neurald.hal.operations.tflite.machinery.tables import FLOATS, QUANT8, interpolate, table16, typed_rows

_INT16 = OperandType.TENSOR_QUANT16_SYMM
_INT16_LIMITS = np.iinfo(np.int16)
#: The table for int16 covers exponents from minus this to 0.
_MAX_EXPONENT_MAGNITUDE = 10.0
#: Relative tolerance for a fixed output scale.
_TOLERANCE = 0.001


def _shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("input")
    if shape or call.binding.type is OperationType.TFLITE_SOFTMAX:
        resolve_axis(call.scalar("axis"), len(shape), call.name("axis"))
    return (shape,)


def _finite_beta(call: Call) -> None:
    """Checks the factor, which may be negative for floats."""
    beta, is_real = call.scalar("beta"), call.operand("input").type in FLOATS
    if not math.isfinite(beta) or (beta < 0 and not is_real):
        limit = "finite" if is_real else "finite and not negative"
        raise BadData(f"{call.name('beta')} is {beta:g}; it must be {limit}")


def _fraction16(call: Call) -> None:
    output, expected = call.operand("output"), 1 / (1 << 15)
    if output.type is _INT16 and abs(output.scale - expected) > _TOLERANCE * expected:
        raise BadData(f"{call.name('output')} has scale {output.scale:g}; {expected:g} is expected")


def _exponents(call: Call) -> Array:
    """Returns (numbers - maximum) × beta: no power overflows with beta ≥ 0, as in TFLite."""
    values, axis = real(call, "input"), call.scalar("axis")
    beta = values.dtype.type(call.scalar("beta"))
    difference: Array = (values - values.max(axis=axis, keepdims=True)) * beta
    return difference


def _softmax(call: Call) -> tuple[Array, ...]:
    _finite_beta(call)
    if not call.array("input").size:
        return (call.array("input"),)
    with np.errstate(over="ignore", invalid="ignore"):
        if call.operand("input").type is _INT16:
            return (_softmax16(call),)
        powers = np.exp(_exponents(call))
        return (store(powers / powers.sum(axis=call.scalar("axis"), keepdims=True), call.operand("output")),)


@lru_cache(maxsize=1)
def exponential_table() -> Array:
    """Tabulates e^x from -10 to 0, in fractions of 2^15."""
    steps = 0xFFFF
    return table16(
        np.exp, np.float64(_MAX_EXPONENT_MAGNITUDE / steps), _INT16_LIMITS.max, np.float64(2 / steps), 0
    )


@lru_cache(maxsize=1)
def reciprocal_table() -> Array:
    """Tabulates 1 / (1 + x) from 0 to 1, in fractions of 2^15."""
    steps = 0xFFFF
    return table16(lambda x: 1 / (1 + x), np.float64(1 / steps), _INT16_LIMITS.min, np.float64(2 / steps), 0)


def exponent_steps(call: Call) -> float:
    """Returns the number of steps of `exponential_table` per unit of a 16-bit quantised value."""
    rescale = np.float32(call.operand("input").scale) * np.float32(call.scalar("beta"))
    return float(rescale) / (_MAX_EXPONENT_MAGNITUDE / 0xFFFF)


def _softmax16(call: Call) -> Array:
    """Computes int16 softmax with two tables, of powers and of the reciprocal of their sum."""
    values, axis = call.array("input").astype(np.int64), call.scalar("axis")
    differences = values - values.max(axis=axis, keepdims=True)
    scaled = multiply(differences, *quantize_multiplier(exponent_steps(call)))
    centered = np.clip(scaled + _INT16_LIMITS.max, _INT16_LIMITS.min, _INT16_LIMITS.max)
    powers = interpolate(exponential_table(), centered).astype(np.int64)
    total = powers.sum(axis=axis, keepdims=True)
    # The sum as a number from 1 to 2, minus 1, and its number of integer bits.
    bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)
    shifted = ((total << (31 - bits)) + (1 << 13)) >> 14
    centered = np.clip(shifted - ((1 << 15) + (1 << 16)), _INT16_LIMITS.min, _INT16_LIMITS.max)
    reciprocal = interpolate(reciprocal_table(), centered).astype(np.int64)
    right = bits - 1
    result = (powers * reciprocal + ((1 << right) >> 1)) >> right
    return np.asarray(np.clip(result, 0, _INT16_LIMITS.max)).astype(np.int16)


def _log_softmax(call: Call) -> tuple[Array, ...]:
    _finite_beta(call)
    if not call.array("input").size:
        return (call.array("input"),)
    if not call.shape("input"):
        # The logarithm of a scalar's share of itself; LiteRT does not write it.
        return (store(np.zeros((), np.float32), call.operand("output")),)
    with np.errstate(over="ignore", invalid="ignore"):
        exponents = _exponents(call)
        total = np.exp(exponents).sum(axis=call.scalar("axis"), keepdims=True)
        return (store(exponents - np.log(total), call.operand("output")),)


def _definition(
    operation_type: OperationType,
    widened: OperationType,
    reference: Callable[[Call], tuple[Array, ...]],
    types: tuple[OperandType, ...],
    axis: Parameter,
    check: Check,
    least_rank: int = 1,
) -> Definition:
    ranks = (least_rank, MAX_RANK)
    form = Form(
        inputs=(tensor("input", rank=ranks), scalar("beta", "S"), axis),
        outputs=(tensor("output", rank=ranks),),
    )
    return Definition(
        type=operation_type,
        forms=(form,),
        rows=typed_rows(*types),
        checks=(_finite_beta, check),
        shape=_shape,
        reference=reference,
        widens=widened,
        arithmetic=frozenset({"input"}),
    )


DEFINITIONS = (
    _definition(
        OperationType.TFLITE_SOFTMAX,
        OperationType.SOFTMAX,
        _softmax,
        (*FLOATS, *QUANT8, _INT16),
        scalar("axis", default=-1),
        _fraction16,
    ),
    _definition(
        OperationType.TFLITE_LOG_SOFTMAX,
        OperationType.LOG_SOFTMAX,
        _log_softmax,
        (*FLOATS, *QUANT8),
        scalar("axis"),
        fixed_scale(
            {
                OperandType.TENSOR_QUANT8_ASYMM: (1 / 16, 255),
                OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (1 / 16, 127),
            }
        ),
        least_rank=0,
    ),
)
