"""GATHER, EMBEDDING_LOOKUP, HASHTABLE_LOOKUP: rows by index or key."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, resolve_axis, same_scale
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, row, scalar, tensor


def _checked_indexes(call: Call, name: str, length: int) -> Array:
    """Returns indexes into an axis of that length.

    Raises:
        BadData: one of them is out of range.
    """
    indexes = call.array(name)
    outside = (indexes < 0) | (indexes >= length)
    if outside.any():
        position = tuple(
            int(coordinate) for coordinate in np.unravel_index(np.argmax(outside), outside.shape)
        )
        raise BadData(
            f"{call.name(name)} has {indexes[position]} at {list(position)}; indexes from 0 to "
            f"{length - 1} are expected"
        )
    return indexes


def _take(call: Call, name: str, axis: int) -> Array:
    """Takes the elements of `values` at the indexes along an axis."""
    values = call.array("values")
    return np.take(values, _checked_indexes(call, name, values.shape[axis]), axis=axis)


def gather_axis(call: Call) -> int:
    """Returns the axis of `values` that is indexed."""
    return resolve_axis(call.scalar("axis"), len(call.shape("values")), call.name("axis"))


def _gather_check(call: Call) -> None:
    _checked_indexes(call, "indices", call.shape("values")[gather_axis(call)])


def _gather_shape(call: Call) -> tuple[Shape, ...]:
    axis, shape = gather_axis(call), call.shape("values")
    return ((*shape[:axis], *call.shape("indices"), *shape[axis + 1 :]),)


def _gather_reference(call: Call) -> tuple[Array, ...]:
    return (_take(call, "indices", gather_axis(call)),)


def _embedding_check(call: Call) -> None:
    _checked_indexes(call, "lookups", call.shape("values")[0])


def embedding_shape(call: Call) -> tuple[Shape, ...]:
    """Returns the shape of the values that are looked up."""
    return ((*call.shape("lookups"), *call.shape("values")[1:]),)


def _embedding_reference(call: Call) -> tuple[Array, ...]:
    return (_take(call, "lookups", 0),)


def _check_hits_scale(call: Call) -> None:
    """Checks that the output of hits has scale 1 and zero point 0: it holds plain integers."""
    hits = call.operand("hits")
    if (hits.scale, hits.zero_point) != (1.0, 0):
        raise BadData(
            f"{call.name('hits')} has scale {hits.scale:g} and zero point {hits.zero_point}; 1 and 0 are "
            "expected"
        )


def _hashtable_shape(call: Call) -> tuple[Shape, ...]:
    lookups, keys, values = (call.shape(name) for name in ("lookups", "keys", "values"))
    if keys[0] != values[0]:
        raise BadData(
            f"{call.name('keys')} has length {keys[0]}; values {list(values)} have {values[0]} rows"
        )
    return (*lookups, *values[1:]), lookups


def _hashtable_reference(call: Call) -> tuple[Array, ...]:
    """Returns a row for each key that is looked up; raw zeros for unknown keys."""
    lookups, keys, values = (call.array(name) for name in ("lookups", "keys", "values"))
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    slots = np.searchsorted(ordered, lookups)
    hits = slots < len(keys)
    hits[hits] = ordered[slots[hits]] == lookups[hits]
    result = np.zeros((len(lookups), *values.shape[1:]), values.dtype)
    result[hits] = values[order[slots[hits]]]
    return result, hits.astype(np.uint8)


DEFINITIONS = (
    Definition(
        type=OperationType.GATHER,
        forms=(
            Form(
                inputs=(
                    tensor("values"),
                    scalar("axis"),
                    tensor("indices", OperandType.TENSOR_INT32, rank=(0, MAX_RANK)),
                ),
                outputs=(tensor("output", rank=(0, MAX_RANK)),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_3, int32=FeatureLevel.LEVEL_3),
        checks=(same_scale("values"), _gather_check),
        shape=_gather_shape,
        reference=_gather_reference,
    ),
    Definition(
        type=OperationType.EMBEDDING_LOOKUP,
        forms=(
            Form(
                inputs=(
                    tensor("lookups", OperandType.TENSOR_INT32, rank=1),
                    tensor("values", rank=(2, MAX_RANK)),
                ),
                outputs=(tensor("output", rank=(2, MAX_RANK)),),
            ),
        ),
        rows=(
            row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_FLOAT32),
            row(FeatureLevel.LEVEL_3, T=OperandType.TENSOR_INT32),
            row(FeatureLevel.LEVEL_3, T=OperandType.TENSOR_QUANT8_ASYMM),
            row(FeatureLevel.LEVEL_4, T=OperandType.TENSOR_FLOAT16),
            row(FeatureLevel.LEVEL_4, T=OperandType.TENSOR_QUANT8_ASYMM_SIGNED),
        ),
        checks=(same_scale("values"), _embedding_check),
        shape=embedding_shape,
        reference=_embedding_reference,
    ),
    Definition(
        type=OperationType.HASHTABLE_LOOKUP,
        forms=(
            Form(
                inputs=(
                    tensor("lookups", OperandType.TENSOR_INT32, rank=1),
                    tensor("keys", OperandType.TENSOR_INT32, rank=1),
                    tensor("values"),
                ),
                outputs=(
                    tensor("output"),
                    tensor("hits", OperandType.TENSOR_QUANT8_ASYMM, rank=1),
                ),
            ),
        ),
        rows=(
            row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_FLOAT32),
            row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_INT32),
            row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_QUANT8_ASYMM),
        ),
        checks=(same_scale("values"), _check_hits_scale),
        shape=_hashtable_shape,
        reference=_hashtable_reference,
    ),
)
