"""GATHER for every type and with batches, GATHER_ND."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import resolve_axis
from neurald.hal.operations.machinery.signature import ANY_RANK, MAX_RANK, Form, scalar, tensor
from neurald.hal.operations.movement import gather
from neurald.hal.operations.tflite.machinery.elements import (
    ELEMENTS_AND_STRINGS,
    SHORT_INDEXES,
    checked_indexes,
    element_rows,
    extend_movement,
    indexes,
)
from neurald.hal.records import replace

_GATHER = next(d for d in gather.DEFINITIONS if d.type is OperationType.GATHER)


def axis_and_batches(call: Call) -> tuple[int, int]:
    """Returns the indexed axis, and the number of leading axes that values and indexes share."""
    values, picked = call.shape("values"), call.shape("indices")
    axis = resolve_axis(call.scalar("axis"), len(values), call.name("axis"))
    batches = int(call.scalar("batch_dims"))
    if batches < 0:
        batches += len(picked)
    if not 0 <= batches <= min(axis, len(picked)):
        raise BadData(
            f"{call.name('batch_dims')} is {call.scalar('batch_dims')}; at most axis {axis} and the rank "
            f"{len(picked)} of the indices are allowed"
        )
    if values[:batches] != picked[:batches]:
        raise BadData(
            f"{call.name('indices')} has shape {list(picked)}; its first {batches} lengths must be those of "
            f"values {list(values)}"
        )
    return axis, batches


def _gather_shape(call: Call) -> tuple[Shape, ...]:
    axis, batches = axis_and_batches(call)
    values, picked = call.shape("values"), call.shape("indices")
    return ((*values[:axis], *picked[batches:], *values[axis + 1 :]),)


def _gather(call: Call) -> tuple[Array, ...]:
    axis, batches = axis_and_batches(call)
    values = call.array("values")
    picked = checked_indexes(call, "indices", values.shape[axis])
    if not batches:
        # A single selected string is not an array.
        return (np.asarray(np.take(values, picked, axis=axis), values.dtype),)
    # One row of indexes per batch, next to the axis that they index.
    (shape,) = _gather_shape(call)
    batched = np.moveaxis(values, axis, batches)
    count = int(np.prod(values.shape[:batches]))
    flat = batched.reshape(count, batched.shape[batches], *batched.shape[batches + 1 :])
    rows = picked.reshape(count, -1 if count else int(np.prod(picked.shape[batches:])))
    found = flat[np.arange(count)[:, np.newaxis], rows]
    inside = batched.shape[batches + 1 : batches + 1 + axis - batches]
    outside = batched.shape[batches + 1 + axis - batches :]
    found = found.reshape(count, rows.shape[1], int(np.prod(inside)), int(np.prod(outside)))
    return (np.ascontiguousarray(found.swapaxes(1, 2)).reshape(shape),)


def _gather_nd_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the shape; the last axis of the indices holds indexes of the values' first axes."""
    values, (*picked, depth) = call.shape("values"), call.shape("indices")
    if depth > len(values):
        raise BadData(
            f"{call.name('indices')} has {depth} numbers for each index; values {list(values)} have rank "
            f"{len(values)}"
        )
    return ((*picked, *values[depth:]),)


def _gather_nd(call: Call) -> tuple[Array, ...]:
    values = call.array("values")
    (shape,) = _gather_nd_shape(call)
    places_of = positions(call, "indices", values.shape)
    depth = call.shape("indices")[-1]
    flat = values.reshape(int(np.prod(values.shape[:depth])), *values.shape[depth:])
    return (np.asarray(flat[places_of], values.dtype).reshape(shape),)


def positions(call: Call, name: str, shape: Shape) -> Array:
    """Converts tuples of an input's last axis to indexes into the flattened `shape`.

    Raises:
        BadData: one is out of range.
    """
    tuples = call.array(name).astype(np.int64)
    depth = tuples.shape[-1]
    limits = np.array(shape[:depth], np.int64)
    outside = (tuples < 0) | (tuples >= limits)
    if outside.any():
        first = tuples[outside.any(axis=-1)][0].tolist()
        raise BadData(f"{call.name(name)} has {first}; indexes into {list(shape[:depth])} are expected")
    strides = np.array([int(np.prod(shape[axis + 1 : depth])) for axis in range(depth)], np.int64)
    result: Array = tuples @ strides
    return result


_FORM = extend_movement(_GATHER, OperationType.TFLITE_GATHER).forms[0]

DEFINITIONS = (
    replace(
        extend_movement(
            _GATHER,
            OperationType.TFLITE_GATHER,
            types=ELEMENTS_AND_STRINGS,
            shape=_gather_shape,
            reference=_gather,
        ),
        forms=(replace(_FORM, inputs=(*_FORM.inputs, scalar("batch_dims", default=0))),),
    ),
    Definition(
        type=OperationType.TFLITE_GATHER_ND,
        forms=(
            Form(
                inputs=(
                    tensor("values", rank=ANY_RANK),
                    indexes("indices", rank=(1, MAX_RANK), types=SHORT_INDEXES),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(ELEMENTS_AND_STRINGS),
        shape=_gather_nd_shape,
        reference=_gather_nd,
    ),
)
