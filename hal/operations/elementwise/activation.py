"""Activations of one tensor: RELU, RELU1, RELU6, LOGISTIC, TANH."""

from collections.abc import Callable

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, FusedActivation, OperandType
from neurald.hal.operations.arithmetic.quantized import activate, dequantize, quantize, saturate
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import (
    OutputScales,
    data_rows,
    fixed_scale,
    same_scale,
    shape_of_input,
)
from neurald.hal.operations.machinery.signature import Form, tensor

_FORM = Form(inputs=(tensor("input", rank=(0, 4)),), outputs=(tensor("output", rank=(0, 4)),))


def table_lookup(
    function: Callable[[Array], Array], values: Array, operand: Operand, result: Operand
) -> Array:
    """Applies a function of real numbers to 8-bit quantised values, by a table.

    Args:
        function: from float64 to float64, element-wise.
        values: quantised values of `operand`.
        operand, result: determine scale and zero point of input and output.
    """
    limits = np.iinfo(values.dtype)
    every = np.arange(limits.min, limits.max + 1)
    table = quantize(function(dequantize(every, operand)), result)
    return table[values.astype(np.intp) - limits.min]


def _clamp(activation: FusedActivation) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference that clamps values.

    Quantised values are clamped at the quantised limits.
    """

    def reference(call: Call) -> tuple[Array, ...]:
        output, values = call.operand("output"), call.array("input")
        if is_quantized(output):
            return (saturate(values, output, activation),)
        return (activate(values, activation),)

    return reference


def _curve(function: Callable[[Array], Array]) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference for a smooth function."""

    def reference(call: Call) -> tuple[Array, ...]:
        operand, output = call.operand("input"), call.operand("output")
        values = call.array("input")
        if is_quantized(output):
            return (table_lookup(function, values, operand, output),)
        return (function(values.astype(np.float32)).astype(output.type.dtype),)

    return reference


def sigmoid(values: Array) -> Array:
    """Computes 1 / (1 + e^-x) for floats; 0 if e^-x overflows."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-values))


def _clamp_definition(operation_type: OperationType, activation: FusedActivation) -> Definition:
    return Definition(
        type=operation_type,
        forms=(_FORM,),
        rows=data_rows(quant8=FeatureLevel.LEVEL_1),
        checks=(same_scale("input"),),
        shape=shape_of_input,
        reference=_clamp(activation),
        arithmetic=frozenset({"input"}),
    )


def _curve_definition(
    operation_type: OperationType,
    function: Callable[[Array], Array],
    quant8: FeatureLevel,
    scales: OutputScales,
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(_FORM,),
        rows=data_rows(quant8=quant8),
        checks=(fixed_scale(scales),),
        shape=shape_of_input,
        reference=_curve(function),
        arithmetic=frozenset({"input"}),
    )


DEFINITIONS = (
    _clamp_definition(OperationType.RELU, FusedActivation.RELU),
    _clamp_definition(OperationType.RELU1, FusedActivation.RELU1),
    _clamp_definition(OperationType.RELU6, FusedActivation.RELU6),
    _curve_definition(
        OperationType.LOGISTIC,
        sigmoid,
        FeatureLevel.LEVEL_1,
        {
            OperandType.TENSOR_QUANT8_ASYMM: (1 / 256, 0),
            OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (1 / 256, -128),
        },
    ),
    _curve_definition(
        OperationType.TANH,
        np.tanh,
        FeatureLevel.LEVEL_3,
        {
            OperandType.TENSOR_QUANT8_ASYMM: (1 / 128, 128),
            OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (1 / 128, 0),
        },
    ),
)
