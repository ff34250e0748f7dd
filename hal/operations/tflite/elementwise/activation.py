"""Activations with all types and scales of TFLite."""

import math
from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier, single_ratio
from neurald.hal.operations.arithmetic.quantized import round_away
from neurald.hal.operations.elementwise.activation import sigmoid
from neurald.hal.operations.elementwise.selection import DEFINITIONS as SELECTIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.rules import shape_of_input
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, Row, row, scalar, tensor
from neurald.hal.operations.tflite.machinery.tables import FLOATS, QUANT8, lookup, typed_rows, unary_form
from neurald.hal.records import replace

_INT8 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
_INT16 = OperandType.TENSOR_QUANT16_SYMM
_ROWS = typed_rows(*FLOATS, *QUANT8, _INT16)

#: int16 results are fractions of 2^15.
_SCALE16 = 1 / (1 << 15)


def _clamp(low: float, high: float) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference that clamps values; quantised ones are rescaled first."""

    def reference(call: Call) -> tuple[Array, ...]:
        operand, output, values = call.operand("input"), call.operand("output"), call.array("input")
        if not is_quantized(output):
            return (np.asarray(np.clip(values, low, high)).astype(values.dtype, copy=False),)
        limits = np.iinfo(values.dtype)
        with np.errstate(over="ignore"):
            ends = round_away(np.array([low, high], np.float32) / np.float32(output.scale))
        lowest, highest = np.clip(ends.astype(np.float64) + output.zero_point, limits.min, limits.max)
        differences = values.astype(np.int64) - operand.zero_point
        ratio = single_ratio(operand.scale, 1, output.scale)
        rescaled = multiply(differences, *quantize_multiplier(ratio)) + output.zero_point
        return (np.clip(rescaled, int(lowest), int(highest)).astype(values.dtype),)

    return reference


def _curve(
    function: Callable[[Array], Array], curve16: Callable[[Array, float], Array]
) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference for a smooth function.

    `curve16` is its version for int16 values with a scale.
    """

    def reference(call: Call) -> tuple[Array, ...]:
        operand, output, values = call.operand("input"), call.operand("output"), call.array("input")
        if output.type is _INT16:
            return (curve16(values, operand.scale),)
        if is_quantized(output):
            return (lookup(function, values, operand, output),)
        return (np.asarray(function(values.astype(np.float32))).astype(values.dtype),)

    return reference


def _logistic16(values: Array, scale: float) -> Array:
    from neurald.hal.operations.tflite.arithmetic.activation16 import logistic16  # few models need it

    return logistic16(values, scale)


def _tanh16(values: Array, scale: float) -> Array:
    from neurald.hal.operations.tflite.arithmetic.activation16 import tanh16  # few models need it

    return tanh16(values, scale)


def _fraction16(call: Call) -> None:
    output = call.operand("output")
    if output.type is _INT16 and output.scale != _SCALE16:
        raise BadData(f"{call.name('output')} has scale {output.scale:g}; {_SCALE16:g} is expected")


def _tabulated(function: Callable[[Call, Array], Array]) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference for a float32 function, with a table for quantised values."""

    def reference(call: Call) -> tuple[Array, ...]:
        operand, output, values = call.operand("input"), call.operand("output"), call.array("input")
        with np.errstate(all="ignore"):
            if is_quantized(output):
                return (lookup(lambda real: function(call, real), values, operand, output),)
            return (np.asarray(function(call, values.astype(np.float32))).astype(values.dtype),)

    return reference


def _elu(call: Call, values: Array) -> Array:
    return np.where(values < 0, np.float32(call.scalar("alpha")) * np.expm1(np.minimum(values, 0)), values)


def _gelu(call: Call, values: Array) -> Array:
    half = np.float32(0.5) * values
    if call.scalar("approximate"):
        inner = values + np.float32(0.044715) * values * values * values
        return np.asarray(half * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * inner)))
    from neurald.hal.operations.tflite.arithmetic.error_function import erfc  # few models need it

    arguments = values * np.float32(-math.sqrt(0.5))
    return half * erfc(arguments.astype(np.float64)).astype(np.float32)


def _leaky(call: Call) -> tuple[Array, ...]:
    """Computes x, or alpha * x below 0; quantised values have a multiplier for each case."""
    operand, output, values = call.operand("input"), call.operand("output"), call.array("input")
    alpha = np.float32(call.scalar("alpha"))
    if not is_quantized(output):
        real = values.astype(np.float32)
        with np.errstate(all="ignore"):
            return (np.where(real > 0, real, real * alpha).astype(values.dtype),)
    differences = values.astype(np.int64) - operand.zero_point
    above = multiply(differences, *quantize_multiplier(single_ratio(operand.scale, 1, output.scale)))
    slope = single_ratio(operand.scale, float(abs(alpha)), output.scale)
    below = multiply(differences, *quantize_multiplier(slope))
    results = np.where(differences >= 0, above, -below if alpha < 0 else below) + output.zero_point
    limits = np.iinfo(values.dtype)
    return (np.clip(results, limits.min, limits.max).astype(values.dtype),)


def _finite_alpha(call: Call) -> None:
    alpha = call.scalar("alpha")
    if not math.isfinite(alpha):
        raise BadData(f"{call.name('alpha')} is {alpha}; it must be finite")


def _definition(
    operation_type: OperationType,
    reference: Callable[[Call], tuple[Array, ...]],
    *scalars: Parameter,
    checks: tuple[Check, ...] = (),
    widens: OperationType | None = None,
    rows: tuple[Row, ...] = _ROWS,
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(unary_form(*scalars),),
        rows=rows,
        checks=checks,
        shape=shape_of_input,
        reference=reference,
        arithmetic=frozenset({"input"}),
        widens=widens,
    )


_PRELU = next(definition for definition in SELECTIONS if definition.type is OperationType.PRELU)

DEFINITIONS = (
    _definition(OperationType.TFLITE_RELU, _clamp(0, np.inf), widens=OperationType.RELU),
    _definition(OperationType.TFLITE_RELU6, _clamp(0, 6), widens=OperationType.RELU6),
    _definition(OperationType.TFLITE_RELU_N1_TO_1, _clamp(-1, 1), widens=OperationType.RELU1),
    _definition(OperationType.TFLITE_RELU_0_TO_1, _clamp(0, 1)),
    _definition(
        OperationType.TFLITE_LOGISTIC,
        _curve(sigmoid, _logistic16),
        checks=(_fraction16,),
        widens=OperationType.LOGISTIC,
    ),
    _definition(
        OperationType.TFLITE_TANH,
        _curve(np.tanh, _tanh16),
        checks=(_fraction16,),
        widens=OperationType.TANH,
    ),
    _definition(OperationType.TFLITE_ELU, _tabulated(_elu), scalar("alpha", "S"), widens=OperationType.ELU),
    _definition(
        OperationType.TFLITE_GELU,
        _tabulated(_gelu),
        scalar("approximate", OperandType.BOOL),
        rows=typed_rows(*FLOATS, *QUANT8, _INT16, zero_points16=True),
    ),
    _definition(OperationType.TFLITE_LEAKY_RELU, _leaky, scalar("alpha", "S"), checks=(_finite_alpha,)),
    replace(
        _PRELU,
        type=OperationType.TFLITE_PRELU,
        forms=(
            Form(
                inputs=(tensor("input", rank=ANY_RANK), tensor("alpha", "A", rank=ANY_RANK)),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=tuple(
            row(FeatureLevel.LEVEL_1, T=data, A=_INT8 if data is _INT16 else data, zero_points16=True)
            for data in (*FLOATS, *QUANT8, _INT16)
        ),
        widens=OperationType.PRELU,
    ),
)
