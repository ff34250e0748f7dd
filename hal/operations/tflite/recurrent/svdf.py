"""SVDF with 8-bit weights: floats quantised at run time, or integers throughout.

The arguments are those of Android's floating-point operation and, last, whether rows of floats have
a zero point. The integer variant has a 16-bit state, 16-bit time weights, and no activation except
saturation.
"""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier, single_ratio
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.signature import Form, row, scalar
from neurald.hal.operations.recurrent import svdf
from neurald.hal.operations.recurrent.recurrent import is_given
from neurald.hal.records import replace

_INT8 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
_INT16 = OperandType.TENSOR_QUANT16_SYMM
_FLOAT32 = OperandType.TENSOR_FLOAT32

#: Types of input and output (T), feature weights (W), time weights (X), bias (B) and state (C).
_ROWS = (
    row(FeatureLevel.LEVEL_1, T=_FLOAT32, W=_INT8, X=_INT8, B=_FLOAT32, C=_FLOAT32),
    row(FeatureLevel.LEVEL_1, T=_INT8, W=_INT8, X=_INT16, B=OperandType.TENSOR_INT32, C=_INT16),
)
_TYPES = {"weights_feature": "W", "weights_time": "X", "bias": "B", "state_in": "C", "state_out": "C"}


def _typed(form: Form) -> Form:
    return replace(
        form,
        inputs=(
            *(replace(each, types=_TYPES.get(each.name, each.types)) for each in form.inputs),
            scalar("asymmetric", OperandType.BOOL),
        ),
        outputs=tuple(replace(each, types=_TYPES.get(each.name, each.types)) for each in form.outputs),
    )


def factor(call: Call, first: str, second: str, divisor: str) -> tuple[int, int]:
    """Returns the multiplier from products of the first two operands to the third."""
    scales = (call.operand(name).scale for name in (first, second, divisor))
    return quantize_multiplier(single_ratio(*scales))


def _integers(call: Call) -> tuple[Array, ...]:
    """Computes `run_svdf` in LiteRT's fixed-point arithmetic."""
    source, output = call.operand("input"), call.operand("output")
    times = call.array("weights_time").astype(np.int64)
    values = call.array("input").astype(np.int64) - source.zero_point
    filters, length = times.shape
    features = values @ call.array("weights_feature").T.astype(np.int64)
    scaled = multiply(features, *factor(call, "input", "weights_feature", "state_in"))
    memory = call.array("state_in").reshape(len(values), filters, length).copy()
    memory[:, :, -1] = np.clip(scaled, -(1 << 15), (1 << 15) - 1)
    sums = (memory * times).sum(axis=2)
    totals = sums.reshape(len(values), filters // call.scalar("rank"), -1).sum(axis=2)
    if is_given(call, "bias"):
        totals = totals + call.array("bias")
    totals = totals.astype(np.int32).astype(np.int64)  # Sums wrap as LiteRT's do.
    result = multiply(totals, *factor(call, "state_in", "weights_time", "output"))
    following = np.zeros_like(memory)
    following[:, :, :-1] = memory[:, :, 1:]
    results = np.clip(result + output.zero_point, -(1 << 7), (1 << 7) - 1).astype(np.int8)
    return following.reshape(len(values), -1), results


def _reference(call: Call) -> tuple[Array, ...]:
    return _integers(call) if is_quantized(call.operand("input")) else _ANDROID.reference(call)


(_ANDROID,) = svdf.DEFINITIONS

DEFINITIONS = (
    replace(
        _ANDROID,
        type=OperationType.TFLITE_SVDF,
        forms=tuple(_typed(form) for form in _ANDROID.forms),
        rows=_ROWS,
        reference=_reference,
    ),
)
