"""EXPAND_DIMS, PACK and UNPACK of all types and ranks."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import resolve_axis
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, scalar, tensor
from neurald.hal.operations.movement import tiling
from neurald.hal.operations.tflite.machinery.elements import (
    ELEMENTS_AND_STRINGS,
    element_rows,
    extend_movement,
)

_ANDROID = {each.type: each for each in tiling.DEFINITIONS}


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


DEFINITIONS = (
    extend_movement(
        _ANDROID[OperationType.EXPAND_DIMS], OperationType.TFLITE_EXPAND_DIMS, types=ELEMENTS_AND_STRINGS
    ),
    extend_movement(_ANDROID[OperationType.PACK], OperationType.TFLITE_PACK),
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
)
