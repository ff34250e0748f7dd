"""CONCATENATION of any number of tensors along an axis."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import round_away, saturate
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, has_same_scale, resolve_axis
from neurald.hal.operations.machinery.signature import Form, scalar, tensor

#: Types of inputs that are requantised to the output's scale; others are copied.
RESCALED = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)

_FORM = Form(
    inputs=(tensor("inputs", rank=(1, 4), variadic=True), scalar("axis")),
    outputs=(tensor("output", rank=(1, 4)),),
)


def _level(call: Call) -> FeatureLevel:
    """Returns LEVEL_3 if the inputs' scales or zero points differ from the output's."""
    return FeatureLevel.LEVEL_1 if has_same_scale(call, "inputs") else FeatureLevel.LEVEL_3


def concatenation_axis(call: Call) -> int:
    """Returns the axis of concatenation, from 0.

    Only in `neurald.tflite` it may count from the end.

    Raises:
        BadData: there is no such axis.
    """
    rank = len(call.shapes("inputs")[0])
    if call.binding.type is OperationType.CONCATENATION:
        return call.scalar_in("axis", 0, rank - 1)
    return resolve_axis(int(call.scalar("axis")), rank, call.name("axis"))


def _shape(call: Call) -> tuple[Shape, ...]:
    first, *others = call.shapes("inputs")
    axis = concatenation_axis(call)
    total = first[axis]
    for position, shape in enumerate(others, start=1):
        if len(shape) != len(first) or shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
            index = call.indexes("inputs")[position]
            raise BadData(
                f"{call.operand_label(index)} (inputs[{position}] of CONCATENATION) has shape {list(shape)}; "
                f"that of inputs[0], {list(first)}, is expected except along axis {axis}"
            )
        total += shape[axis]
    return ((*first[:axis], total, *first[axis + 1 :]),)


def rescale(values: Array, operand: Operand, output: Operand) -> Array:
    """Requantises values to the output's scale and zero point, in float32 like Android NN."""
    if (operand.scale, operand.zero_point) == (output.scale, output.zero_point):
        return values
    lowest = np.iinfo(values.dtype).min
    ratio = np.float32(operand.scale) * (np.float32(1) / np.float32(output.scale))
    offset = np.float32(lowest - operand.zero_point) * ratio
    scaled = (values.astype(np.float32) - np.float32(lowest)) * ratio + offset
    return saturate(round_away(scaled.astype(np.float64)) + output.zero_point, output)


def _reference(call: Call) -> tuple[Array, ...]:
    output = call.operand("output")
    values = call.arrays("inputs")
    if output.type in RESCALED:
        values = tuple(
            rescale(value, operand, output)
            for value, operand in zip(values, call.operands("inputs"), strict=True)
        )
    return (np.concatenate(values, axis=concatenation_axis(call)),)


DEFINITIONS = (
    Definition(
        type=OperationType.CONCATENATION,
        forms=(_FORM,),
        rows=data_rows(quant8=FeatureLevel.LEVEL_1),
        shape=_shape,
        reference=_reference,
        arithmetic=frozenset({"inputs"}),
        level=_level,
    ),
)
