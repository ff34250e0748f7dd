"""FULLY_CONNECTED with TFLite's types and ranks.

Beside Android's types it takes weights per channel, activations of 16 bits, and float activations with weights of 8 bits. TFLite
rounds the products of this operation once.
"""

import math

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.operation_type import OperationType
from neurald.hal.operations.call import Array, Call, Shape
from neurald.hal.operations.definition import Definition
from neurald.hal.operations.fixed_point import Rounding
from neurald.hal.operations.rules import known_activation
from neurald.hal.operations.signature import ANY_RANK, Form, scalar, tensor
from neurald.hal.operations.tflite import hybrid
from neurald.hal.operations.tflite.convolution import SHORT_LARGEST, SHORT_ROWS, is_short
from neurald.hal.operations.weighted_sum import (
    ROWS,
    SIGNED_LARGEST,
    bias_scale,
    channel_scales,
    expect_bias,
    output_writer,
    signed,
    weights,
)
from neurald.hal.types import OperandType

_FORM = Form(
    inputs=(
        tensor("input", rank=ANY_RANK),
        tensor("filter", "F", rank=2),
        tensor("bias", "B", rank=1, optional=True),
        scalar("activation"),
        scalar("keep_dimensions", OperandType.BOOL, default=False),
        scalar("asymmetric", OperandType.BOOL, default=False),
    ),
    outputs=(tensor("output", rank=ANY_RANK),),
)


def _shape(call: Call) -> tuple[Shape, ...]:
    """Rows of as many elements as a unit takes; unless the dimensions are kept, whatever the input's shape."""
    shape, (units, depth) = call.shape("input"), call.shape("filter")
    expect_bias(call, units)
    if call.scalar("keep_dimensions"):
        if depth < 1 or shape[-1:] != (depth,):
            raise BadData(
                f"{call.name('input')} has shape {list(shape)}; a last dimension of {depth}, the row length of "
                f"{call.name('filter')}, is expected"
            )
        return ((*shape[:-1], units),)
    elements = math.prod(shape)
    if depth < 1 or elements % depth:
        raise BadData(
            f"{call.name('input')} has shape {list(shape)}, {elements} elements; "
            f"a multiple of {depth}, the row length of {call.name('filter')}, is expected"
        )
    return ((elements // depth, units),)


def _hybrid(call: Call, output: Array) -> None:
    matrix = hybrid.stored_weights(call, (1,))
    asymmetric = bool(call.scalar("asymmetric"))
    rows = call.array("input").reshape(len(output), matrix.shape[1])
    stored, scales, zero_points = hybrid.quantize_rows(rows, asymmetric=asymmetric)
    sums = stored.astype(matrix.dtype) @ matrix.T
    sums -= np.outer(zero_points, matrix.sum(axis=1, dtype=np.float64)).astype(matrix.dtype)
    hybrid.float_writer(call, scales[:, np.newaxis])(sums, output)


def _reference(call: Call) -> tuple[Array, ...]:
    (shape,) = _shape(call)
    output = np.empty(shape, call.operand("output").type.dtype)
    flat = output.reshape(math.prod(shape[:-1]), shape[-1])
    if hybrid.is_hybrid(call):
        _hybrid(call, flat)
        return (output,)
    values, zero_point = signed(call)
    matrix = weights(call, (1,), SHORT_LARGEST if is_short(call) else SIGNED_LARGEST)
    zero_offset = -zero_point * matrix.sum(axis=1, dtype=np.float64) if zero_point else None
    with np.errstate(over="ignore", invalid="ignore"):
        sums = values.reshape(len(flat), matrix.shape[1]).astype(matrix.dtype) @ matrix.T
    output_writer(call, zero_offset, Rounding.ONCE)(sums, flat)
    return (output,)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_FULLY_CONNECTED,
        forms=(_FORM,),
        rows=(*ROWS, *hybrid.ROWS, *SHORT_ROWS),
        checks=(known_activation, bias_scale, channel_scales(0)),
        shape=_shape,
        reference=_reference,
        widens=OperationType.FULLY_CONNECTED,
    ),
)
