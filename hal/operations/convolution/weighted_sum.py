"""Types, scale rules, exact sums and requantisation of operations that sum inputs times weights.

Their inputs are named `input`, `filter`, `bias` and `activation`. Quantised sums are computed in
floating point, in a type that represents them exactly, because floating-point matrix products are
many times as fast as integer ones.
"""

import math
from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import Requantization, Rounding, single_ratio
from neurald.hal.operations.arithmetic.quantized import activate, quantized_limits
from neurald.hal.operations.convolution.windowing import (
    DILATIONS,
    EXPLICIT_PADDING,
    IMPLICIT_PADDING,
    STRIDES,
)
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Check
from neurald.hal.operations.machinery.signature import Form, Parameter, layout, row, scalar, tensor

#: Types of input and output (T), filter (F) and bias (B).
ROWS = (
    row(
        FeatureLevel.LEVEL_1,
        T=OperandType.TENSOR_FLOAT32,
        F=OperandType.TENSOR_FLOAT32,
        B=OperandType.TENSOR_FLOAT32,
    ),
    row(
        FeatureLevel.LEVEL_3,
        T=OperandType.TENSOR_FLOAT16,
        F=OperandType.TENSOR_FLOAT16,
        B=OperandType.TENSOR_FLOAT16,
    ),
    row(
        FeatureLevel.LEVEL_1,
        T=OperandType.TENSOR_QUANT8_ASYMM,
        F=OperandType.TENSOR_QUANT8_ASYMM,
        B=OperandType.TENSOR_INT32,
    ),
    row(
        FeatureLevel.LEVEL_3,
        T=OperandType.TENSOR_QUANT8_ASYMM,
        F=OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        B=OperandType.TENSOR_INT32,
    ),
    row(
        FeatureLevel.LEVEL_4,
        T=OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
        F=OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
        B=OperandType.TENSOR_INT32,
    ),
    row(
        FeatureLevel.LEVEL_4,
        T=OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
        F=OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        B=OperandType.TENSOR_INT32,
    ),
)

_FULLY_CONNECTED = (OperationType.FULLY_CONNECTED, OperationType.TFLITE_FULLY_CONNECTED)
#: Largest magnitude of an 8-bit input minus its zero point.
MAX_CENTRED_MAGNITUDE = 255
#: Largest magnitude of a `signed` input.
MAX_SIGNED_MAGNITUDE = 128
#: Maximum relative deviation of a bias scale from the product of the input and filter scales.
_SCALE_TOLERANCE = 1e-6
#: Integers up to this are exact in float32.
MAX_EXACT_FLOAT32 = 1 << 24

#: Writes outputs from sums: (sums, out), both of shape (n, channels) and contiguous. May overwrite
#: the sums.
Writer = Callable[[Array, Array], None]


def forms(*extra: Parameter) -> tuple[Form, ...]:
    """Returns the forms with explicit and implicit padding.

    `extra` parameters precede the activation.
    """
    return tuple(_form(padding, extra) for padding in (EXPLICIT_PADDING, IMPLICIT_PADDING))


def _form(padding: tuple[Parameter, ...], extra: tuple[Parameter, ...]) -> Form:
    tensors = (tensor("input", rank=4), tensor("filter", "F", rank=4), tensor("bias", "B", rank=1))
    demanded = (*tensors, *padding, *STRIDES, *extra, scalar("activation"))
    inputs = (*demanded, layout(), *DILATIONS)
    # The dilations are given together or not at all.
    counts = (len(demanded), len(demanded) + 1, len(inputs))
    return Form(inputs=inputs, outputs=(tensor("output", rank=4),), counts=counts)


def bias_scale(call: Call) -> None:
    """Checks that a quantised bias has zero point 0 and the scale of the sums.

    With a per-channel filter the scale must be 0.
    """
    bias = call.operand("bias")
    if not call.has("bias") or bias.type is not OperandType.TENSOR_INT32:
        return
    if bias.zero_point:
        raise BadData(f"{call.name('bias')} has zero point {bias.zero_point}; 0 is expected")
    product = call.operand("input").scale * call.operand("filter").scale
    if call.operand("filter").channel_quant is not None:
        if bias.scale:
            raise BadData(
                f"{call.name('bias')} has scale {bias.scale:g}; 0 is expected with a filter per channel"
            )
    elif abs(bias.scale - product) > _SCALE_TOLERANCE * min(bias.scale, product):
        raise BadData(
            f"{call.name('bias')} has scale {bias.scale:g}; {product:g}, the product of the scales of input "
            "and filter, is expected"
        )


def channel_scales(dimension: int) -> Check:
    """Returns a check that a per-channel filter has its scales along `dimension`, one per index."""

    def check(call: Call) -> None:
        filter_ = call.operand("filter")
        if filter_.type is not OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
            return
        quant = filter_.channel_quant
        if quant is None:
            raise BadData(f"{call.name('filter')} has no scales; one for each channel is expected")
        if quant.dimension != dimension:
            raise BadData(
                f"{call.name('filter')} has its channels along dimension {quant.dimension}; {dimension} is "
                "expected"
            )
        expect_scales(call, call.shape("filter")[dimension])

    return check


def expect_scales(call: Call, channels: int) -> None:
    """Raises BadData unless a per-channel filter has a scale for each output channel."""
    quant = call.operand("filter").channel_quant
    if quant is not None and len(quant.scales) != channels:
        raise BadData(
            f"{call.name('filter')} has {len(quant.scales)} scales; one for each of its {channels} channels "
            "is expected"
        )


def level(call: Call) -> FeatureLevel:
    """Returns LEVEL_3 for a quantised output at least as fine as the products, else LEVEL_1."""
    output, filter_ = call.operand("output"), call.operand("filter")
    is_fine = is_quantized(output) and not output.scale > call.operand("input").scale * filter_.scale
    return FeatureLevel.LEVEL_3 if is_fine else FeatureLevel.LEVEL_1


def expect_bias(call: Call, channels: int, least: int = 1) -> None:
    """Raises BadData unless the bias has one element for each of enough output channels."""
    if channels < least:
        raise BadData(f"{call.name('filter')} has {channels} output channels; at least {least} is expected")
    if call.has("bias") and call.shape("bias") != (channels,):
        raise BadData(
            f"{call.name('bias')} has shape {list(call.shape('bias'))}; {[channels]}, one element for each "
            "output channel, is expected"
        )


def signed(call: Call) -> tuple[Array, int]:
    """Returns the input and its zero point.

    8-bit inputs are converted to int8, whose magnitudes are at most `MAX_SIGNED_MAGNITUDE`.
    """
    values, operand = call.array("input"), call.operand("input")
    if operand.type is OperandType.TENSOR_QUANT8_ASYMM:
        return (values ^ 0x80).view(np.int8), operand.zero_point - 0x80
    return values, operand.zero_point


def weights(call: Call, summed: tuple[int, ...], largest: int) -> Array:
    """Returns the filter in floating point, without the zero point if quantised.

    Args:
        call: the operation.
        summed: the axes of the filter over which products are summed.
        largest: largest magnitude of the values that quantised weights are multiplied with.

    Returns:
        float32; or float64 if sums of quantised operands would not be exact otherwise.
    """
    filter_ = call.operand("filter")
    values = call.array("filter").astype(np.float32)
    if not is_quantized(filter_):
        return values
    values -= np.float32(filter_.zero_point)
    low, high = quantized_limits(filter_)
    terms = math.prod(values.shape[axis] for axis in summed)
    # The bound from the types is checked first, because it costs nothing.
    bound = largest * terms * max(high - filter_.zero_point, filter_.zero_point - low)
    if bound > MAX_EXACT_FLOAT32:
        bound = largest * int(np.abs(values).sum(axis=summed).max())
    return values if bound <= MAX_EXACT_FLOAT32 else values.astype(np.float64)


def output_writer(
    call: Call, zero_offset: Array | None = None, rounding: Rounding = Rounding.TWICE
) -> Writer:
    """Returns a function that converts sums to outputs: bias, fused activation, requantisation.

    If the bias may be omitted, the filter's first dimension must be the output channels.

    Args:
        call: the operation.
        zero_offset: for each channel of a quantised output, a correction that is added like the
            bias.
        rounding: the rounding of quantised outputs.
    """
    output = call.operand("output")
    bias = call.array("bias") if call.has("bias") else np.zeros(call.shape("filter")[0], np.int32)
    activation = call.activation
    if is_quantized(output):
        low, high = quantized_limits(output, activation)
        return Requantization(
            multipliers=product_scales(call) / output.scale,
            bias=bias if zero_offset is None else bias + zero_offset,
            zero_point=output.zero_point,
            low=low,
            high=high,
            dtype=output.type.dtype,
            rounding=rounding,
        )
    added = bias.astype(np.float32)

    def write_floats(sums: Array, out: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            sums += added
            out[...] = activate(sums, activation)

    return write_floats


def product_scales(call: Call) -> Array:
    """Returns the scale of input times weights, per channel or, with shape (1,), for all.

    As in TFLite, the product of two scales is rounded to float32 in fully connected layers, except
    those with an exact multiplier, and in convolutions of unsigned weights; convolutions of signed
    ones multiply in float64, as for channels. The difference is enough to change quantised values
    by one.
    """
    filter_, source = call.operand("filter"), call.operand("input")
    if filter_.channel_quant is not None:
        return np.array(filter_.channel_quant.scales, np.float64) * source.scale
    is_dense = call.binding.type in _FULLY_CONNECTED and not has_exact_multiplier(call)
    is_rounded = is_dense or filter_.type.dtype == np.uint8
    product = single_ratio(filter_.scale, source.scale, 1.0) if is_rounded else filter_.scale * source.scale
    return np.array((product,), np.float64)


def has_exact_multiplier(call: Call) -> bool:
    """Returns True for fully connected layers whose multiplier TFLite computes in float64.

    Its reference kernel sums 16-bit values times 8-bit weights if the bias has 64 bits or the
    weights have a zero point. The kernel multiplies sums and scales in float64.
    """
    source, filter_ = call.operand("input"), call.operand("filter")
    if source.type is not OperandType.TENSOR_QUANT16_SYMM or filter_.type is OperandType.TENSOR_QUANT16_SYMM:
        return False
    has_long_bias = call.has("bias") and call.operand("bias").type is OperandType.TENSOR_INT64
    return has_long_bias or filter_.zero_point != 0
