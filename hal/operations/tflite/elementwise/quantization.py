"""QUANTIZE and DEQUANTIZE with all quantised types, requantisation, and FAKE_QUANT.

For 32-bit integers, whose operands have no scale, QUANTIZE has scale and zero point as arguments.
"""

import math

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier
from neurald.hal.operations.arithmetic.quantized import round_away, saturate
from neurald.hal.operations.elementwise.quantization import DEFINITIONS as QUANTIZATIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import shape_of_input
from neurald.hal.operations.machinery.signature import Form, row, scalar
from neurald.hal.operations.tflite.machinery.tables import FLOATS, QUANTIZED_TYPES, typed_rows, unary_form
from neurald.hal.operations.tflite.machinery.widening import widen
from neurald.hal.records import replace

_LEVEL = FeatureLevel.LEVEL_1
_BITS = (2, 16)

_NARROW = {definition.type: definition for definition in QUANTIZATIONS}
_QUANTIZE = _NARROW[OperationType.QUANTIZE]

#: Input types of QUANTIZE.
_REAL_OR_QUANTIZED = (*FLOATS, *QUANTIZED_TYPES)

_INT16, _INT32 = OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_INT32
_INT8 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
#: Type pairs for which TFLite requantises from or to 32 bits.
_WIDE_PAIRS = ((_INT16, _INT32), (_INT32, _INT8), (_INT32, _INT16))


def _with_wide_quantization(form: Form) -> Form:
    wide = scalar("wide_scale", OperandType.FLOAT32), scalar("wide_zero_point")
    return replace(form, inputs=(*form.inputs, *wide))


def _wide_quantization(call: Call) -> None:
    """Checks that scale and zero point are given if and only if an operand has 32 bits."""
    if "wide_scale" not in call.binding.inputs:
        for name in ("input", "output"):
            if call.operand(name).type is _INT32:
                raise BadData(f"{call.name(name)} is TENSOR_INT32; its scale and zero point are expected")
        return
    if _INT32 not in (call.operand("input").type, call.operand("output").type):
        raise BadData(f"{call.name('wide_scale')} is given; it goes with an operand of TENSOR_INT32")
    scale = call.scalar("wide_scale")
    if not 0 < scale < math.inf:
        raise BadData(f"{call.name('wide_scale')} is {scale:g}; it must be positive and finite")


def quantization(call: Call, name: str) -> tuple[float, int]:
    """Returns scale and zero point of the input or the output."""
    operand = call.operand(name)
    if operand.type is _INT32:
        return call.scalar("wide_scale"), call.scalar("wide_zero_point")
    return operand.scale, operand.zero_point


def _requantize(call: Call) -> tuple[Array, ...]:
    operand, output = call.operand("input"), call.operand("output")
    if not is_quantized(operand) and operand.type is not _INT32:
        return _QUANTIZE.reference(call)
    scale, zero_point = quantization(call, "input")
    output_scale, output_zero_point = quantization(call, "output")
    limits = np.iinfo(np.int32)
    difference = np.clip(call.array("input").astype(np.int64) - zero_point, limits.min, limits.max)
    rescaled = multiply(difference, *quantize_multiplier(scale / output_scale)) + output_zero_point
    if output.type is _INT32:
        return (np.clip(rescaled, limits.min, limits.max).astype(np.int32),)
    return (saturate(rescaled, output),)


def _range(call: Call) -> tuple[float, float]:
    """Returns the range of FAKE_QUANT after checking it and the number of bits.

    Raises:
        BadData: they are invalid.
    """
    low, high = call.scalar("minimum"), call.scalar("maximum")
    call.scalar_in("bits", *_BITS)
    if not (math.isfinite(low) and math.isfinite(high) and low <= 0 <= high and low < high):
        raise BadData(
            f"{call.name('minimum')} is {low:g} and the maximum is {high:g}; a range that has 0 is expected"
        )
    return low, high


def _valid_range(call: Call) -> None:
    _range(call)


def nudged_range(call: Call) -> tuple[np.float32, np.float32, np.float32]:
    """Returns the ends of FAKE_QUANT's range, adjusted so that 0 is exact, and the step size."""
    low, high = (np.float32(end) for end in _range(call))
    steps = np.float32((1 << call.scalar("bits")) - 1)
    with np.errstate(all="ignore"):
        scale = (high - low) / steps
        zero_point = np.float32(np.clip(round_away(np.asarray(-low / scale)), 0, steps))
        return -zero_point * scale, (steps - zero_point) * scale, scale


def _fake_quantize(call: Call) -> tuple[Array, ...]:
    """Rounds to representable values, in float32."""
    lowest, highest, scale = nudged_range(call)
    with np.errstate(all="ignore"):
        values = np.clip(call.array("input"), lowest, highest)
        result = round_away((values - lowest) * (np.float32(1) / scale)) * scale + lowest
    return (result.astype(np.float32),)


_WIDENED = widen(
    _QUANTIZE,
    OperationType.TFLITE_QUANTIZE,
    rows=tuple(
        # From int16 to int16, LiteRT does not support zero points.
        row(_LEVEL, T=source, U=target, zero_points16=source is not target)
        for source, target in (
            *((source, target) for source in _REAL_OR_QUANTIZED for target in QUANTIZED_TYPES),
            *_WIDE_PAIRS,
        )
    ),
)

DEFINITIONS = (
    replace(
        _WIDENED,
        forms=(*_WIDENED.forms, *(_with_wide_quantization(form) for form in _WIDENED.forms)),
        checks=(*_WIDENED.checks, _wide_quantization),
        reference=_requantize,
    ),
    widen(
        _NARROW[OperationType.DEQUANTIZE],
        OperationType.TFLITE_DEQUANTIZE,
        rows=tuple(
            row(_LEVEL, T=source, U=target)
            for source in (*QUANTIZED_TYPES, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL)
            for target in FLOATS
        ),
    ),
    Definition(
        type=OperationType.TFLITE_FAKE_QUANT,
        forms=(
            unary_form(
                scalar("minimum", OperandType.FLOAT32), scalar("maximum", OperandType.FLOAT32), scalar("bits")
            ),
        ),
        rows=typed_rows(OperandType.TENSOR_FLOAT32),
        checks=(_valid_range,),
        shape=shape_of_input,
        reference=_fake_quantize,
        arithmetic=frozenset({"input"}),
    ),
)
