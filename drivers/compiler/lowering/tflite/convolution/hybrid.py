"""Lowers weighted sums of floats with 8-bit weights (TFLite's hybrid kernels)."""

import math
from typing import Final, TypeAlias

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    axis,
    clamp,
    load,
    reduce,
)
from neurald.drivers.compiler.ir.extents.extent import has_extents, larger
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate
from neurald.drivers.compiler.lowering.arithmetic.row_quantization import (
    NO_PADDING,
    QuantizedRows,
    centred,
    quantize_rows,
    sum_type,
)
from neurald.drivers.compiler.lowering.convolution.weighted_sum import ContractionPlan
from neurald.hal.operations.convolution.windowing import Window
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.convolution.hybrid import multiplies_scales, weight_scales

#: The taps of a window along a dimension that are on the image, for each position of the output.
_Taps: TypeAlias = list[range]

#: Largest share of the taps of dilated windows that are on the image, for images that are not
#: padded: what zero points add to a sum depends on its position, which takes some time. With less
#: padding than this share of an image in both dimensions, more taps are on it.
_MAX_SHARE_ON_IMAGE, _MIN_SHARE_OF_PADDING = 0.8, 0.1
#: Maximum number of sets of taps, for each of which the sum of each channel's weights is stored.
_MAX_SETS: Final = 64


def finish(call: Call, builder: Builder, sums: Value, scales: Value) -> Value:
    """Scales centred sums (rows, …, channels) by (rows,), and applies bias and activation."""
    bias = builder.value(call, "bias") if call.has("bias") else None
    steps = builder.constant(weight_scales(call.operand("filter")))
    is_single, is_product = steps.count == 1, multiplies_scales(call)

    def body(*at: Expression) -> Expression:
        channel = at[-1]
        step = load(steps, (channel * 0 if is_single else channel,))
        total, scale = load(sums, at).to(Scalar.FLOAT32), load(scales, at[:1])
        total = total * (step * scale) if is_product else total * step * scale
        if bias is not None:
            total = total + load(bias, (channel,)).to(Scalar.FLOAT32)
        return activate(total, call.activation)

    return builder.compute(sums.shape, body)


def windows(call: Call, builder: Builder, plan: ContractionPlan, source: Value, *, asymmetric: bool) -> Value:
    """Lowers an operation that moves a window over NHWC images, each quantised as one row.

    Images with zero points are padded by them, unless dilated windows often are beyond the image:
    contractions leave out taps that only read zeros.
    """
    taps = _taps_on_image(plan, source) if asymmetric else None
    is_padded = asymmetric and taps is None
    rows = quantize_rows(
        builder, source, asymmetric=asymmetric, padding=plan.padding if is_padded else NO_PADDING
    )
    shape = plan.weights.shape
    sums = plan.contract(
        rows.values,
        type=sum_type(math.prod(shape) // larger(shape[plan.channels], 1)),
        padding=NO_PADDING if is_padded else plan.padding,
    )
    if taps is None:
        sums = centred(builder, sums, rows, plan.weights, plan.channels)
    else:
        sums = _centred_on_image(builder, sums, rows, plan.weights, taps)
    return finish(call, builder, plan.restore(sums), rows.scales)


def _taps_on_image(plan: ContractionPlan, source: Value) -> tuple[_Taps, _Taps] | None:
    """Returns the rows and columns of taps on the image, for each row and column of the output.

    Returns:
        None if windows are not dilated, if most of their taps are on the image, or if the lengths
        or the weights are not known.
    """
    window, image = plan.window, source.shape[1:3]
    if window is None or window.dilation == (1, 1) or plan.weights.constant is None:
        return None
    if has_extents((*image, *window.output)):
        return None
    if all(
        sum(each) < _MIN_SHARE_OF_PADDING * length for each, length in zip(window.padding, image, strict=True)
    ):
        return None
    down, across = (_taps_along(window, side, length) for side, length in enumerate(image))
    found = sum(map(len, down)) * sum(map(len, across))
    is_much = found > _MAX_SHARE_ON_IMAGE * math.prod((*window.kernel, *window.output))
    has_many = len(set(down)) * len(set(across)) > _MAX_SETS
    return None if is_much or has_many else (down, across)


def _taps_along(window: Window, side: int, length: int) -> _Taps:
    """Returns the taps on the image along a dimension, for each position of the output.

    Args:
        window: how the window moves.
        side: 0 for rows, 1 for columns.
        length: the length of the image.
    """
    gap, taps = window.dilation[side], window.kernel[side]
    found = []
    for position in range(window.output[side]):
        # How far the image begins after the first tap.
        ahead = window.padding[side][0] - position * window.stride[side]
        first, end = (min(max(0, -(-each // gap)), taps) for each in (ahead, ahead + length))
        found.append(range(first, end))
    return found


def _centred_on_image(
    builder: Builder, sums: Value, rows: QuantizedRows, weights: Value, taps: tuple[_Taps, _Taps]
) -> Value:
    """Subtracts the contribution of the zero points from sums of taps on the image, NHWC."""
    zero_points, constant = rows.zero_points, weights.constant
    assert zero_points is not None and constant is not None  # noqa: S101, PT018 - see `windows`
    down, across = (list(dict.fromkeys(each)) for each in taps)
    totals = np.zeros((len(down), len(across), weights.shape[0]), sums.type.dtype)
    for row, column in np.ndindex(*totals.shape[:2]):
        part = constant[:, down[row].start : down[row].stop, across[column].start : across[column].stop]
        totals[row, column] = part.sum(axis=(1, 2, 3), dtype=sums.type.dtype)
    of_sets = builder.constant(totals)
    numbers = [
        builder.constant(np.array([sets.index(each) for each in along], np.int32))
        for sets, along in zip((down, across), taps, strict=True)
    ]

    def body(*at: Expression) -> Expression:
        number, *position, channel = at
        sets = (
            clamp(load(each, (index,)).to(Scalar.INDEX), 0, count - 1)
            for each, index, count in zip(numbers, position, totals.shape, strict=False)
        )
        zero = load(zero_points, (number,)).to(sums.type)
        return load(sums, at) - zero * load(of_sets, (*sets, channel))

    return builder.compute(sums.shape, body)


def blockwise_products(builder: Builder, rows: QuantizedRows, weights: Value, block_scales: Value) -> Value:
    """Multiplies rows (rows, elements) by weights (units, elements) with a scale per block.

    The scales are (units, blocks).

    Returns:
        FLOAT32, (rows, units).
    """
    (count, depth), (units, blocks) = rows.values.shape, block_scales.shape
    length = depth // blocks
    kind = sum_type(length)
    # Each row is an image of one pixel, and each block is a group of its channels.
    parts = _block_weights(builder, weights, blocks)
    sums = builder.convolution(
        builder.reshape(rows.values, (count, 1, 1, depth)),
        builder.reshape(parts, (blocks * units, 1, 1, length)),
        output=(count, 1, 1, blocks * units),
        type=kind,
        groups=blocks,
    )
    sums = builder.reshape(sums, (count, blocks, units))
    scales = block_scales
    if scales.constant is not None:
        by_block = builder.constant(scales.constant.T)
    else:
        by_block = builder.compute((blocks, units), lambda block, unit: load(scales, (unit, block)))
    zero_points = rows.zero_points
    totals = None if zero_points is None else _block_totals(builder, parts, kind)

    def body(row: Expression, unit: Expression) -> Expression:
        block = axis(blocks, "b")
        total = load(sums, (row, block, unit))
        if zero_points is not None and totals is not None:
            total = total - load(zero_points, (row,)).to(kind) * load(totals, (block, unit))
        scaled = total.to(Scalar.FLOAT32) * load(by_block, (block, unit))
        return reduce(ReductionOp.SUM, (block,), scaled)

    return builder.compute((count, units), body)


def _block_weights(builder: Builder, weights: Value, blocks: int) -> Value:
    """Returns weights (units, elements) by blocks: (blocks, units, elements per block)."""
    units, depth = weights.shape
    length = depth // blocks
    if weights.constant is not None:
        return builder.constant(weights.constant.reshape(units, blocks, length).swapaxes(0, 1))
    return builder.compute(
        (blocks, units, length), lambda block, unit, index: load(weights, (unit, block * length + index))
    )


def _block_totals(builder: Builder, parts: Value, type: Scalar) -> Value:  # noqa: A002 - as elsewhere
    """Returns the sums of the weights of each block, (blocks, units).

    Sums of constants are computed at compile time.
    """
    blocks, units, length = parts.shape
    if parts.constant is not None:
        return builder.constant(parts.constant.sum(axis=2, dtype=type.dtype))

    def body(block: Expression, unit: Expression) -> Expression:
        index = axis(length, "k")
        return reduce(ReductionOp.SUM, (index,), load(parts, (block, unit, index)).to(type))

    return builder.compute((blocks, units), body)
