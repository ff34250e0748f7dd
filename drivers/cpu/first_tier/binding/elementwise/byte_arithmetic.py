"""Calls of arithmetic on two quantised bytes."""

import math
from typing import Final

from neurald.drivers.cpu.first_tier.binding.convolution.requantization import (
    single_requantization,
)
from neurald.drivers.cpu.first_tier.binding.elementwise.element_call import element_call
from neurald.drivers.cpu.first_tier.binding.scope import (
    MAX_INT32,
    UNSIGNED,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.drivers.cpu.first_tier.layout import (
    LOW_DIGIT,
    ByteAddend,
    ByteOperand,
    NearSum,
)
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import FusedActivation
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier, single_ratio
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call

#: The largest difference of a byte from a zero point.
_MAX_BYTE: Final = 255
#: Shift with which no byte that is multiplied by a mantissa is rounded to another number than 0.
_MAX_DIGITS: Final = 30


def byte_arithmetic_calls(call: Call, function: str) -> list[BoundCall]:
    """Returns the call of arithmetic on two bytes.

    Args:
        call: the operation.
        function: "add", "subtract", "multiply", "squared_difference" or "prelu".

    Raises:
        NotBound: no kernel has the function, or results may exceed 32 bits.
    """
    one, other, *_ = call.binding.inputs
    first, second, output = (call.operand(name) for name in (one, other, "output"))
    activation = call.activation if "activation" in call.binding.inputs else FusedActivation.NONE
    words = [*_byte_operand(first), *_byte_operand(second)]
    unit = 2.0 * max(first.scale, second.scale)
    if function == "multiply":
        kernel, rescale = "byte_product", single_ratio(first.scale, second.scale, output.scale)
        largest = _MAX_BYTE * _MAX_BYTE * rescale
    elif function == "squared_difference":
        from neurald.hal.operations.tflite.elementwise.arithmetic import DIFFERENCE_SHIFT as SHIFT

        kernel, rescale = "byte_square", unit * unit / ((1 << 2 * SHIFT) * output.scale)
        words += [*_addend(first, SHIFT, unit, 1), *_addend(second, SHIFT, unit, -1)]
        largest = (_MAX_BYTE * unit) ** 2 / output.scale
    elif function in ("add", "subtract"):
        from neurald.hal.operations.elementwise.arithmetic import addend_shift

        shift, sign = addend_shift(output), 1 if function == "add" else -1
        kernel, rescale = "byte_sum", unit / ((1 << shift) * output.scale)
        words += [*_addend(first, shift, unit, 1), *_addend(second, shift, unit, sign)]
        words += _near_sum(first, second, output, sign, rescale)
        largest = _MAX_BYTE * unit / output.scale
    elif function == "prelu":
        kernel, rescale = "byte_prelu", single_ratio(first.scale, second.scale, output.scale)
        above = single_ratio(first.scale, 1, output.scale)
        words += single_requantization(*quantize_multiplier(above))
        largest = _MAX_BYTE * max(above, _MAX_BYTE * rescale)
    else:
        raise NotBound("the types have no kernel")
    if not largest < MAX_INT32 - _MAX_BYTE:
        raise NotBound("results may exceed 32 bits")
    words += [
        *single_requantization(*quantize_multiplier(rescale)),
        output.zero_point,
        *quantized_limits(output, activation),
    ]
    return element_call(call, kernel, (one, other), tuple(words))


def _byte_operand(operand: Operand) -> ByteOperand:
    if operand.type is UNSIGNED:
        return ByteOperand(flip=0, zero_point=operand.zero_point)
    return ByteOperand(flip=1 << 7, zero_point=operand.zero_point + (1 << 7))


def _addend(operand: Operand, shift: int, unit: float, sign: int) -> ByteAddend:
    """Returns how bytes are rescaled, with the results of `rescaled` for shifted integers.

    Args:
        operand: the type of bytes.
        shift: the shift of what is rescaled to the unit.
        unit: the scale of the sum, at least twice that of the operand.
        sign: the sign of addends.
    """
    mantissa, addend, below_zero, all_bits = single_requantization(*quantize_multiplier(operand.scale / unit))
    # Products, and what is added to them, are multiples of what they are shifted by.
    digits = all_bits - shift - LOW_DIGIT
    if digits >= _MAX_DIGITS:
        # All of them become 0.
        mantissa = addend = below_zero = digits = 0
    high_addend, low_addend = divmod(addend >> shift, 1 << LOW_DIGIT)
    high, low = divmod(mantissa, 1 << LOW_DIGIT)
    return ByteAddend(
        high=high,
        low=low,
        high_addend=high_addend,
        low_addend=low_addend,
        below_zero=below_zero >> shift + LOW_DIGIT,
        shift=digits,
        sign=sign,
    )


def _near_sum(first: Operand, second: Operand, output: Operand, sign: int, rescale: float) -> NearSum:
    """Returns how sums of bytes are computed where they are not nearly between two results.

    Args:
        first, second, output: the types.
        sign: the sign of the second operand.
        rescale: what the sums of rounded addends are multiplied by.
    """
    ratios = first.scale / output.scale, sign * second.scale / output.scale
    largest = _MAX_BYTE * (abs(ratios[0]) + abs(ratios[1])) + 2 * (_MAX_BYTE + 1)
    shift = max(0, 30 - math.frexp(largest)[1])
    unit = 1 << shift
    # Factors have errors of a half, addends and results are rounded, and multipliers have 31 bits.
    error = 1 << math.ceil(_MAX_BYTE + 3 * rescale * unit + 8).bit_length()
    if shift == 0 or not 8 * error < unit:
        return NearSum(first=0, second=0, addend=0, mask=0, shift=0)
    factors = [round(ratio * unit) for ratio in ratios]
    zero_points = [_byte_operand(each).zero_point for each in (first, second)]
    addend = error + (unit >> 1) - sum(x * y for x, y in zip(factors, zero_points, strict=True))
    return NearSum(first=factors[0], second=factors[1], addend=addend, mask=unit - 2 * error, shift=shift)
