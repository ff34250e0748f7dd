"""Calls of arithmetic on two quantised 16-bit integers."""

from neurald.drivers.cpu.first_tier.binding.convolution.requantization import (
    single_requantization,
)
from neurald.drivers.cpu.first_tier.binding.elementwise.element_call import element_call
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.drivers.cpu.first_tier.layout import (
    SHORT_SHIFT,
)
from neurald.hal.model.types import FusedActivation
from neurald.hal.operations.arithmetic.fixed_point import quantize_multiplier, single_ratio
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call


def short_arithmetic_calls(call: Call, function: str) -> list[BoundCall]:
    """Returns the call of arithmetic on two 16-bit integers.

    Args:
        call: the operation.
        function: "add", "subtract" or "multiply".

    Raises:
        NotBound: no kernel has the function, the zero points or the scales.
    """
    first, second, output = (call.operand(name) for name in ("input1", "input2", "output"))
    if any(each.zero_point for each in (first, second, output)):
        raise NotBound("16-bit integers have zero points")
    activation = call.activation if "activation" in call.binding.inputs else FusedActivation.NONE
    ends = (output.zero_point, *quantized_limits(output, activation))
    if function == "multiply":
        rescale = single_requantization(
            *quantize_multiplier(single_ratio(first.scale, second.scale, output.scale))
        )
        return element_call(call, "short_product", ("input1", "input2"), (*rescale, *ends))
    if function not in ("add", "subtract"):
        raise NotBound("the types have no kernel")
    from neurald.hal.operations.elementwise.arithmetic import addend_shift

    shifts = None
    if "power_of_two_scales" in call.binding.inputs:
        from neurald.hal.operations.tflite.elementwise.arithmetic import sum_shifts

        shifts = sum_shifts(call)
    if shifts is not None or addend_shift(output) != SHORT_SHIFT:
        raise NotBound("addends are shifted")
    unit = 2.0 * max(first.scale, second.scale)
    multipliers = first.scale / unit, second.scale / unit, unit / ((1 << SHORT_SHIFT) * output.scale)
    words = [word for each in multipliers for word in single_requantization(*quantize_multiplier(each))]
    kernel = "short_sum" if function == "add" else "short_difference"
    return element_call(call, kernel, ("input1", "input2"), (*words, *ends))
