"""RANGE, FILL, ZEROS_LIKE: tensors filled with a sequence or a value."""

import math

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import MAX_OPERAND_BYTES, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, tensor
from neurald.hal.operations.tflite.machinery.elements import (
    ELEMENTS_AND_STRINGS,
    element_rows,
    indexes,
    lengths,
)

_COUNTED = (OperandType.TENSOR_INT32, OperandType.TENSOR_INT64, OperandType.TENSOR_FLOAT32)


def _range_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the number of elements from `start` to `limit` (exclusive)."""
    start, limit, delta = (call.array(name) for name in ("start", "limit", "delta"))
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0 or (step > 0 and first > last) or (step < 0 and first < last):
        raise BadData(f"{call.name('delta')} is {step}; a step that leads from {first} to {last} is expected")
    if call.operand("start").type.dtype.kind == "i":
        return ((-(-abs(last - first) // abs(step)),),)
    with np.errstate(all="ignore"):
        count = float(np.ceil(np.abs((limit - start) / delta)))
    if not math.isfinite(count) or count > MAX_OPERAND_BYTES:
        raise BadData(f"{call.name('output')} would have {count:g} elements, which is too many")
    return ((int(count),),)


def _range(call: Call) -> tuple[Array, ...]:
    """Computes each element as the rounded sum of the previous one and `delta`."""
    start, delta = call.array("start"), call.array("delta")
    (shape,) = _range_shape(call)
    result = np.full(shape, delta)
    result[:1] = start
    with np.errstate(over="ignore"):
        # In place: a second array would take as much memory.
        return (np.add.accumulate(result, dtype=start.dtype, out=result),)


def _fill_shape(call: Call) -> tuple[Shape, ...]:
    return (lengths(call, "dimensions"),)


def _fill(call: Call) -> tuple[Array, ...]:
    return (np.full(lengths(call, "dimensions"), call.array("value")),)


def _shape_of_input(call: Call) -> tuple[Shape, ...]:
    return (call.shape("input"),)


def _zeros(call: Call) -> tuple[Array, ...]:
    return (np.zeros_like(call.array("input")),)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_RANGE,
        forms=(
            Form(
                inputs=tuple(tensor(name, rank=0) for name in ("start", "limit", "delta")),
                outputs=(tensor("output", rank=1),),
            ),
        ),
        rows=element_rows(_COUNTED),
        shape=_range_shape,
        reference=_range,
    ),
    Definition(
        type=OperationType.TFLITE_FILL,
        forms=(
            Form(
                inputs=(indexes("dimensions"), tensor("value", rank=0)),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(ELEMENTS_AND_STRINGS),
        shape=_fill_shape,
        reference=_fill,
        arithmetic=frozenset({"value"}),
    ),
    Definition(
        type=OperationType.TFLITE_ZEROS_LIKE,
        forms=(Form(inputs=(tensor("input", rank=ANY_RANK),), outputs=(tensor("output", rank=ANY_RANK),)),),
        rows=element_rows(),
        shape=_shape_of_input,
        reference=_zeros,
    ),
)
