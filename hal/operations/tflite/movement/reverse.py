"""REVERSE_V2 along several axes, REVERSE_SEQUENCE for parts of different lengths."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.arguments import integers
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import resolve_axes, resolve_axis
from neurald.hal.operations.machinery.signature import ANY_RANK, MAX_RANK, Form, scalar, tensor
from neurald.hal.operations.tflite.machinery.elements import element_rows, indexes


def _shape(call: Call) -> tuple[Shape, ...]:
    resolve_axes(call, "axis")
    return (call.shape("input"),)


def _reverse(call: Call) -> tuple[Array, ...]:
    return (np.flip(call.array("input"), resolve_axes(call, "axis")),)


def sequence_axes(call: Call) -> tuple[int, int]:
    """Returns the axis that is reversed, and the one along which the lengths differ."""
    rank = len(call.shape("input"))
    along, batch = (resolve_axis(call.scalar(name), rank, call.name(name)) for name in ("axis", "batch_axis"))
    if along == batch:
        raise BadData(
            f"{call.name('batch_axis')} is {batch}; an axis other than the reversed one is expected"
        )
    return along, batch


def _sequence_shape(call: Call) -> tuple[Shape, ...]:
    sequence_axes(call)
    return (call.shape("input"),)


def sequence_lengths(call: Call) -> Array:
    """Returns the reversed length of each batch element.

    Raises:
        BadData: the number of lengths is wrong, or one is longer than the axis.
        UnknownValue: they are not known yet.
    """
    shape, (along, batch) = call.shape("input"), sequence_axes(call)
    ends = integers(call, "lengths", (shape[batch],))
    if ((ends < 0) | (ends > shape[along])).any():
        raise BadData(
            f"{call.name('lengths')} is {ends.tolist()}; numbers from 0 to {shape[along]} are expected"
        )
    return ends


def _lengths_fit(call: Call) -> None:
    sequence_lengths(call)


def _reverse_sequence(call: Call) -> tuple[Array, ...]:
    """Reverses the leading part of each batch element up to its length."""
    values, (along, batch) = call.array("input"), sequence_axes(call)
    steps = np.arange(values.shape[along])
    ends = sequence_lengths(call).astype(np.int64)[:, np.newaxis]
    order = np.where(steps < ends, ends - 1 - steps, steps)
    shape = [1] * values.ndim
    shape[batch], shape[along] = order.shape
    order = (order if batch < along else order.T).reshape(shape)
    return (np.take_along_axis(values, order, axis=along),)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_REVERSE_V2,
        forms=(
            Form(
                inputs=(tensor("input", rank=ANY_RANK), indexes("axis")),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(),
        shape=_shape,
        reference=_reverse,
        widens=OperationType.REVERSE,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.TFLITE_REVERSE_SEQUENCE,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=(2, MAX_RANK)),
                    indexes("lengths"),
                    scalar("axis"),
                    scalar("batch_axis"),
                ),
                outputs=(tensor("output", rank=(2, MAX_RANK)),),
            ),
        ),
        rows=element_rows(),
        checks=(_lengths_fit,),
        shape=_sequence_shape,
        reference=_reverse_sequence,
        arithmetic=frozenset({"input"}),
    ),
)
