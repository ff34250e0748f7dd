"""Helpers of weighted sums; see `neurald.hal.operations.convolution.weighted_sum`."""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import Expression, clamp, load
from neurald.drivers.compiler.ir.extents.extent import larger
from neurald.drivers.compiler.ir.graph import Pair
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import Requantizer, activate, store
from neurald.drivers.compiler.lowering.arithmetic.row_quantization import Padding
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.graph import Operand
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.fixed_point import MAX_BIAS, Rounding, clamped_bias
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.convolution.weighted_sum import product_scales
from neurald.hal.operations.convolution.windowing import Window, shows_padding
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw

#: Bound on sums in INT32.
_MAX_INT32 = (1 << 31) - 1


class Contract(Protocol):
    """Convolves NHWC images with given weights."""

    def __call__(
        self,
        source: Value,
        *,
        type: Scalar,  # noqa: A002 - the name of the builder's argument
        padding: Padding,
        input_zero: int = 0,
        weights_zero: int = 0,
    ) -> Value:
        """Returns the sums in this type; the input is `input_zero` outside the images."""
        ...


def _same(sums: Value) -> Value:
    return sums


class ContractionPlan(Struct, frozen=True, kw_only=True):
    """Describes an operation that moves a window over images as a contraction.

    Attributes:
        weights: as the contraction reads them.
        channels: the dimension of `weights` with the channels of the sums.
        padding: the padding of the images.
        contract: computes the sums.
        restore: converts the contraction's sums to the operation's, NHWC.
        window: how the window moves over the images, if it is that of a convolution of all of a
            group's channels.
    """

    weights: Value
    channels: int
    padding: Padding
    contract: Contract
    restore: Callable[[Value], Value] = _same
    window: Window | None = None


#: Plans an operation.
ContractionPlanner = Callable[[Call, Builder], ContractionPlan]


def largest(operand: Operand) -> int:
    """Returns the largest magnitude of a quantised operand's values less their zero point."""
    low, high = quantized_limits(operand)
    return max(high - operand.zero_point, operand.zero_point - low)


def sum_type(first: Operand, second: Operand, terms: int) -> Scalar:
    """Returns the type that can sum `terms` products without loss.

    Raises:
        Unsupported: the operands are not both floats or both quantised.
    """
    if is_quantized(first) and is_quantized(second):
        return _integers_for(largest(first) * largest(second) * terms)
    if not is_quantized(first) and not is_quantized(second):
        return Scalar.FLOAT32
    raise Unsupported(f"products of {first.type.name} and {second.type.name} are not supported")


def _integers_for(bound: int) -> Scalar:
    return Scalar.INT32 if bound <= _MAX_INT32 else Scalar.INT64


def type_of_sums(source: Operand, filter_: Operand, weights: Value, channels: int = 0) -> Scalar:
    """Returns the type of sums of an input and weights; known weights give a tighter bound.

    Args:
        source, filter_: the factors.
        weights: the filter as the contraction reads it.
        channels: the dimension of `weights` with the channels of the sums.

    Raises:
        Unsupported: see `sum_type`.
    """
    kind = sum_type(source, filter_, weights.count // larger(weights.shape[channels], 1))
    if kind is not Scalar.INT64 or weights.constant is None:
        return kind
    magnitudes = np.abs(weights.constant.astype(np.int64) - filter_.zero_point)
    others = tuple(dimension for dimension in range(magnitudes.ndim) if dimension != channels)
    return _integers_for(largest(source) * int(magnitudes.sum(axis=others).max(initial=0)))


def finish(call: Call, builder: Builder, sums: Value, rounding: Rounding = Rounding.TWICE) -> Value:
    """Applies bias, fused activation and requantisation to sums with channels last."""
    output = call.operand("output")
    bias = builder.value(call, "bias") if call.has("bias") else None
    if is_quantized(output):
        requantize = Requantizer(builder, call, product_scales(call).tolist(), rounding)
    # The output's range clamps larger sums anyway, except with unusual scales.
    reach = 1 << rounding.bits
    is_cut = _may_exceed(call, sums, bias, reach - 1)
    if bias is not None and bias.constant is not None and bias.type is Scalar.INT64:
        bias = builder.constant(clamped_bias(bias.constant), bias.name)

    def body(*at: Expression) -> Expression:
        total, channel = load(sums, at), at[-1]
        if is_quantized(output):
            wide = total.to(Scalar.INT64)
            if bias is not None:
                added = load(bias, (channel,)).to(Scalar.INT64)
                is_unknown = bias.constant is None and bias.type is Scalar.INT64
                wide = wide + (clamp(added, -MAX_BIAS, MAX_BIAS) if is_unknown else added)
            return requantize(clamp(wide, -reach, reach - 1) if is_cut else wide, channel)
        if bias is not None:
            total = total + load(bias, (channel,)).to(Scalar.FLOAT32)
        return store(activate(total, call.activation), output)

    return builder.compute(sums.shape, body)


def _may_exceed(call: Call, sums: Value, bias: Value | None, limit: int) -> bool:
    """Returns True if the magnitude of quantised sums with their bias may exceed a limit."""
    if sums.type.is_float or (bias is None and sums.type is Scalar.INT32):
        return False
    if bias is not None and bias.constant is None and (bias.type is Scalar.INT64 or limit <= _MAX_INT32):
        return True
    terms = math.prod(call.shape("filter")) // larger(sums.shape[-1], 1)
    reach = largest(call.operand("input")) * largest(call.operand("filter")) * terms
    if bias is not None and bias.constant is not None:
        reach += int(np.abs(clamped_bias(bias.constant)).max(initial=0))
    return reach > limit


def zeros(call: Call) -> Pair:
    """Returns the zero points of input and weights; 0 for floats."""
    source = call.operand("input")
    return (source.zero_point, call.operand("filter").zero_point) if is_quantized(source) else (0, 0)


def exact_sums(call: Call, plan: ContractionPlan, source: Value) -> Value:
    """Returns the sums over NHWC images; operands are all float or all quantised.

    Raises:
        Unsupported: padding gives other results than 0, which kernels may leave out.
    """
    constant = plan.weights.constant
    # Asking whether an open extent is zero decides it for all sizes, so that comes last.
    if constant is not None and shows_padding(constant) and any(map(any, plan.padding)):
        raise Unsupported("weights that are infinite or NaN are multiplied by the padding")
    input_zero, weights_zero = zeros(call)
    return plan.restore(
        plan.contract(
            source,
            type=type_of_sums(call.operand("input"), call.operand("filter"), plan.weights, plan.channels),
            padding=plan.padding,
            input_zero=input_zero,
            weights_zero=weights_zero,
        )
    )


def lower_windows(planner: ContractionPlanner) -> Lowering:
    """Returns the lowering of an Android operation that moves a window."""

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
        sums = exact_sums(call, planner(call, builder), source)
        return (from_nhwc(builder, finish(call, builder, sums), is_nchw(call)),)

    return lower
