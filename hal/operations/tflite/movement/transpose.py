"""TRANSPOSE of all types and ranks."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.movement import transpose
from neurald.hal.operations.movement.transpose import transposed_axes
from neurald.hal.operations.tflite.machinery.elements import extend_movement

(_TRANSPOSE,) = (each for each in transpose.DEFINITIONS if each.type is OperationType.TRANSPOSE)


def _transpose_shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("input")
    return (tuple(shape[axis] for axis in transposed_axes(call, from_end=True)),)


def _transpose_reference(call: Call) -> tuple[Array, ...]:
    return (call.array("input").transpose(transposed_axes(call, from_end=True)),)


DEFINITIONS = (
    extend_movement(
        _TRANSPOSE, OperationType.TFLITE_TRANSPOSE, shape=_transpose_shape, reference=_transpose_reference
    ),
)
