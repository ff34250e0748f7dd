"""Lowers activations for all of TFLite's types and scales."""

import math

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, maximum, select
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.elementwise.pointwise import (
    UNARY_INPUTS,
    by_table,
    lower_pointwise,
    pointwise,
    reference,
)
from neurald.drivers.compiler.lowering.elementwise.selection import LOWERINGS as SELECTIONS
from neurald.drivers.compiler.lowering.elementwise.unary import elu, lower_unary, op_function
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Call


def _clamped(low: float, high: float) -> Lowering:
    """Returns the lowering of a clamp.

    Quantised values are clamped to the quantised limits, or looked up in a table if the scale
    changes.
    """
    lower_plain = lower_pointwise(
        lambda value: clamp(value, low, high) if high < math.inf else maximum(value, low)
    )

    def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
        operand, output = call.operand("input"), call.operand("output")
        if not is_quantized(output):
            return lower_plain(call, builder)
        if (operand.scale, operand.zero_point) != (output.scale, output.zero_point):
            return by_table(call, builder)
        limits = np.iinfo(operand.type.dtype.name)
        # Values between the limits are unchanged.
        ends = reference(call.replaced("input", np.array([limits.min, limits.max], operand.type.dtype)))
        return pointwise(call, builder, UNARY_INPUTS, lambda value: clamp(value, int(ends[0]), int(ends[1])))

    return lowered


def _elu(call: Call, builder: Builder) -> tuple[Value, ...]:
    alpha = float(call.scalar("alpha"))
    return lower_unary(lambda value: elu(value, alpha))(call, builder)


def gelu(value: Expression) -> Expression:
    """Returns x times the normal distribution at x."""
    return value * 0.5 * (apply(Op.ERF, value * math.sqrt(0.5)) + 1.0)


def approximate_gelu(value: Expression) -> Expression:
    """Returns x times 1 plus a hyperbolic tangent near the distribution's, halved."""
    inner = value * (value * value + 1 / 0.044715) * (0.044715 * math.sqrt(2 / math.pi))
    return value * 0.5 * (apply(Op.TANH, inner) + 1.0)


def _gelu(call: Call, builder: Builder) -> tuple[Value, ...]:
    return lower_unary(approximate_gelu if call.scalar("approximate") else gelu)(call, builder)


def _leaky(call: Call, builder: Builder) -> tuple[Value, ...]:
    alpha = float(call.scalar("alpha"))
    return lower_unary(lambda value: select(value > 0.0, value, value * alpha))(call, builder)


LOWERINGS = {
    OperationType.TFLITE_RELU: _clamped(0.0, math.inf),
    OperationType.TFLITE_RELU6: _clamped(0.0, 6.0),
    OperationType.TFLITE_RELU_N1_TO_1: _clamped(-1.0, 1.0),
    OperationType.TFLITE_RELU_0_TO_1: _clamped(0.0, 1.0),
    OperationType.TFLITE_LOGISTIC: lower_unary(op_function(Op.LOGISTIC)),
    OperationType.TFLITE_TANH: lower_unary(op_function(Op.TANH)),
    OperationType.TFLITE_ELU: _elu,
    OperationType.TFLITE_GELU: _gelu,
    OperationType.TFLITE_LEAKY_RELU: _leaky,
    OperationType.TFLITE_PRELU: SELECTIONS[OperationType.PRELU],
}
