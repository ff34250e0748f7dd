"""Binds QUANTIZE, DEQUANTIZE and FAKE_QUANT."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.elementwise.element_call import element_call, has_table
from neurald.drivers.cpu.first_tier.binding.scope import (
    FLOAT,
    SHORT,
    UNLIMITED,
    Bind,
    BindingScope,
    bits,
    bound_by,
    integer_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call

#: Floats above this and near it are integers, whose last bits are those of the number.
_MAGIC: Final = 1.5 * 2**23
#: Quotients nearer to an integer are rounded like those of a division, whose error is below 2^-14.
_SAFE: Final = 0.5 - 2.0**-12
_MAX_SCALE: Final = 2.0**60


def bind_quantize(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds QUANTIZE of floats, and of bytes with another scale."""
    operand, output = call.operand("input"), call.operand("output")
    if has_table(operand, output):
        from neurald.drivers.cpu.first_tier.binding.elementwise.tables import table_calls  # few models

        return table_calls(scope, call, "input")
    if operand.type is not FLOAT:
        raise NotBound("the types have no kernel")
    words = [bits(output.scale), output.zero_point, *quantized_limits(output)]
    if output.type is not SHORT:
        words += _inverse_words(output)
    return element_call(call, f"quantize_{integer_of(output)}", ("input",), tuple(words))


def _inverse_words(output: Operand) -> list[int]:
    """Returns the words by which the kernel for bytes multiplies instead of dividing."""
    scale, zero_point = output.scale, output.zero_point
    limits = [(limit - zero_point) * scale for limit in quantized_limits(output)]
    # Otherwise there are denormal or infinite numbers, and all quotients are divided.
    is_usual = 1 / _MAX_SCALE < scale < _MAX_SCALE
    numbers = (1 / scale, *limits, _MAGIC + zero_point, _SAFE) if is_usual else (0.0, 0.0, 0.0, _MAGIC, -1.0)
    return [bits(each) for each in numbers]


def bind_dequantize(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds DEQUANTIZE of bytes and of 16-bit integers."""
    operand = call.operand("input")
    if operand.type is OperandType.TENSOR_FLOAT16 and call.operand("output").type is FLOAT:
        return element_call(call, "cast_float16_float32", ("input",))
    if call.operand("output").type is not FLOAT or operand.channel_quant is not None:
        raise NotBound("the types have no kernel")
    words = (operand.zero_point, bits(operand.scale))
    return element_call(call, f"dequantize_{integer_of(operand)}", ("input",), words)


def bind_fake_quantize(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds FAKE_QUANT, whose range is constant."""
    from neurald.hal.operations.tflite.elementwise.quantization import nudged_range

    low, high, scale = nudged_range(call)
    words = [bits(float(each)) for each in (low, high, np.float32(1) / scale, scale)]
    return element_call(call, "nearest_step", ("input",), (*words, *UNLIMITED))


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **bound_by(bind_quantize, "QUANTIZE", "TFLITE_QUANTIZE"),
    **bound_by(bind_dequantize, "DEQUANTIZE", "TFLITE_DEQUANTIZE"),
    **bound_by(bind_fake_quantize, "TFLITE_FAKE_QUANT"),
}
