"""Type tables and forms of element-wise operations, and TFLite's function tables."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import round_away
from neurald.hal.operations.machinery.call import Array
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, Row, row, tensor

FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)
QUANT8 = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)
#: Quantised types, which also represent plain integers of 8 and 16 bits.
QUANTIZED_TYPES = (*QUANT8, OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_QUANT16_ASYMM)
#: Integer types without a scale.
INTEGERS = (
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT64,
    OperandType.TENSOR_UINT32,
    OperandType.TENSOR_UINT64,
)
#: All types of real numbers.
REALS = (*FLOATS, OperandType.TENSOR_FLOAT64, *INTEGERS, *QUANTIZED_TYPES)

#: Steps of a 16-bit table, with interpolation between them.
STEPS = 512
STEP_BITS = 7


@cache
def typed_rows(*types: OperandType, zero_points16: bool = False) -> tuple[Row, ...]:
    """Returns rows with data of type T and real scalars of type S; see `Row.zero_points16`."""
    return tuple(
        row(
            FeatureLevel.LEVEL_1,
            zero_points16=zero_points16,
            T=data,
            S=OperandType.FLOAT16 if data is OperandType.TENSOR_FLOAT16 else OperandType.FLOAT32,
        )
        for data in types
    )


def unary_form(*scalars: Parameter) -> Form:
    """Returns the form `input`, scalars."""
    return Form(inputs=(tensor("input", rank=ANY_RANK), *scalars), outputs=(tensor("output", rank=ANY_RANK),))


def binary_form(*scalars: Parameter) -> Form:
    """Returns the form `input1`, `input2`, scalars."""
    inputs = tensor("input1", rank=ANY_RANK), tensor("input2", rank=ANY_RANK), *scalars
    return Form(inputs=inputs, outputs=(tensor("output", rank=ANY_RANK),))


def lookup(function: Callable[[Array], Array], values: Array, operand: Operand, output: Operand) -> Array:
    """Applies a function of real numbers to quantised values, with TFLite's tables.

    Args:
        function: from float32 to float32, element-wise, never NaN.
        values: 8- or 16-bit quantised values of `operand`.
        operand, output: determine scale and zero point of input and output.
    """
    limits = np.iinfo(values.dtype)
    with np.errstate(all="ignore"):
        if limits.bits == 8:
            table = _table8(function, operand, output)
            return np.asarray(table[values.astype(np.intp) - limits.min])
        parts = np.float32(operand.scale), operand.zero_point, np.float32(output.scale), output.zero_point
        return interpolate(table16(function, *parts), values)


def _table8(function: Callable[[Array], Array], operand: Operand, output: Operand) -> Array:
    """Returns the 256 results in ascending order of their arguments."""
    limits = np.iinfo(operand.type.dtype.name)
    centred = np.arange(limits.min, limits.max + 1) - operand.zero_point
    real = function(np.float32(operand.scale) * centred.astype(np.float32))
    inverse = np.float32(1) / np.float32(output.scale)
    quantized = round_away(real * inverse).astype(np.float64) + output.zero_point
    table: Array = np.clip(quantized, limits.min, limits.max).astype(operand.type.dtype)
    return table


def table16(
    function: Callable[[Array], Array],
    scale: Any,
    zero_point: int,
    output_scale: Any,
    output_zero_point: int,
) -> Array:
    """Returns the 513 results for int16 arguments 128 apart, adjusted for interpolation.

    Args:
        function: element-wise, in the type of the scales.
        scale, zero_point: the scale and zero point of the arguments.
        output_scale, output_zero_point: the output scale and output zero point of the results.
    """
    real = np.result_type(scale).type
    limits = np.iinfo(np.int16)
    lowest, highest = (scale * real(limit - zero_point) for limit in (limits.min, limits.max))
    output_range = output_scale * real(limits.max - output_zero_point) - output_scale * real(
        limits.min - output_zero_point
    )
    step = (highest - lowest) / real(STEPS)
    factor = real(limits.max - limits.min + 1) / output_range
    starts = lowest + np.arange(STEPS).astype(real) * step
    samples = round_away(function(starts) * factor)
    middles = round_away(function(starts + step / real(2)) * factor)
    following = function(lowest + np.arange(1, STEPS + 1).astype(real) * step) * factor
    errors = round_away((following + samples) / real(2)) - middles
    last = round_away(function(np.array([highest])) * factor)
    table = np.concatenate((samples - round_away(errors / real(2)), last))
    clipped: Array = np.clip(table, limits.min, limits.max).astype(np.int16)
    return clipped


def interpolate(table: Array, values: Array) -> Array:
    """Interpolates the results for int16 `values` in a table of `table16`."""
    index = (values.astype(np.int32) >> STEP_BITS) + STEPS // 2
    offset = values.astype(np.int32) & ((1 << STEP_BITS) - 1)
    base = table[index].astype(np.int32)
    # The slope has 16 bits.
    slope = (table[index + 1].astype(np.int32) - base).astype(np.int16).astype(np.int32)
    return np.asarray(base + ((slope * offset + (1 << STEP_BITS - 1)) >> STEP_BITS)).astype(np.int16)
