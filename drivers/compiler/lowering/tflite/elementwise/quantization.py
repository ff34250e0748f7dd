"""Lowers QUANTIZE and DEQUANTIZE of all quantised types, requantisation, and FAKE_QUANT."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.gemmlowp import saturate32
from neurald.drivers.compiler.lowering.arithmetic.quantized import rescale, saturate
from neurald.drivers.compiler.lowering.elementwise.pointwise import UNARY_INPUTS, pointwise
from neurald.drivers.compiler.lowering.elementwise.quantization import dequantize, quantize
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.elementwise.quantization import nudged_range, quantization


def _quantize(call: Call, builder: Builder) -> tuple[Value, ...]:
    output = call.operand("output")
    if call.operand("input").type.dtype.kind == "f":
        return quantize(call, builder)
    scale, zero_point = quantization(call, "input")
    output_scale, output_zero_point = quantization(call, "output")

    def requantized(value: Expression) -> Expression:
        if scale == output_scale and value.type.size_bytes <= 2:
            return saturate(value.to(Scalar.INT32) + (output_zero_point - zero_point), output)
        centred = value.to(Scalar.INT64) - zero_point
        if value.type.size_bytes > 2 and zero_point:
            centred = saturate32(centred)
        return saturate(rescale(centred, scale / output_scale) + output_zero_point, output)

    return pointwise(call, builder, UNARY_INPUTS, requantized)


def _fake_quantize(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Rounds to the nearest representable quantised value."""
    lowest, highest, scale = (float(number) for number in nudged_range(call))

    def function(value: Expression) -> Expression:
        steps = (clamp(value, lowest, highest) - lowest) * (1 / scale)
        return apply(Op.FLOOR, steps + 0.5) * scale + lowest

    return pointwise(call, builder, UNARY_INPUTS, function)


LOWERINGS = {
    OperationType.TFLITE_QUANTIZE: _quantize,
    OperationType.TFLITE_DEQUANTIZE: dequantize,
    OperationType.TFLITE_FAKE_QUANT: _fake_quantize,
}
