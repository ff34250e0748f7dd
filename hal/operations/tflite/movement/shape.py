"""RESHAPE, SQUEEZE, EXPAND_DIMS, CONCATENATION, PACK, UNPACK, TRANSPOSE, SHAPE and RANK."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import require_representable, resolve_axes, resolve_axis
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, scalar, tensor
from neurald.hal.operations.movement import concatenation, reshape, tiling, transpose
from neurald.hal.operations.movement.transpose import transposed_axes
from neurald.hal.operations.tflite.machinery.elements import (
    ELEMENTS_AND_STRINGS,
    INDEXES,
    element_rows,
    extend_movement,
)

_ANDROID = {
    definition.type: definition
    for family in (concatenation, reshape, tiling, transpose)
    for definition in family.DEFINITIONS
}


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


def unpack_axis(call: Call) -> int:
    """Returns the axis that is removed; each output gets one element of it."""
    shape, outputs = call.shape("input"), len(call.indexes("outputs"))
    axis = resolve_axis(call.scalar("axis"), len(shape), call.name("axis"))
    if shape[axis] != outputs:
        raise BadData(
            f"{call.name('input')} has shape {list(shape)}; length {outputs}, one for each output, "
            f"is expected along axis {axis}"
        )
    return axis


def _unpack_shape(call: Call) -> tuple[Shape, ...]:
    axis, shape = unpack_axis(call), call.shape("input")
    return ((*shape[:axis], *shape[axis + 1 :]),) * len(call.indexes("outputs"))


def _unpack_reference(call: Call) -> tuple[Array, ...]:
    return tuple(np.asarray(part) for part in np.moveaxis(call.array("input"), unpack_axis(call), 0))


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


def _transpose_shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("input")
    return (tuple(shape[axis] for axis in transposed_axes(call, from_end=True)),)


def _transpose_reference(call: Call) -> tuple[Array, ...]:
    return (call.array("input").transpose(transposed_axes(call, from_end=True)),)


DEFINITIONS = (
    *(
        extend_movement(_ANDROID[android], extension, types=ELEMENTS_AND_STRINGS)
        for android, extension in (
            (OperationType.RESHAPE, OperationType.TFLITE_RESHAPE),
            (OperationType.EXPAND_DIMS, OperationType.TFLITE_EXPAND_DIMS),
        )
    ),
    *(
        extend_movement(_ANDROID[android], extension)
        for android, extension in (
            (OperationType.CONCATENATION, OperationType.TFLITE_CONCATENATION),
            (OperationType.PACK, OperationType.TFLITE_PACK),
        )
    ),
    extend_movement(
        _ANDROID[OperationType.TRANSPOSE],
        OperationType.TFLITE_TRANSPOSE,
        shape=_transpose_shape,
        reference=_transpose_reference,
    ),
    extend_movement(
        _ANDROID[OperationType.SQUEEZE],
        OperationType.TFLITE_SQUEEZE,
        types=ELEMENTS_AND_STRINGS,
        shape=_squeeze_shape,
        reference=_squeeze_reference,
    ),
    Definition(
        type=OperationType.TFLITE_UNPACK,
        forms=(
            Form(
                inputs=(tensor("input"), scalar("axis")),
                outputs=(tensor("outputs", rank=ANY_RANK, variadic=True),),
            ),
        ),
        rows=element_rows(),
        shape=_unpack_shape,
        reference=_unpack_reference,
        arithmetic=frozenset({"input"}),
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
