"""FULLY_CONNECTED: each output unit is a weighted sum of a whole row of inputs."""

import math

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.convolution.weighted_sum import (
    MAX_SIGNED_MAGNITUDE,
    ROWS,
    bias_scale,
    expect_bias,
    level,
    output_writer,
    signed,
    weights,
)
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import known_activation
from neurald.hal.operations.machinery.signature import Form, scalar, tensor

_FORM = Form(
    inputs=(
        tensor("input", rank=(2, 4)),
        tensor("filter", "F", rank=2),
        tensor("bias", "B", rank=1),
        scalar("activation"),
    ),
    outputs=(tensor("output", rank=2),),
)


def _shape(call: Call) -> tuple[Shape, ...]:
    """Infers the output shape. Inputs of any shape are read as rows of the filter's depth."""
    shape, (units, depth) = call.shape("input"), call.shape("filter")
    expect_bias(call, units)
    elements = math.prod(shape)
    if depth < 1 or elements % depth:
        raise BadData(
            f"{call.name('input')} has shape {list(shape)}, {elements} elements; "
            f"a multiple of {depth}, the row length of {call.name('filter')}, is expected"
        )
    return ((elements // depth, units),)


def _reference(call: Call) -> tuple[Array, ...]:
    output = np.empty(_shape(call)[0], call.operand("output").type.dtype)
    values, zero_point = signed(call)
    matrix = weights(call, (1,), MAX_SIGNED_MAGNITUDE)
    # The zero point is subtracted from the sums instead of the inputs, which is less work.
    zero_offset = -zero_point * matrix.sum(axis=1, dtype=np.float64) if zero_point else None
    with np.errstate(over="ignore", invalid="ignore"):
        sums = values.reshape(len(output), matrix.shape[1]).astype(matrix.dtype) @ matrix.T
    output_writer(call, zero_offset)(sums, output)
    return (output,)


DEFINITIONS = (
    Definition(
        type=OperationType.FULLY_CONNECTED,
        forms=(_FORM,),
        rows=tuple(row for row in ROWS if row.types["F"] is not OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL),
        checks=(known_activation, bias_scale),
        shape=_shape,
        reference=_reference,
        arithmetic=frozenset({"input"}),
        level=level,
    ),
)
