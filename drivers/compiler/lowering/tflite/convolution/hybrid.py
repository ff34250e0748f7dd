"""Lowers weighted sums of floats with 8-bit weights (TFLite's hybrid kernels)."""

import math

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    axis,
    load,
    reduce,
)
from neurald.drivers.compiler.ir.extents.extent import larger
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
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.convolution.hybrid import multiplies_scales, weight_scales


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
    """Lowers an operation that moves a window over NHWC images, each quantised as one row."""
    rows = quantize_rows(
        builder, source, asymmetric=asymmetric, padding=plan.padding if asymmetric else NO_PADDING
    )
    shape = plan.weights.shape
    sums = plan.contract(
        rows.values,
        type=sum_type(math.prod(shape) // larger(shape[plan.channels], 1)),
        padding=NO_PADDING if asymmetric else plan.padding,
    )
    sums = centred(builder, sums, rows, plan.weights, plan.channels)
    return finish(call, builder, plan.restore(sums), rows.scales)


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
