"""QUANTIZE, DEQUANTIZE: conversion of real numbers to quantised values and back."""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import round_away, saturate
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import shape_of_input
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, row, tensor

_FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)


def _form(max_rank: int) -> Form:
    ranks = (0, max_rank)
    return Form(inputs=(tensor("input", "T", rank=ranks),), outputs=(tensor("output", "U", rank=ranks),))


def _quantize(call: Call) -> tuple[Array, ...]:
    """Divides in float32, as TFLite and Android NN do; NaN becomes 0."""
    output = call.operand("output")
    with np.errstate(all="ignore"):
        ratio = call.array("input").astype(np.float32) / np.float32(output.scale)
    rounded = round_away(np.nan_to_num(ratio.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    return (saturate(rounded + output.zero_point, output),)


def _dequantize(call: Call) -> tuple[Array, ...]:
    operand = call.operand("input")
    # In place: new memory for each step would take several times as long.
    values: Array = call.array("input").astype(np.float32)
    values -= np.float32(operand.zero_point)
    scale = np.asarray(operand.scale, np.float32)
    if operand.channel_quant is not None:
        along = [1] * values.ndim
        along[operand.channel_quant.dimension] = -1
        scale = np.asarray(operand.channel_quant.scales, np.float32).reshape(along)
    with np.errstate(over="ignore"):
        values *= scale
        return (values.astype(call.operand("output").type.dtype, copy=False),)


_QUANTIZE_ROWS = tuple(
    row(level, T=real, U=quantized)
    for level, quantized in (
        (FeatureLevel.LEVEL_3, OperandType.TENSOR_QUANT8_ASYMM),
        (FeatureLevel.LEVEL_4, OperandType.TENSOR_QUANT8_ASYMM_SIGNED),
    )
    for real in _FLOATS
)

_DEQUANTIZE_ROWS = (
    row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_QUANT8_ASYMM, U=OperandType.TENSOR_FLOAT32),
    row(FeatureLevel.LEVEL_3, T=OperandType.TENSOR_QUANT8_ASYMM, U=OperandType.TENSOR_FLOAT16),
    *(
        row(level, T=quantized, U=real)
        for level, quantized in (
            (FeatureLevel.LEVEL_3, OperandType.TENSOR_QUANT8_SYMM),
            (FeatureLevel.LEVEL_3, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL),
            (FeatureLevel.LEVEL_4, OperandType.TENSOR_QUANT8_ASYMM_SIGNED),
        )
        for real in _FLOATS
    ),
)

DEFINITIONS = (
    Definition(
        type=OperationType.QUANTIZE,
        forms=(_form(MAX_RANK),),
        rows=_QUANTIZE_ROWS,
        shape=shape_of_input,
        reference=_quantize,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.DEQUANTIZE,
        forms=(_form(4),),
        rows=_DEQUANTIZE_ROWS,
        shape=shape_of_input,
        reference=_dequantize,
        arithmetic=frozenset({"input"}),
    ),
)
