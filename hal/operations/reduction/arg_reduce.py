"""ARGMAX, ARGMIN, TOPK_V2: positions of the largest and smallest elements."""

from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, require_representable, resolve_axis, same_scale
from neurald.hal.operations.machinery.signature import Form, scalar, tensor

_ROWS = data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_3, int32=FeatureLevel.LEVEL_3)
_INDEX = np.dtype(np.int32)


def _axis(call: Call) -> int:
    shape = call.shape("input")
    axis = resolve_axis(call.scalar("axis"), len(shape), call.name("axis"))
    if not shape[axis]:
        raise BadData(f"{call.name('axis')} is {axis}; input {list(shape)} has no elements there")
    return axis


def _extreme_shape(call: Call) -> tuple[Shape, ...]:
    """Removes the axis; the result has at least rank 1."""
    axis, shape = _axis(call), call.shape("input")
    require_representable(call, shape[axis] - 1, "output")
    return ((*shape[:axis], *shape[axis + 1 :]) or (1,),)


def _extreme(operation_type: OperationType, function: Callable[..., Array]) -> Definition:
    """Defines ARGMAX or ARGMIN; among equal elements the first index wins."""

    def reference(call: Call) -> tuple[Array, ...]:
        found = function(call.array("input"), axis=_axis(call))
        return (np.asarray(found).astype(_INDEX).reshape(_extreme_shape(call)[0]),)

    return Definition(
        type=operation_type,
        forms=(
            Form(
                inputs=(tensor("input"), scalar("axis")),
                outputs=(tensor("output", OperandType.TENSOR_INT32),),
            ),
        ),
        rows=_ROWS,
        shape=_extreme_shape,
        reference=reference,
        arithmetic=frozenset({"input"}),
    )


def _top_shapes(call: Call) -> tuple[Shape, ...]:
    *others, length = call.shape("input")
    require_representable(call, length - 1, "indices")
    shape = (*others, call.scalar_in("k", 1, length))
    return shape, shape


def _top_reference(call: Call) -> tuple[Array, ...]:
    """Selects along the last axis, largest first; of equal elements the higher index is first."""
    values, k = call.array("input"), call.scalar("k")
    # Sorted in ascending order with a stable sort, and read from the end.
    indices = np.argsort(values, axis=-1, kind="stable")[..., : -k - 1 : -1]
    return np.take_along_axis(values, indices, axis=-1), indices.astype(_INDEX)


DEFINITIONS = (
    _extreme(OperationType.ARGMAX, np.argmax),
    _extreme(OperationType.ARGMIN, np.argmin),
    Definition(
        type=OperationType.TOPK_V2,
        forms=(
            Form(
                inputs=(tensor("input"), scalar("k")),
                outputs=(tensor("output"), tensor("indices", OperandType.TENSOR_INT32)),
            ),
        ),
        rows=_ROWS,
        checks=(same_scale("input"),),
        shape=_top_shapes,
        reference=_top_reference,
    ),
)
