"""Lowers QUANTIZE and DEQUANTIZE."""

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real, store
from neurald.drivers.compiler.lowering.elementwise.pointwise import UNARY_INPUTS, pointwise
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def quantize(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers QUANTIZE in FLOAT32; NaN is stored as 0."""
    output = call.operand("output")
    return pointwise(call, builder, UNARY_INPUTS, lambda value: store(value.to(Scalar.FLOAT32), output))


def dequantize(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers DEQUANTIZE, by the operand's scale or its per-channel scales."""
    source, operand = builder.value(call, "input"), call.operand("input")
    result = Scalar.of(call.operand("output").type.dtype)
    channels = operand.channel_quant
    if channels is None:
        return pointwise(call, builder, UNARY_INPUTS, lambda value: real(value, operand).to(result))
    scales = builder.constant(np.array(channels.scales, np.float32))

    def body(*at: Expression) -> Expression:
        difference = load(source, at).to(Scalar.INT32) - operand.zero_point
        return (difference.to(Scalar.FLOAT32) * load(scales, (at[channels.dimension],))).to(result)

    return (builder.compute(source.shape, body),)


LOWERINGS = {OperationType.QUANTIZE: quantize, OperationType.DEQUANTIZE: dequantize}
