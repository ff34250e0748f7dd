"""ARG_MAX and ARG_MIN for more types, TOPK_V2, WHERE, UNIQUE."""

from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import require_representable, resolve_axis
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, row, tensor
from neurald.hal.operations.tflite.machinery.elements import (
    INDEXES,
    ORDERED_ELEMENTS,
    element_rows,
    number,
)

#: Ordered element types.
_COUNTS = (OperandType.TENSOR_INT32, OperandType.TENSOR_INT64, OperandType.TENSOR_QUANT16_SYMM)


def _axis(call: Call) -> int:
    shape = call.shape("input")
    axis = resolve_axis(int(call.scalar("axis")), len(shape), call.name("axis"))
    if not shape[axis]:
        raise BadData(f"{call.name('axis')} is {axis}; input {list(shape)} has no elements there")
    return axis


def _extreme_shape(call: Call) -> tuple[Shape, ...]:
    axis, shape = _axis(call), call.shape("input")
    require_representable(call, shape[axis] - 1, "output")
    return ((*shape[:axis], *shape[axis + 1 :]),)


def _extreme(
    operation_type: OperationType, android: OperationType, function: Callable[..., Array]
) -> Definition:
    """Defines ARG_MAX or ARG_MIN; among equal elements the first index wins."""

    def reference(call: Call) -> tuple[Array, ...]:
        found = function(call.array("input"), axis=_axis(call))
        return (np.asarray(found).astype(call.operand("output").type.dtype),)

    return Definition(
        type=operation_type,
        forms=(
            Form(
                inputs=(tensor("input"), number("axis")),
                outputs=(Parameter(name="output", types=INDEXES, ranks=ANY_RANK),),
            ),
        ),
        rows=element_rows(ORDERED_ELEMENTS),
        shape=_extreme_shape,
        reference=reference,
        widens=android,
        arithmetic=frozenset({"input"}),
    )


def _top_shapes(call: Call) -> tuple[Shape, ...]:
    *others, length = call.shape("input")
    require_representable(call, length - 1, "indices")
    shape = (*others, call.scalar_in("k", 0, length))
    return shape, shape


def _top(call: Call) -> tuple[Array, ...]:
    """Selects along the last axis, largest first; of equal elements the lower index comes first."""
    values, k = call.array("input"), int(call.scalar("k"))
    length = values.shape[-1]
    # Sorted from the end with a stable sort, and read from the end.
    reverse = np.argsort(values[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    found = (length - 1 - reverse)[..., :k]
    indices = call.operand("indices").type.dtype
    return np.take_along_axis(values, found, axis=-1), found.astype(indices)


def _where_shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("condition")
    return ((int(np.count_nonzero(call.array("condition"))), len(shape)),)


def _where(call: Call) -> tuple[Array, ...]:
    """Returns the indexes of all non-zero elements, one per row."""
    condition = call.array("condition")
    if not condition.ndim:
        return (np.zeros((int(np.count_nonzero(condition)), 0), np.int64),)
    return (np.argwhere(condition).astype(np.int64),)


def _distinct(call: Call) -> tuple[Array, Array]:
    """Returns distinct values in order of occurrence, and the index of each element's value."""
    _, first, inverse = np.unique(
        call.array("input"), return_index=True, return_inverse=True, equal_nan=False
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return call.array("input")[first[order]], rank[inverse]


def _unique_shapes(call: Call) -> tuple[Shape, ...]:
    return call.once(_distinct)[0].shape, call.shape("input")


def _unique(call: Call) -> tuple[Array, ...]:
    values, indices = call.once(_distinct)
    return values, indices.astype(call.operand("indices").type.dtype)


DEFINITIONS = (
    _extreme(OperationType.TFLITE_ARG_MAX, OperationType.ARGMAX, np.argmax),
    _extreme(OperationType.TFLITE_ARG_MIN, OperationType.ARGMIN, np.argmin),
    Definition(
        type=OperationType.TFLITE_TOPK_V2,
        forms=(
            Form(
                inputs=(tensor("input"), number("k")),
                outputs=(tensor("output"), tensor("indices", "I")),
            ),
        ),
        rows=tuple(
            row(FeatureLevel.LEVEL_1, T=kind, I=counts, zero_points16=True)
            for kind in ORDERED_ELEMENTS
            for counts in _COUNTS
        ),
        shape=_top_shapes,
        reference=_top,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.TFLITE_WHERE,
        forms=(
            Form(
                inputs=(tensor("condition", rank=ANY_RANK),),
                outputs=(tensor("output", OperandType.TENSOR_INT64, rank=2),),
            ),
        ),
        rows=element_rows(),
        shape=_where_shape,
        reference=_where,
    ),
    Definition(
        type=OperationType.TFLITE_UNIQUE,
        forms=(
            Form(
                inputs=(tensor("input", rank=1),),
                outputs=(tensor("output", rank=1), Parameter(name="indices", types=INDEXES, ranks=(1, 1))),
            ),
        ),
        rows=element_rows(ORDERED_ELEMENTS),
        shape=_unique_shapes,
        reference=_unique,
    ),
)
