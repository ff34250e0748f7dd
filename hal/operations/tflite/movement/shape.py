"""RESHAPE, SQUEEZE, SHAPE and RANK of all types and ranks."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import require_representable, resolve_axes
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, tensor
from neurald.hal.operations.movement import reshape
from neurald.hal.operations.tflite.machinery.elements import (
    ELEMENTS_AND_STRINGS,
    INDEXES,
    element_rows,
    extend_movement,
)

_ANDROID = {each.type: each for each in reshape.DEFINITIONS}


def _squeeze_shape(call: Call) -> tuple[Shape, ...]:
    """Removes all dimensions of length 1, or those of the listed axes; the rank may become 0."""
    shape = call.shape("input")
    if not call.has("axes"):
        return (tuple(length for length in shape if length != 1),)
    axes = resolve_axes(call, "axes")
    for axis in axes:
        if shape[axis] != 1:
            raise BadData(
                f"{call.name('axes')}: axis {axis} of {list(shape)} has length {shape[axis]}; 1 is expected"
            )
    return (tuple(length for axis, length in enumerate(shape) if axis not in axes),)


def _squeeze_reference(call: Call) -> tuple[Array, ...]:
    return (call.array("input").reshape(_squeeze_shape(call)[0]),)


def _count_shape(call: Call) -> tuple[Shape, ...]:
    for length in call.shape("input"):
        require_representable(call, length, "output")
    return ((len(call.shape("input")),),)


def _lengths(call: Call) -> tuple[Array, ...]:
    return (np.array(call.shape("input"), call.operand("output").type.dtype),)


def _scalar_shape(_: Call) -> tuple[Shape, ...]:
    return ((),)


def _rank(call: Call) -> tuple[Array, ...]:
    return (np.array(len(call.shape("input")), np.int32),)


DEFINITIONS = (
    extend_movement(
        _ANDROID[OperationType.RESHAPE], OperationType.TFLITE_RESHAPE, types=ELEMENTS_AND_STRINGS
    ),
    extend_movement(
        _ANDROID[OperationType.SQUEEZE],
        OperationType.TFLITE_SQUEEZE,
        types=ELEMENTS_AND_STRINGS,
        shape=_squeeze_shape,
        reference=_squeeze_reference,
    ),
    Definition(
        type=OperationType.TFLITE_SHAPE,
        forms=(
            Form(
                inputs=(tensor("input", rank=ANY_RANK),),
                outputs=(Parameter(name="output", types=INDEXES),),
            ),
        ),
        rows=element_rows(ELEMENTS_AND_STRINGS),
        shape=_count_shape,
        reference=_lengths,
    ),
    Definition(
        type=OperationType.TFLITE_RANK,
        forms=(
            Form(
                inputs=(tensor("input", rank=ANY_RANK),),
                outputs=(tensor("output", OperandType.TENSOR_INT32, rank=0),),
            ),
        ),
        rows=element_rows(ELEMENTS_AND_STRINGS),
        shape=_scalar_shape,
        reference=_rank,
    ),
)
