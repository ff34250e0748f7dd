"""FULLY_CONNECTED with TFLite's types and ranks.

In addition to Android's types it accepts per-channel weights, 16-bit activations (also as output of
8-bit ones), and float activations with 8-bit weights. Such weights may have a scale for each block
of a row, as in language models. They may have no rows: then the output has no elements.
"""

import math

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.fixed_point import Rounding
from neurald.hal.operations.convolution.weighted_sum import (
    MAX_SIGNED_MAGNITUDE,
    ROWS,
    bias_scale,
    channel_scales,
    expect_bias,
    has_exact_multiplier,
    output_writer,
    signed,
    weights,
)
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import known_activation
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, row, scalar, tensor
from neurald.hal.operations.tflite.convolution import hybrid
from neurald.hal.operations.tflite.convolution.int16 import INT16_ROWS, MAX_INT16_MAGNITUDE, is_int16
from neurald.hal.records import replace

_INT16, _UINT8 = OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_QUANT8_ASYMM

_FORM = Form(
    inputs=(
        tensor("input", rank=ANY_RANK),
        tensor("filter", "F", rank=2),
        tensor("bias", "B", rank=1, optional=True),
        scalar("activation"),
        scalar("keep_dimensions", OperandType.BOOL, default=False),
        scalar("asymmetric", OperandType.BOOL, default=False),
        scalar("rounds_twice", OperandType.BOOL, default=False),
    ),
    outputs=(tensor("output", "O", rank=ANY_RANK),),
)
#: With a scale for each block of each row of the weights: (units, blocks).
_BLOCKWISE_FORM = replace(
    _FORM, inputs=(*_FORM.inputs, tensor("block_scales", OperandType.TENSOR_FLOAT32, rank=2))
)
#: 16-bit weights, or an output wider than the input. In all other rows output (O) and input (T)
#: types are equal.
_WIDE_ROWS = (
    *(
        row(FeatureLevel.LEVEL_1, T=_INT16, O=_INT16, F=_INT16, B=bias)
        for bias in (OperandType.TENSOR_INT64, OperandType.TENSOR_INT32)
    ),
    row(FeatureLevel.LEVEL_1, T=_UINT8, O=_INT16, F=_UINT8, B=OperandType.TENSOR_INT32),
)
_ROWS = (
    *(replace(r, types={**r.types, "O": r.types["T"]}) for r in (*ROWS, *hybrid.ROWS, *INT16_ROWS)),
    *_WIDE_ROWS,
)


def _shape(call: Call) -> tuple[Shape, ...]:
    """Infers the output shape.

    Unless dimensions are kept, the input is read as rows of the filter's depth.
    """
    shape, (units, depth) = call.shape("input"), call.shape("filter")
    expect_bias(call, units, least=0)
    if call.scalar("keep_dimensions"):
        if shape[-1:] != (depth,):
            raise BadData(
                f"{call.name('input')} has shape {list(shape)}; a last dimension of {depth}, the row "
                "length of "
                f"{call.name('filter')}, is expected"
            )
        return ((*shape[:-1], units),)
    elements = math.prod(shape)
    if depth == 0 and shape[-1:] == (0,):
        # Rows of no elements, whose products are 0. Their number does not follow from the elements.
        return ((math.prod(shape[:-1]), units),)
    if depth < 1 or elements % depth:
        raise BadData(
            f"{call.name('input')} has shape {list(shape)}, {elements} elements; "
            f"a multiple of {depth}, the row length of {call.name('filter')}, is expected"
        )
    return ((elements // depth, units),)


def _blocks_fit(call: Call) -> None:
    """Checks that block scales have 8-bit weights with one scale, and rows of equal blocks."""
    if not call.has("block_scales"):
        return
    filter_ = call.operand("filter")
    if not hybrid.is_hybrid(call) or filter_.type is not OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
        raise BadData(
            f"{call.name('block_scales')}: scales of blocks go with an input of TENSOR_FLOAT32 and a "
            "filter of "
            f"TENSOR_QUANT8_ASYMM_SIGNED; they are {call.operand('input').type.name} and {filter_.type.name}"
        )
    if filter_.zero_point:
        raise BadData(f"{call.name('filter')} has zero point {filter_.zero_point}; 0 is expected")
    (units, depth), (rows, blocks) = call.shape("filter"), call.shape("block_scales")
    if rows != units or blocks < 1 or depth % blocks:
        raise BadData(
            f"{call.name('block_scales')} has shape {[rows, blocks]}; {units} rows, of as many scales as the "
            f"{depth} weights of a row have blocks of equal length, are expected"
        )


def _hybrid(call: Call, output: Array) -> None:
    if call.has("block_scales"):
        _blockwise(call, output)
        return
    from neurald.hal.operations.arithmetic.row_quantization import quantize_rows  # Only to compute.

    matrix = hybrid.raw_weights(call, (1,))
    asymmetric = bool(call.scalar("asymmetric"))
    rows = call.array("input").reshape(len(output), matrix.shape[1])
    quantized_values, scales, zero_points = quantize_rows(rows, asymmetric=asymmetric)
    sums = quantized_values.astype(matrix.dtype) @ matrix.T
    sums -= np.outer(zero_points, matrix.sum(axis=1, dtype=np.float64)).astype(matrix.dtype)
    hybrid.float_writer(call, scales[:, np.newaxis])(sums, output)


def _blockwise(call: Call, output: Array) -> None:
    """Sums each block exactly, scales it, and adds the blocks in floating point."""
    from neurald.hal.operations.arithmetic.row_quantization import quantize_rows  # Only to compute.

    scales = call.array("block_scales")
    (units, blocks), depth = scales.shape, call.shape("filter")[1]
    matrix = call.array("filter").reshape(units, blocks, depth // blocks).astype(np.float64)
    rows = call.array("input").reshape(len(output), depth)
    quantized_values, row_scales, zero_points = quantize_rows(
        rows, asymmetric=bool(call.scalar("asymmetric"))
    )
    centred = (quantized_values - zero_points[:, np.newaxis]).reshape(len(rows), blocks, depth // blocks)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.zeros(output.shape, np.float32)
        for block in range(blocks):
            sums = (centred[:, block].astype(np.float64) @ matrix[:, block].T).astype(np.float32)
            total += sums * scales[:, block]
    hybrid.float_writer(call, row_scales[:, np.newaxis])(total, output)


def rounding(call: Call) -> Rounding:
    """Returns the rounding of LiteRT's default kernels, which differ for 16-bit outputs."""
    filter_ = call.operand("filter")
    if filter_.type is _INT16:
        return Rounding.SHORT
    if call.scalar("rounds_twice"):
        return Rounding.TWICE
    if has_exact_multiplier(call):
        return Rounding.ONCE_AWAY
    return Rounding.TWICE_UP if call.operand("output").type is _INT16 else Rounding.ONCE


def _reference(call: Call) -> tuple[Array, ...]:
    (shape,) = _shape(call)
    output = np.empty(shape, call.operand("output").type.dtype)
    if not output.size:
        return (output,)
    flat = output.reshape(math.prod(shape[:-1]), shape[-1])
    if hybrid.is_hybrid(call):
        _hybrid(call, flat)
        return (output,)
    values, zero_point = signed(call)
    matrix = weights(call, (1,), MAX_INT16_MAGNITUDE if is_int16(call) else MAX_SIGNED_MAGNITUDE)
    zero_offset = -zero_point * matrix.sum(axis=1, dtype=np.float64) if zero_point else None
    with np.errstate(over="ignore", invalid="ignore"):
        sums = values.reshape(len(flat), matrix.shape[1]).astype(matrix.dtype) @ matrix.T
    output_writer(call, zero_offset, rounding(call))(sums, flat)
    return (output,)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_FULLY_CONNECTED,
        forms=(_FORM, _BLOCKWISE_FORM),
        rows=_ROWS,
        checks=(known_activation, bias_scale, channel_scales(0), _blocks_fit),
        shape=_shape,
        reference=_reference,
        widens=OperationType.FULLY_CONNECTED,
        arithmetic=frozenset({"input"}),
    ),
)
